// Reports for people. Four short tables: the plan, what one multiprocessor holds and why no more,
// what one step moves and computes, and the roofline.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "core/segments.h"
#include "core/text.h"
#include "explain/lines.h"
#include "explain/report.h"

namespace tiled {
namespace {

double as_double(int64_t value) { return static_cast<double>(value); }

std::string kibibytes(int64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  return fixed(static_cast<double>(bytes) / 1024, bytes % 1024 == 0 ? 0 : 1) + " KiB";
}

// Every kernel that will run, in the order of launch.
std::string step_lines(const Plan& plan) {
  std::string text;
  for (const Step& step : plan) {
    std::string what = grouped(as_double(step.grid_x)) + " blocks of " +
                       std::to_string(step.threads_x * step.threads_y) + " threads";
    if (step.grid_y > 1) what += ", " + std::to_string(step.grid_y) + " batch entries at a time";
    if (step.cluster > 1) what += ", in clusters of " + std::to_string(step.cluster);
    if (step.workspace_bytes > 0)
      what += "; " + with_unit(as_double(step.workspace_bytes), "B") + " of workspace";
    text += line("launches", std::string(name_of(step.work)) + ", " + what);
  }
  return text;
}

std::string plan_table(const PlanReport& r) {
  const Plan& plan = r.plan;
  std::string text = line("problem", problem_text(r.problem));
  text += line("kernel", r.about.kernel);
  text +=
      line("tile", std::to_string(plan.block_m) + " x " + std::to_string(plan.block_n) + " of C, " +
                       std::to_string(plan.block_k) + " of K in a step; a thread " + "owns " +
                       std::to_string(r.about.thread_m) + " x " + std::to_string(r.about.thread_n));
  for (const auto& [name, what] : r.about.lines) text += line(name, what);
  if (plan.workspace_bytes > 0)
    text += line("workspace", with_unit(as_double(plan.workspace_bytes), "B"));
  std::string grid = grouped(r.blocks) + " blocks of " + std::to_string(r.threads) +
                     " threads: " + grouped(static_cast<double>(plan.tiles_m)) + " x " +
                     grouped(static_cast<double>(plan.tiles_n)) + " tiles";
  if (plan.main_step().grid_y > 1)
    grid += ", " + std::to_string(plan.main_step().grid_y) + " batch entries at a time";
  text += line("grid", grid);
  if (plan.step_count > 1) text += step_lines(plan);
  if (leaves_out_hopper_kernels(r.device)) text += line("left out", HOPPER_LEFT_OUT);
  if (r.device.left_free > 0)
    text += line("left free", std::to_string(r.device.left_free) + " of " +
                                  std::to_string(r.device.all_multiprocessors()) +
                                  " multiprocessors (torch's sm_carveout)");
  if (segment_count(r.problem) > 1)
    text += line("K", "summed in " + std::to_string(segment_count(r.problem)) +
                          " segments of up to " + std::to_string(SEGMENT_K));
  return text;
}

// The way that runs and what else there was, with the seconds that each is estimated at.
std::string ways_table(const PlanReport& r, bool verbose) {
  constexpr size_t SHOWN = 4;
  const size_t count = verbose ? r.ways.size() : std::min(SHOWN, r.ways.size());
  std::string text =
      "\nChosen of " + std::to_string(r.ways.size()) + (r.ways.size() == 1 ? " way" : " ways") +
      (r.measured
           ? ", measured on " + r.measured->date + ": " + with_unit(r.measured->seconds, "s") +
                 ", " + with_unit(r.measured->estimated_seconds, "s") +
                 " as estimates would have it. Estimated times:\n"
           : ", by estimated times\n");
  for (size_t i = 0; i < count; ++i) {
    const NamedWay way = name_of_way(r.problem, r.ways[i].plan);
    std::string what(name_of(r.ways[i].plan.algo));
    if (!way.tile.empty()) what += " " + way.tile;
    if (way.cluster_p * way.cluster_q > 1)
      what += ", cluster " + std::to_string(way.cluster_p) + " x " + std::to_string(way.cluster_q);
    if (way.swap_ab) what += ", swap_ab";
    if (way.split_k) what += ", split";
    text += line(with_unit(r.ways[i].seconds, "s"), what + (i == 0 ? " <- chosen" : ""));
  }
  if (count < r.ways.size())
    text += line("", "and " + std::to_string(r.ways.size() - count) + " more, with verbose=True");
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
  text += limit_row("shared memory", o.by_shared, o.blocks_per_sm,
                    kibibytes(r.plan.main_step().shared_bytes) + " a block, of " +
                        kibibytes(d.shared_bytes_per_sm));
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

// This follows a name and the bytes moved.
std::string traffic_row(const std::string& name, double bytes, const Roofline& roofline) {
  std::ostringstream out;
  out << "  " << std::left << std::setw(16) << name << std::right << std::setw(9)
      << with_unit(bytes, "B") << std::setw(12) << three_digits(roofline.intensity);
  return out.str();
}

std::string roofline_table(const PlanReport& r, const std::string& operation) {
  const Roofline& least = r.compulsory_roofline;
  const Roofline& tiles = r.tile_roofline;
  const auto rate = [&](double value) { return with_unit(value, operation + "/s"); };
  std::ostringstream text;
  text << "\nRoofline: " << with_unit(r.flops, operation) << "; peak " << rate(r.peak_flops)
       << ", memory " << with_unit(r.device.memory_bandwidth, "B/s") << ", balance "
       << three_digits(r.balance) << " " << operation << "/byte\n"
       << std::setw(27) << "bytes" << std::setw(12) << (operation + "/byte") << std::setw(16)
       << "at most" << std::setw(11) << "at least" << "   bound by\n"
       << traffic_row("each byte once", r.compulsory_bytes, least) << std::setw(16)
       << rate(least.flops_bound) << std::setw(11) << with_unit(least.seconds_bound, "s") << "   "
       << least.bound
       << '\n'
       // Caches serve most of these loads, so that their roofline is no bound.
       << traffic_row("loads of tiles", r.tile_bytes, tiles) << "   " << rate(tiles.flops_bound)
       << " and " << with_unit(tiles.seconds_bound, "s") << " if no load hit a cache\n";
  return text.str();
}

}  // namespace

std::string to_text(const PlanReport& r, bool verbose) {
  const std::string operation = is_integer(r.problem.dtype) ? "op" : "flop";
  return std::string(name_of(r.plan.algo)) + " on " + r.device.name + "\n" + plan_table(r) +
         ways_table(r, verbose) + occupancy_table(r) + step_table(r, operation) +
         roofline_table(r, operation);
}

}  // namespace tiled
