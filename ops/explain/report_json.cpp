// Reports as JSON; the keys are listed in report.h.
#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

#include "core/segments.h"
#include "cuda/plan/tile_info.h"
#include "explain/report.h"

namespace tiled {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    // A control character is in no name; a space keeps the JSON valid if one ever is.
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "\"";
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::ostringstream text;
  text.imbue(std::locale::classic());  // a decimal point, whatever the program's locale
  text.precision(std::numeric_limits<double>::max_digits10);
  text << value;
  return text.str();
}

// One object; values come as JSON.
class Object {
 public:
  Object& json(std::string_view key, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + quoted(key) + ": " + value;
    return *this;
  }
  Object& text(std::string_view key, std::string_view value) { return json(key, quoted(value)); }
  Object& real(std::string_view key, double value) { return json(key, number(value)); }
  Object& count(std::string_view key, int64_t value) { return json(key, std::to_string(value)); }
  std::string str() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

// A limit that is not set (-1) is null.
std::string limit(int blocks) { return blocks < 0 ? "null" : std::to_string(blocks); }

std::string access_name(Access access) {
  switch (access) {
    case Access::AlongK: return "along_k";
    case Access::AlongMN: return "along_mn";
    case Access::Elements: return "elements";
  }
  return "?";
}

Object& add_roofline(Object& object, const Roofline& roofline) {
  return object.real("intensity", roofline.intensity)
      .real("flops_bound", roofline.flops_bound)
      .real("seconds_bound", roofline.seconds_bound)
      .text("bound", roofline.bound);
}

std::string traffic(double bytes, const Roofline& roofline) {
  Object object;
  object.real("bytes", bytes);
  return add_roofline(object, roofline).str();
}

std::string registers(const PlanReport& r) {
  if (!r.resources) return "null";
  return Object()
      .count("per_thread", r.resources->registers)
      .count("stack_bytes", r.resources->stack_bytes)
      .count("compiled_for", r.resources->capability)
      .str();
}

std::string arithmetic_name(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::Fma: return "fma";
    case Arithmetic::Cpu16: return "cpu16";
    case Arithmetic::Tensor: return "tensor";
    case Arithmetic::Tf32: return "tf32";
    case Arithmetic::Fp16x3: return "fp16x3";
  }
  return "?";
}

std::string store_name(StorePath path) {
  switch (path) {
    case StorePath::Tma: return "tma";
    case StorePath::Rows: return "rows";
    case StorePath::Scatter: return "scatter";
  }
  return "?";
}

std::string boolean(bool value) { return value ? "true" : "false"; }

std::string estimate_of(const TileEstimate& e) {
  const HopperTileInfo& tile = hopper_tile(e.plan.tile);
  return Object()
      .text("tile", hopper_tile_name(e.plan.tile))
      .count("block_p", tile.block_p)
      .count("block_q", tile.block_q)
      .json("exchanged", boolean(e.plan.exchanged))
      .count("cluster_p", e.plan.cluster_p)
      .count("cluster_q", e.plan.cluster_q)
      .json("share_segments", boolean(e.plan.share_segments))
      .real("tensor", e.estimate.tensor)
      .real("shared", e.estimate.shared)
      .real("feed", e.estimate.feed)
      .real("waves", e.estimate.waves)
      .real("cycles", e.estimate.cycles)
      .str();
}

std::string hopper(const PlanReport& r) {
  const HopperPlan& plan = r.plan.hopper;
  std::string estimates;
  for (const TileEstimate& e : r.estimates)
    estimates += (estimates.empty() ? "" : ", ") + estimate_of(e);
  return Object()
      .json("exchanged", boolean(plan.exchanged))
      .count("cluster_p", plan.cluster_p)
      .count("cluster_q", plan.cluster_q)
      .count("panel", plan.panel)
      .json("share_segments", boolean(plan.share_segments))
      .json("repack_a", boolean(plan.exchanged ? plan.repack_q : plan.repack_p))
      .json("repack_b", boolean(plan.exchanged ? plan.repack_p : plan.repack_q))
      .text("store", store_name(plan.store))
      .json("estimates", "[" + estimates + "]")
      .str();
}

}  // namespace

