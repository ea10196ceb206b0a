// A report says what a plan means on a device: the slow path behind tiled_mm.explain and
// tiled_mm.plan. Nothing here runs when matrices are multiplied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.h"
#include "core/text.h"
#include "cuda/plan/device.h"
#include "cuda/plan/estimate.h"
#include "cuda/plan/measured.h"
#include "explain/kernel_resources.h"

namespace tiled {

struct PlanReport {
  Problem problem;
  DeviceInfo device;
  Plan plan;

  Description about;                         // what the rung says of it
  std::vector<Choice> ways;                  // the plan's own first, then by their estimates
  std::optional<MeasuredWay> measured;       // if tuning found the plan's way, not an estimate
  int threads;                               // of one block of the main step
  double blocks;                             // of the grid
  std::optional<KernelResources> resources;  // empty where the compiler's report is not known,
  std::string resources_unknown;             // and then why

  Occupancy occupancy;  // without the registers' limit where they are not known
  double waves;         // blocks / blocks that the device holds at a time; NaN if it holds none
  double last_wave;     // fraction of the last wave's places that have a block; NaN likewise

  // One step of one block: the textbook's phase. A multiply-add counts as two flops, a complex one
  // as eight.
  int64_t steps;          // of each tile
  double loads_per_step;  // elements from global memory: A's tile and B's
  double flops_per_step;
  double flops_per_load;  // flops for each of these elements
  double pending_loads;   // loads that the blocks of one multiprocessor have under way together

  double flops;       // of the whole product
  double peak_flops;  // flop/s of the device in this arithmetic
  double balance;     // flops per byte from which on the device is bound by computing

  // Bytes from and to global memory: if each tile loads what it needs and no cache helps, which is
  // no bound where one does; and if every element is moved once (an expanded operand is as large as
  // its memory), which is the least.
  double tile_bytes;
  double compulsory_bytes;
  Roofline tile_roofline;
  Roofline compulsory_roofline;
};

// Bytes if every element is moved once; an expanded operand is as large as its memory.
double compulsory_bytes(const Problem& problem);

// A multiply-add is two flops, a complex one eight.
double flops_of(const Problem& problem);

// "fma", "cpu16", "tensor", "tf32", "fp16x3" or "fp8".
std::string arithmetic_name(Arithmetic arithmetic);

// A scaled product's: {a, b (torch's names of the recipes), b_dtype}; else null.
std::string scales_json(const Problem& problem);

// One of the ways in JSON, as to_json() lists them, to be added to.
Object way_object(const Problem& problem, const Plan& plan);

PlanReport report(const Problem& problem, const DeviceInfo& device, const Plan& plan);

// For people: what happens, what limits it, and how fast it can be at best; the way that was chosen
// and the next three, or all of them.
std::string to_text(const PlanReport& report, bool verbose = false);

// For programs. One JSON object; a number that does not exist is null (a limit that a resource does
// not set, the waves of a block that does not fit, an infinite intensity).
//
//   device, dtype, out_dtype, algo, kernel          strings
//   batch, m, n, k, segments                        the problem; segments of K
//   leaves        the k of each, where a tree sums K (core/sum_tree.h): the rest is then of the one
//                 kernel that does, or of the product of the first leaves, by its k; else null
//   converted     the dtype of a product that one of another dtype computes
//                 (cuda/plan/conversion.h): all else is then of the other one; else null
//   tile          {name (null for the rungs of one tile), m, n, k, thread_m, thread_n}
//   steps         [{work: "copy", "split", "product", "clear", "sums" or "guard", threads (of a
//                 block), grid_x, grid_y, cluster, shared_bytes, dynamic (they are given at the
//                 launch), workspace_bytes}], every kernel that will run, in this order
//   threads       {x, y, block}
//   grid          {x, y, tiles_m, tiles_n, blocks}
//   shared_bytes  of one block
//   workspace_bytes  of global memory, for the time of the call
//   arithmetic    "fma", "tensor", "tf32", "fp16x3" or "fp8"
//   scales        {a, b, b_dtype}; null if the product has none
//   left_free     multiprocessors that the plan leaves to other kernels
//   left_out      what this build leaves out for the device; null if nothing
//   registers     {per_thread, stack_bytes, compiled_for (90 for 9.0)}; null if not known
//   registers_unknown   why, null if they are known
//   occupancy     as below
//   waves, last_wave
//   step          {count, loads, flops, flops_per_load, pending_loads}
//   flops, peak_flops, memory_bandwidth, balance
//   traffic       {tiles: T, compulsory: T}, T = {bytes, and the roofline as below}
//
//   ways          [{algo, tile ("" for the rungs of one tile), swap_ab, cluster_p, cluster_q,
//                 split_k, seconds (estimated)}], the plan's own first, then every other
//                 that was looked at, the fastest first
//   measured      {seconds, estimated_seconds (measured, of the way that estimates would have
//                 taken), date}; null where the way was chosen by estimates
//
// and what the rung says of its own plans, as its describe() has it: access, transposes, hopper,
// few_rows. Those keys are missing in the plans of others.
std::string to_json(const PlanReport& report);

// {blocks_per_sm, threads_per_sm, shared_bytes_per_sm, fraction, limit, by_threads, by_blocks,
// by_registers, by_shared}
std::string to_json(const Occupancy& occupancy);

// {intensity, flops_bound, seconds_bound, bound}
std::string to_json(const Roofline& roofline);

}  // namespace tiled
