// The figures of a report. How they are written: report_text.cpp and report_json.cpp.
#include "explain/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cuda/plan/current_rules.h"

namespace tiled {
namespace {

double as_double(int64_t value) { return static_cast<double>(value); }

// Elements of memory under a strided [batch][rows][columns]: a stride of 0 repeats an element.
double distinct_elements(const Operand& operand, int64_t batch, int64_t rows, int64_t columns) {
  double elements = 1;
  elements *= operand.batch_stride == 0 && batch > 1 ? 1 : as_double(batch);
  elements *= operand.row_stride == 0 && rows > 1 ? 1 : as_double(rows);
  elements *= operand.col_stride == 0 && columns > 1 ? 1 : as_double(columns);
  return elements;
}

void count_traffic(PlanReport& r) {
  const Problem& p = r.problem;
  const double batch = as_double(p.batch), m = as_double(p.m), n = as_double(p.n),
               k = as_double(p.k);
  const double element = as_double(size_of(p.dtype));
  const double c_bytes = batch * m * n * as_double(size_of(p.epilogue.out_dtype));
  // How often A is read: once for each column of tiles; B: for each row of tiles. A thread of naive
  // shares nothing, so its tile is one element.
  const bool shares = r.about.shares;
  const double a_reads = shares ? as_double(r.plan.tiles_n) : n;
  const double b_reads = shares ? as_double(r.plan.tiles_m) : m;
  r.tile_bytes = batch * (m * k * a_reads + k * n * b_reads) * element + c_bytes;
  r.compulsory_bytes = compulsory_bytes(p);
}

std::string why_unknown(int capability) {
  if (!has_kernel_resources()) return "built without CUDA or without cuobjdump";
  return "no kernel is built for compute capability " + capability_name(capability);
}

void count_blocks(PlanReport& r) {
  const Plan& plan = r.plan;
  const Step& step = plan.main_step();
  r.resources = kernel_resources(r.about.kernel, r.device.capability);
  if (!r.resources) r.resources_unknown = why_unknown(r.device.capability);
  r.occupancy =
      occupancy(r.device, {r.threads, r.resources ? r.resources->registers : 0, step.shared_bytes});

  r.blocks = as_double(step.grid_x) * step.grid_y;
  const double places = static_cast<double>(r.occupancy.blocks_per_sm) * r.device.multiprocessors;
  r.waves = r.last_wave = std::numeric_limits<double>::quiet_NaN();
  if (places > 0) {
    r.waves = r.blocks / places;
    const double rest = std::fmod(r.blocks, places);
    r.last_wave = (rest == 0 && r.blocks > 0 ? places : rest) / places;
  }
}

void count_step(PlanReport& r, double flops_per_multiply_add) {
  const Plan& plan = r.plan;
  const double m = plan.block_m, n = plan.block_n, k = plan.block_k;
  const bool shares = r.about.shares;
  r.steps = r.problem.k / plan.block_k + (r.problem.k % plan.block_k != 0);
  // Without sharing each of the m * n threads loads its own two elements.
  r.loads_per_step = shares ? (m + n) * k : 2 * m * n * k;
  r.flops_per_step = flops_per_multiply_add * m * n * k;
  r.flops_per_load = r.flops_per_step / r.loads_per_step;
  r.pending_loads = r.occupancy.blocks_per_sm * r.loads_per_step;
}

}  // namespace

double compulsory_bytes(const Problem& p) {
  const double inputs =
      distinct_elements(p.a, p.batch, p.m, p.k) + distinct_elements(p.b, p.batch, p.k, p.n);
  const double results = as_double(p.batch) * as_double(p.m) * as_double(p.n);
  return inputs * as_double(size_of(p.dtype)) + results * as_double(size_of(p.epilogue.out_dtype));
}

double flops_of(const Problem& p) {
  return (is_complex(p.dtype) ? 8 : 2) * as_double(p.batch) * as_double(p.m) * as_double(p.n) *
         as_double(p.k);
}

PlanReport report(const Problem& problem, const DeviceInfo& device, const Plan& plan) {
  PlanReport r{};
  r.problem = problem;
  r.device = device;
  r.plan = plan;
  r.about = rung_of(plan.algo)->describe(problem, device, plan);
  if (plan.swap_ab) std::swap(r.about.thread_m, r.about.thread_n);
  const Algo* const asked = rung_of(plan.algo)->use == Use::ByName ? &plan.algo : nullptr;
  const std::shared_ptr<const Rules> rules = current_rules(device);
  r.ways = ranked_ways(problem, device, *rules, asked);
  const NamedWay chosen = name_of_way(problem, plan);
  if (const MeasuredWay* way = rules->measured(problem))
    if (way->algo == plan.algo && way->name == chosen) r.measured = *way;
  std::stable_partition(r.ways.begin(), r.ways.end(), [&](const Choice& way) {
    return way.plan.algo == plan.algo && name_of_way(problem, way.plan) == chosen;
  });
  r.threads = plan.main_step().threads_x * plan.main_step().threads_y;
  count_blocks(r);

  const double flops_per_multiply_add = is_complex(problem.dtype) ? 8 : 2;
  count_step(r, flops_per_multiply_add);
  count_traffic(r);
  r.flops = flops_of(problem);
  r.peak_flops = peak_flops(device, problem.dtype, problem.arithmetic);
  r.balance = r.peak_flops / device.memory_bandwidth;
  r.tile_roofline = roofline(device, r.tile_bytes, r.flops, r.peak_flops);
  r.compulsory_roofline = roofline(device, r.compulsory_bytes, r.flops, r.peak_flops);
  return r;
}

}  // namespace tiled
