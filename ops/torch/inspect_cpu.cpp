#include "torch/inspect_cpu.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "core/segments.h"
#include "core/text.h"
#include "cpu/blocked.h"
#include "cpu/blocking.h"
#include "cpu/budgets.h"
#include "cpu/rungs.h"
#include "explain/lines.h"
#include "explain/report.h"

namespace tiled {
namespace {

// The level whose instructions run this problem: levels above it may have none for its dtypes.
const char* level_of(const Problem& problem) {
  const cpu::Level& chosen = cpu::chosen_level();
  if (cpu::dots_of(problem, chosen) != nullptr) return chosen.name;
  for (const cpu::Level* level : cpu::available_levels())
    if (level->chains == chosen.chains) return level->name;
  return chosen.name;
}

// Empty where three loops run, or nothing is left to compute.
std::optional<cpu::Blocking> blocking_of(const Problem& problem, Algo algo) {
  const cpu::Level& level = cpu::chosen_level();
  if (is_scaled(problem) || cpu::is_three_loops(algo) || problem.batch == 0 || problem.m == 0 ||
      problem.n == 0 || cpu::is_tiny(problem, level))
    return std::nullopt;
  return cpu::choose_blocking(problem, level, at::get_num_threads());
}

// In elements of the problem, where the blocking counts accumulators and steps.
struct Sizes {
  int64_t tile_m, tile_n, block_k, panel;
};
Sizes sizes_of(const cpu::Blocking& x) {
  const int64_t parts = x.codec->parts;
  // The last step of K may be filled up with zeros.
  return {x.tile_rows, x.strip / parts, std::min(x.element_of(x.block_k), x.depth),
          std::max(x.panel, x.strip) / parts};
}

std::string arithmetic_text(const Problem& p) {
  if (is_integer(p.dtype))
    return is_scaled(p) ? "exact sums, which are scaled in fp32"
                        : "exact, modulo 2 to the power of the result's bits";
  const cpu::Level& level = cpu::chosen_level();
  const std::string name = arithmetic_name(p.arithmetic) + ": ";
  if (is_scaled(p))
    return name + "of every 128 of K " +
           (level.chains->fused ? "fused multiply-adds" : "multiplies, then adds") +
           " in fp32, k ascending, and their sums likewise";
  if (cpu::dots_of(p, level) != nullptr) return name + "the level's own instruction, k ascending";
  return name + (level.chains->fused ? "fused multiply-adds" : "multiplies, then adds") +
         ", k ascending";
}

// Who computes C.
std::string threads_text(const Problem& problem, const std::optional<cpu::Blocking>& blocking,
                         Algo algo) {
  const std::string threads = std::to_string(at::get_num_threads());
  if (blocking)
    return threads + ", which share out " + grouped(static_cast<double>(blocking->regions())) +
           " region" + (blocking->regions() == 1 ? "" : "s") + " of C, never K";
  if (is_scaled(problem)) return threads + ", which share out regions of C, never K";
  return cpu::is_three_loops(algo) ? threads + ", which share out rows of C, never K" : "1";
}

double intensity_of(const Problem& p) { return flops_of(p) / compulsory_bytes(p); }

std::string blocking_lines(const cpu::Blocking& x) {
  const Sizes sizes = sizes_of(x);
  const auto packed = [](bool is_packed) {
    return is_packed ? " is packed" : " is read where it is";
  };
  std::string text =
      line("tile", std::to_string(sizes.tile_m) + " x " + std::to_string(sizes.tile_n) +
                       " of C in registers" + (x.swap_ab ? ", where A and B change places" : ""));
  text += line("blocks", grouped(static_cast<double>(sizes.block_k)) + " of K at a time, " +
                             grouped(static_cast<double>(sizes.panel)) + " columns of " +
                             (x.swap_ab ? "A'" : "B"));
  text += line("copies", std::string("A") + packed(x.swap_ab ? x.pack_b : x.pack_a) + ", B" +
                             packed(x.swap_ab ? x.pack_a : x.pack_b));
  return text;
}

}  // namespace

int64_t cpu_budget(int64_t number, int64_t column, std::optional<int64_t> value) {
  TORCH_CHECK(number >= 0 && number < cpu::NUMBER_COUNT, "tiled_mm: no such number: ", number);
  TORCH_CHECK(column >= 0 && column < cpu::COLUMN_COUNT, "tiled_mm: no such column: ", column);
  constexpr int64_t MOST = int64_t{1} << 40;
  TORCH_CHECK(!value || (*value >= 0 && *value <= MOST), "tiled_mm: a value from 0 to ", MOST,
              " is expected, got ", value.value_or(0));
  const int64_t before = cpu::budgets[number][column];
  if (value) cpu::budgets[number][column] = *value;
  return before;
}

std::string cpu_explain_text(const Problem& p, Algo algo) {
  const std::string level = level_of(p), own = cpu::chosen_level().name;
  const std::string operation = is_integer(p.dtype) ? "op" : "flop";
  const std::optional<cpu::Blocking> blocking = blocking_of(p, algo);
  std::string text = std::string(name_of(algo)) + " on the CPU\n";
  text += line("problem", problem_text(p));
  text += line("arithmetic", arithmetic_text(p));
  text += line("level", level + (level == own ? ""
                                              : ", since " + own + " has nothing for " +
                                                    std::string(name_of(p.dtype))));
  text +=
      line("K", std::to_string(segment_count(p)) + " segment" + (segment_count(p) == 1 ? "" : "s"));
  text += line("threads", threads_text(p, blocking, algo));
  if (blocking)
    text += blocking_lines(*blocking);
  else if (is_scaled(p))
    text += line("blocks", "128 of K at a time, widened as they are packed");
  else
    text += line("blocks", "none: three loops");
  text += "\nLeast traffic: " + with_unit(flops_of(p), operation) + ", " +
          with_unit(compulsory_bytes(p), "B") + " if each byte is moved once, " +
          three_digits(intensity_of(p)) + " " + operation + "/byte\n";
  // Tiles of AMX take many cycles an instruction.
  if (blocking && blocking->kernels->row_unit == 1 && flops_of(p) > 0) {
    const double done = 2. * blocking->kernels->lanes * blocking->codec->fold;
    text += line("roofline", "an instruction does " + grouped(done) + " " + operation +
                                 "s: a core that issues one a cycle is bound by memory that brings "
                                 "it less than " +
                                 three_digits(done / intensity_of(p)) + " bytes a cycle");
  }
  return text;
}

std::string cpu_plan_json(const Problem& p, Algo algo) {
  std::string blocking = "null";
  if (const std::optional<cpu::Blocking> x = blocking_of(p, algo)) {
    const Sizes sizes = sizes_of(*x);
    blocking = Object()
                   .json("tile", Object().count("m", sizes.tile_m).count("n", sizes.tile_n).str())
                   .count("block_k", sizes.block_k)
                   .count("panel", sizes.panel)
                   .count("group", x->group)
                   .count("ahead", x->ahead)
                   .truth("swap_ab", x->swap_ab)
                   .truth("pack_a", x->swap_ab ? x->pack_b : x->pack_a)
                   .truth("pack_b", x->swap_ab ? x->pack_a : x->pack_b)
                   .json("regions", Object().count("m", x->parts_m).count("n", x->parts_n).str())
                   .str();
  }
  return Object()
      .text("device", "cpu")
      .text("algo", name_of(algo))
      .text("dtype", name_of(p.dtype))
      .text("out_dtype", name_of(p.epilogue.out_dtype))
      .count("batch", p.batch)
      .count("m", p.m)
      .count("n", p.n)
      .count("k", p.k)
      .count("segments", segment_count(p))
      .text("arithmetic", arithmetic_name(p.arithmetic))
      .json("scales", scales_json(p))
      .text("level", level_of(p))
      .text("cpu_level", cpu::chosen_level().name)
      .count("threads", at::get_num_threads())
      .json("blocking", blocking)
      .real("flops", flops_of(p))
      .json("traffic", Object()
                           .json("compulsory", Object()
                                                   .real("bytes", compulsory_bytes(p))
                                                   .real("intensity", intensity_of(p))
                                                   .str())
                           .str())
      .str();
}

}  // namespace tiled
