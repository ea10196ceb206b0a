// What the ways of rung fp16x3 take (model.cpp): cycles of the whole call.
#pragma once

#include "cuda/plan/device.h"
#include "cuda/rungs/9_fp16x3/plan.h"

namespace tiled {

// Of tiles whose operands come by TMA, planes or direct. `slowdown` is of tensor cores that work
// all at once, beside an H200's.
double fp16x3_cycles(const Problem& problem, const DeviceInfo& device, double slowdown,
                     const Fp16x3Plan& plan);

// The same of a tile of async.cu, in cycles of the device's own; only their order counts. What a
// step costs beside its products is assumed, no such device having been measured: of the time that
// L2 takes for its operands, a quarter is not hidden.
double fp16x3_async_cycles(const Problem& problem, const DeviceInfo& device,
                           const Fp16x3Plan& plan);

// And of few_rows.cu.
double fp16x3_few_rows_cycles(const Problem& problem, const DeviceInfo& device,
                              const Fp16x3Plan& plan);

}  // namespace tiled
