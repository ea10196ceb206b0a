// Reports for people. Four short tables: the plan, what one multiprocessor holds and why no more,
// what one step moves and computes, and the roofline.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <locale>
#include <sstream>

#include "core/segments.h"
#include "cuda/plan/fp16x3_plan.h"
#include "cuda/plan/tile_info.h"
#include "explain/report.h"

namespace tiled {
namespace {

std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::fixed << std::setprecision(decimals) << value;
  return text.str();
}

// A count with its thousands apart: 262,144.
std::string grouped(double value) {
  std::string digits = fixed(value, 0);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

// Three digits: 683, 31.5, 4.36, 0.25. What is below 0.001 shows as 0.
std::string three_digits(double value) {
  if (!std::isfinite(value)) return "-";
  if (value >= 999.5) return grouped(value);
  if (value >= 99.95) return fixed(value, 0);
  if (value >= 9.995) return fixed(value, 1);
  return fixed(value, value >= 0.1 || value == 0 ? 2 : 3);
}

// Two digits and an exponent: 7.6e-06.
std::string scientific(double value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::scientific << std::setprecision(1) << value;
  return text.str();
}

// With a decimal prefix from nano to peta: 66.9 Tflop/s, 2.05 ms.
std::string with_unit(double value, const std::string& unit) {
  if (!std::isfinite(value)) return "-";
  constexpr const char* PREFIXES[] = {"n", "u", "m", "", "k", "M", "G", "T", "P"};
  constexpr int LAST = 8;
  int prefix = 3;
  while (value >= 999.5 && prefix < LAST) value /= 1000, ++prefix;
  while (value > 0 && value < 0.9995 && prefix > 0) value *= 1000, --prefix;
  return three_digits(value) + " " + PREFIXES[prefix] + unit;
}

std::string kibibytes(int64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  return fixed(static_cast<double>(bytes) / 1024, bytes % 1024 == 0 ? 0 : 1) + " KiB";
}

std::string capability_name(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::Int8:
    case DType::Int16:
    case DType::Int32:
    case DType::Int64:
    case DType::UInt8: return true;
    default: return false;
  }
}

// One line of a table: a name and what there is to say.
std::string line(const std::string& name, const std::string& text) {
  std::ostringstream out;
  out << "  " << std::left << std::setw(11) << name << ' ' << text << '\n';
  return out.str();
}

std::string problem_text(const Problem& p) {
  const std::string batch = p.batch == 1 ? "" : std::to_string(p.batch) + ", ";
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return "[" + batch + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  std::string text = "C" + matrix(p.m, p.n) + " = A" + matrix(p.m, p.k) + " B" + matrix(p.k, p.n) +
                     ", " + name_of(p.dtype);
  if (p.epilogue.out_dtype != p.dtype) text += std::string(" to ") + name_of(p.epilogue.out_dtype);
  return text;
}

std::string access_text(Access access, const char* rows) {
  switch (access) {
    case Access::AlongK: return "by vectors along k";
    case Access::AlongMN: return std::string("by vectors along ") + rows;
    case Access::Elements: return "by single elements";
  }
  return "?";
}

// How operands are read where a plan chose, and what is done before.
std::string access_lines(const Plan& plan) {
  std::string text;
  if (plan.transpose_a) text += line("transposes", "A first, to lie along m");
  if (plan.transpose_b) text += line("transposes", "B first, to lie along n");
  if (plan.workspace_bytes > 0)
    text += line("workspace", with_unit(static_cast<double>(plan.workspace_bytes), "B"));
  return text + line("reads", "A " + access_text(plan.access_a, "m") + ", B " +
                                  access_text(plan.access_b, "n"));
}

// hopper's own choices, and the model's figures for the best tiles.
std::string hopper_lines(const PlanReport& r) {
  const HopperPlan& plan = r.plan.hopper;
  const int blocks = plan.cluster_p * plan.cluster_q;
  std::string text =
      line("roles", std::string(hopper_tile(plan.tile).ping_pong ? "consumers take tiles in turn"
                                                                 : "consumers share a tile") +
                        (plan.exchanged ? "; A and B exchanged" : ""));
  if (blocks > 1) text += line("cluster", std::to_string(blocks) + " blocks share an operand");
  const bool repacks_a = plan.exchanged ? plan.repack_q : plan.repack_p;
  const bool repacks_b = plan.exchanged ? plan.repack_p : plan.repack_q;
  if (repacks_a || repacks_b)
    text += line("repacks", repacks_a && repacks_b ? "A and B" : repacks_a ? "A" : "B");
  if (plan.share_segments) text += line("segments", "shared out; a second kernel adds the sums");
  if (r.plan.workspace_bytes > 0)
    text += line("workspace", with_unit(static_cast<double>(r.plan.workspace_bytes), "B"));
  constexpr size_t SHOWN = 4;
  for (size_t i = 0; i < std::min(r.estimates.size(), SHOWN); ++i) {
    const TileEstimate& e = r.estimates[i];
    text += line(i == 0 ? "estimate" : "rejected",
                 std::string(hopper_tile_name(e.plan.tile)) + ": " + grouped(e.estimate.cycles) +
                     " cycles; a step " + grouped(e.estimate.tensor) + " of tensor cores, " +
                     grouped(e.estimate.shared) + " of shared memory, " + grouped(e.estimate.feed) +
                     " of L2; " + three_digits(e.estimate.waves) + " tiles a multiprocessor");
  }
  return text;
}

// fp16x3's kernels, in the order of their launch.
std::string fp16x3_lines(const PlanReport& r) {
  const Problem& p = r.problem;
  if (p.k < FP16X3_LEAST_K)
    return line("guard", "computes all elements in fp64, since K is below " +
                             std::to_string(FP16X3_LEAST_K));
  const bool few_rows = r.plan.hopper.tile == FEW_ROWS_INDEX;
  const bool one = few_rows || is_direct(r.plan.hopper.tile), exchanged = r.plan.hopper.exchanged;
  const std::string first = one ? (exchanged ? "A" : "B") : "A and B";
  const std::string on_the_way = std::string(exchanged ? "B" : "A") + " on its way, ";
  std::string text =
      line("split", first + " into two planes of fp16, " + (one ? on_the_way : std::string()) +
                        "with a scale for every row of A and column of B");
  text += line("product", "hi hi + (hi lo + lo hi) / 2048, added up in fp32 for every 64 of K" +
                              std::string(exchanged && !few_rows ? "; A and B exchanged" : ""));
  text += line("guard", "elements whose parts lost more than " + scientific(fp16x3_tolerance(p.k)) +
                            " of them, and those not finite: again, in fp64");
  return text + line("workspace", with_unit(static_cast<double>(r.plan.workspace_bytes), "B"));
}

std::string plan_table(const PlanReport& r) {
  const Plan& plan = r.plan;
  std::string text = line("problem", problem_text(r.problem));
  text += line("kernel", r.kernel);
  text +=
      line("tile", std::to_string(plan.block_m) + " x " + std::to_string(plan.block_n) + " of C, " +
                       std::to_string(plan.block_k) + " of K in a step; a thread " + "owns " +
                       std::to_string(r.thread_m) + " x " + std::to_string(r.thread_n));
  if (plan.algo == Algo::RegisterTile || is_fp64_mma(r.problem, plan)) text += access_lines(plan);
  if (plan.algo == Algo::Hopper) text += hopper_lines(r);
  if (plan.algo == Algo::Fp16x3) text += fp16x3_lines(r);
  std::string grid = grouped(r.blocks) + " blocks of " + std::to_string(r.threads) +
                     " threads: " + grouped(static_cast<double>(plan.tiles_m)) + " x " +
                     grouped(static_cast<double>(plan.tiles_n)) + " tiles";
  if (plan.grid_y > 1) grid += ", " + std::to_string(plan.grid_y) + " batch entries at a time";
  text += line("grid", grid);
  if (leaves_out_hopper_kernels(r.device)) text += line("left out", HOPPER_LEFT_OUT);
  if (segment_count(r.problem.k) > 1)
    text += line("K", "summed in " + std::to_string(segment_count(r.problem.k)) +
                          " segments of up to " + std::to_string(SEGMENT_K));
  return text;
}

// A name, a figure, and what it is made of.
std::string row(const std::string& name, const std::string& figure, const std::string& what) {
  std::ostringstream out;
  out << "  " << std::left << std::setw(14) << name << std::right << std::setw(6) << figure << "   "
      << what << '\n';
  return out.str();
}

// A resource, the blocks it alone would allow, and of what.
std::string limit_row(const std::string& resource, int blocks, int binding, std::string what) {
  constexpr size_t WIDTH = 32;
  if (blocks == binding) {
    what.resize(std::max(what.size(), WIDTH), ' ');
    what += " <- limit";
  }
  return row(resource, blocks < 0 ? "any" : std::to_string(blocks), what);
}

std::string occupancy_table(const PlanReport& r) {
  const Occupancy& o = r.occupancy;
  const DeviceInfo& d = r.device;
  std::string text = "\nA multiprocessor holds " + std::string(r.resources ? "" : "at most ") +
                     std::to_string(o.blocks_per_sm) + " block" +
                     (o.blocks_per_sm == 1 ? "" : "s") + ": " + grouped(o.threads_per_sm) + " of " +
                     grouped(d.threads_per_sm) + " threads, occupancy " +
                     fixed(100 * o.fraction, 0) + " %\n";
  text += limit_row("threads", o.by_threads, o.blocks_per_sm,
                    std::to_string(r.threads) + " a block, of " + grouped(d.threads_per_sm));
  text += limit_row("blocks", o.by_blocks, o.blocks_per_sm, "the device's own limit");
  if (r.resources) {
    text += limit_row(
        "registers", o.by_registers, o.blocks_per_sm,
        std::to_string(r.resources->registers) + " a thread, of " + grouped(d.registers_per_sm));
    if (r.resources->stack_bytes > 0)
      text += row("", "",
                  "and " + std::to_string(r.resources->stack_bytes) + " bytes of stack a thread");
    if (r.resources->capability != d.capability)
      text += row("", "", "as compiled for " + capability_name(r.resources->capability));
  } else {
    text += "  registers: not known (" + r.resources_unknown + ")\n";
  }
  text += limit_row(
      "shared memory", o.by_shared, o.blocks_per_sm,
      kibibytes(r.plan.shared_bytes) + " a block, of " + kibibytes(d.shared_bytes_per_sm));
  if (!std::isnan(r.waves) && r.blocks > 0)
    text +=
        row("waves", three_digits(r.waves),
            grouped(static_cast<double>(o.blocks_per_sm) * d.multiprocessors) +
                " blocks at a time; the last wave is " + fixed(100 * r.last_wave, 0) + " % full");
  return text;
}

std::string step_table(const PlanReport& r, const std::string& operation) {
  std::string text =
      "\nOne step of a block; a tile takes " + grouped(static_cast<double>(r.steps)) + "\n";
  text += line("loads", grouped(r.loads_per_step) + " elements");
  text += line("computes", grouped(r.flops_per_step) + " " + operation + "s, " +
                               three_digits(r.flops_per_load) + " for each element loaded");
  text += line("under way", grouped(r.pending_loads) + " loads on a multiprocessor");
  return text;
}

std::string roofline_row(const std::string& name, double bytes, const Roofline& roofline,
                         const std::string& operation) {
  std::ostringstream out;
  out << "  " << std::left << std::setw(16) << name << std::right << std::setw(9)
      << with_unit(bytes, "B") << std::setw(12) << three_digits(roofline.intensity) << std::setw(16)
      << with_unit(roofline.flops_bound, operation + "/s") << std::setw(11)
      << with_unit(roofline.seconds_bound, "s") << "   " << roofline.bound << '\n';
  return out.str();
}

std::string roofline_table(const PlanReport& r, const std::string& operation) {
  std::string text = "\nRoofline: " + with_unit(r.flops, operation) + "; peak " +
                     with_unit(r.peak_flops, operation + "/s") + ", memory " +
                     with_unit(r.device.memory_bandwidth, "B/s") + ", balance " +
                     three_digits(r.balance) + " " + operation + "/byte\n";
  std::ostringstream head;
  head << std::setw(27) << "bytes" << std::setw(12) << (operation + "/byte") << std::setw(16)
       << "at most" << std::setw(11) << "at least" << "   bound by\n";
  return text + head.str() +
         roofline_row("loads of tiles", r.tile_bytes, r.tile_roofline, operation) +
         roofline_row("each byte once", r.compulsory_bytes, r.compulsory_roofline, operation);
}

}  // namespace

std::string to_text(const PlanReport& r) {
  const std::string operation = is_integer(r.problem.dtype) ? "op" : "flop";
  return std::string(name_of(r.plan.algo)) + " on " + r.device.name + "\n" + plan_table(r) +
         occupancy_table(r) + step_table(r, operation) + roofline_table(r, operation);
}

}  // namespace tiled