std::string to_json(const Occupancy& occupancy) {
  return Object()
      .count("blocks_per_sm", occupancy.blocks_per_sm)
      .count("threads_per_sm", occupancy.threads_per_sm)
      .count("shared_bytes_per_sm", occupancy.shared_bytes_per_sm)
      .real("fraction", occupancy.fraction)
      .text("limit", occupancy.limit)
      .json("by_threads", limit(occupancy.by_threads))
      .json("by_blocks", limit(occupancy.by_blocks))
      .json("by_registers", limit(occupancy.by_registers))
      .json("by_shared", limit(occupancy.by_shared))
      .str();
}

std::string to_json(const Roofline& roofline) {
  Object object;
  return add_roofline(object, roofline).str();
}

std::string to_json(const PlanReport& r) {
  const Problem& p = r.problem;
  const Plan& plan = r.plan;
  const bool register_tile = plan.algo == Algo::RegisterTile;
  return Object()
      .text("device", r.device.name)
      .text("dtype", name_of(p.dtype))
      .text("out_dtype", name_of(p.epilogue.out_dtype))
      .text("algo", name_of(plan.algo))
      .text("kernel", r.kernel)
      .count("batch", p.batch)
      .count("m", p.m)
      .count("n", p.n)
      .count("k", p.k)
      .count("segments", segment_count(p.k))
      .json("tile", Object()
                        .json("name", r.tile.empty() ? "null" : quoted(r.tile))
                        .count("m", plan.block_m)
                        .count("n", plan.block_n)
                        .count("k", plan.block_k)
                        .count("thread_m", r.thread_m)
                        .count("thread_n", r.thread_n)
                        .str())
      .json("access", register_tile || is_fp64_mma(p, plan)
                          ? Object()
                                .text("a", access_name(plan.access_a))
                                .text("b", access_name(plan.access_b))
                                .str()
                          : "null")
      .json("transposes", register_tile ? Object()
                                              .json("a", boolean(plan.transpose_a))
                                              .json("b", boolean(plan.transpose_b))
                                              .str()
                                        : "null")
      .json("threads", Object()
                           .count("x", plan.threads_x)
                           .count("y", plan.threads_y)
                           .count("block", r.threads)
                           .str())
      .json("grid", Object()
                        .count("x", plan.grid_x)
                        .count("y", plan.grid_y)
                        .count("tiles_m", plan.tiles_m)
                        .count("tiles_n", plan.tiles_n)
                        .real("blocks", r.blocks)
                        .str())
      .count("shared_bytes", plan.shared_bytes)
      .count("workspace_bytes", plan.workspace_bytes)
      .text("arithmetic", arithmetic_name(p.arithmetic))
      .json("left_out", leaves_out_hopper_kernels(r.device) ? quoted(HOPPER_LEFT_OUT) : "null")
      .json("hopper", plan.algo == Algo::Hopper ? hopper(r) : "null")
      .json("registers", registers(r))
      .json("registers_unknown", r.resources ? "null" : quoted(r.resources_unknown))
      .json("occupancy", to_json(r.occupancy))
      .real("waves", r.waves)
      .real("last_wave", r.last_wave)
      .json("step", Object()
                        .count("count", r.steps)
                        .real("loads", r.loads_per_step)
                        .real("flops", r.flops_per_step)
                        .real("flops_per_load", r.flops_per_load)
                        .real("pending_loads", r.pending_loads)
                        .str())
      .real("flops", r.flops)
      .real("peak_flops", r.peak_flops)
      .real("memory_bandwidth", r.device.memory_bandwidth)
      .real("balance", r.balance)
      .json("traffic", Object()
                           .json("tiles", traffic(r.tile_bytes, r.tile_roofline))
                           .json("compulsory", traffic(r.compulsory_bytes, r.compulsory_roofline))
                           .str())
      .str();
}

}  // namespace tiled
