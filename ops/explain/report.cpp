// The figures of a report. How they are written: report_text.cpp and report_json.cpp.
#include "explain/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cuda/plan/tile_info.h"

namespace tiled {
namespace {

bool is_complex(DType dtype) { return dtype == DType::Complex64 || dtype == DType::Complex128; }

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
  const bool shares = r.plan.algo != Algo::Naive;
  const double a_reads = shares ? as_double(r.plan.tiles_n) : n;
  const double b_reads = shares ? as_double(r.plan.tiles_m) : m;
  r.tile_bytes = batch * (m * k * a_reads + k * n * b_reads) * element + c_bytes;
  r.compulsory_bytes =
      (distinct_elements(p.a, p.batch, p.m, p.k) + distinct_elements(p.b, p.batch, p.k, p.n)) *
          element +
      c_bytes;
}

std::string why_unknown(int capability) {
  if (!has_kernel_resources()) return "built without CUDA or without cuobjdump";
  return "no kernel is built for compute capability " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

void count_blocks(PlanReport& r) {
  const Plan& plan = r.plan;
  r.kernel = kernel_key(r.problem, plan);
  r.resources = kernel_resources(r.kernel, r.device.capability);
  if (!r.resources) r.resources_unknown = why_unknown(r.device.capability);
  r.occupancy =
      occupancy(r.device, {r.threads, r.resources ? r.resources->registers : 0, plan.shared_bytes});

  r.blocks = as_double(plan.grid_x) * plan.grid_y;
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
  const bool shares = plan.algo != Algo::Naive;
  r.steps = r.problem.k / plan.block_k + (r.problem.k % plan.block_k != 0);
  // Without sharing each of the m * n threads loads its own two elements.
  r.loads_per_step = shares ? (m + n) * k : 2 * m * n * k;
  r.flops_per_step = flops_per_multiply_add * m * n * k;
  r.flops_per_load = r.flops_per_step / r.loads_per_step;
  r.pending_loads = r.occupancy.blocks_per_sm * r.loads_per_step;
}

// The model's view of the chosen way and of the best of the others, tile by tile.
std::vector<TileEstimate> hopper_estimates(const PlanReport& r) {
  std::vector<TileEstimate> estimates;
  for (const HopperPlan& plan : hopper_plans(r.problem, r.device)) {
    const TileEstimate next = {plan, estimate(r.problem, r.device, plan)};
    const auto same = std::find_if(estimates.begin(), estimates.end(),
                                   [&](const auto& other) { return other.plan.tile == plan.tile; });
    if (same == estimates.end())
      estimates.push_back(next);
    else if (next.estimate.cycles < same->estimate.cycles)
      *same = next;
  }
  std::stable_sort(estimates.begin(), estimates.end(), [](const auto& x, const auto& y) {
    return x.estimate.cycles < y.estimate.cycles;
  });
  return estimates;
}

// Who owns which elements is the instructions' doing: a lane of mma.sync or wgmma has pairs of
// columns in two rows of every 8 columns.
void describe_tensor_tile(PlanReport& r) {
  switch (r.plan.algo) {
    case Algo::Hopper: {
      const HopperTileInfo& tile = hopper_tile(r.plan.hopper.tile);
      r.tile = hopper_tile_name(r.plan.hopper.tile);
      r.thread_m = tile.group_p / 64 * 2;
      r.thread_n = tile.group_q / 4;
      if (r.plan.hopper.exchanged) std::swap(r.thread_m, r.thread_n);
      r.estimates = hopper_estimates(r);
      break;
    }
    case Algo::MmaTile: r.thread_m = 4, r.thread_n = 8; break;
    case Algo::Fp16x3: {
      r.tile = fp16x3_tile_name(r.plan.hopper.tile);
      if (r.plan.hopper.tile == FEW_ROWS_INDEX) break;
      r.thread_m = 2;
      r.thread_n = fp16x3_tile(r.plan.hopper.tile).block_q / 4;
      if (r.plan.hopper.exchanged) std::swap(r.thread_m, r.thread_n);
      break;
    }
    default: r.thread_m = 2, r.thread_n = r.plan.block_n / 4;
  }
}

}  // namespace

PlanReport report(const Problem& problem, const DeviceInfo& device, const Plan& plan) {
  PlanReport r{};
  r.problem = problem;
  r.device = device;
  r.plan = plan;
  r.threads = plan.threads_x * plan.threads_y;
  r.thread_m = r.thread_n = 1;
  if (plan.algo == Algo::RegisterTile || is_fp64_mma(problem, plan)) {
    const TileInfo tile = tile_info(problem.dtype, plan);
    r.tile = tile.name;
    r.thread_m = tile.thread_m;
    r.thread_n = tile.thread_n;
  } else if (on_tensor_cores(plan.algo)) {
    describe_tensor_tile(r);
  }
  count_blocks(r);

  const double flops_per_multiply_add = is_complex(problem.dtype) ? 8 : 2;
  count_step(r, flops_per_multiply_add);
  count_traffic(r);
  r.flops = flops_per_multiply_add * as_double(problem.batch) * as_double(problem.m) *
            as_double(problem.n) * as_double(problem.k);
  r.peak_flops = peak_flops(device, problem.dtype, problem.arithmetic);
  r.balance = r.peak_flops / device.memory_bandwidth;
  r.tile_roofline = roofline(device, r.tile_bytes, r.flops, r.peak_flops);
  r.compulsory_roofline = roofline(device, r.compulsory_bytes, r.flops, r.peak_flops);
  return r;
}

}  // namespace tiled
