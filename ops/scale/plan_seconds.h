// The cost of a plan: its time, and a bound of that which takes no simulation.
#pragma once

#include "scale/plan.h"

namespace tiled::scale {

constexpr int64_t STREAM_SLOTS = 2;  // of blocks that go by: one is used while the next comes

constexpr int64_t divided(int64_t x, int64_t by) { return (x + by - 1) / by; }

// The seconds of one product of the plan's full blocks. A product of a tile, or of one segment
// where C stays, takes `seconds_of_one`; if that is 0 it is not known, and the arithmetic's rate
// decides.
double product_seconds(const Plan& plan, const Task& task, const Rates& rates,
                       double seconds_of_one);

// Goes through the plan as the engine does, with a clock for the link each way and one for the
// arithmetic: a block comes when the link is free and the place's last product is done; a product
// begins when its blocks are there and a place for its tile is free. Sets the plan's seconds and
// bytes; its product_seconds must be set. False, and nothing set, as soon as it is sure to take
// longer than `limit` seconds.
bool simulate(Plan& plan, const Task& task, const Rates& rates, double limit);

// The planner compares this: the plan's seconds, and a little for its traffic.
double price_of(const Plan& plan, const Rates& rates);

// No simulation says less.
double least_price(const Plan& plan, const Task& task, const Rates& rates);

}  // namespace tiled::scale
