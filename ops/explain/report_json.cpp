// Reports as JSON; the keys are listed in report.h.
#include "explain/report.h"

namespace tiled {

std::string arithmetic_name(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::Fma: return "fma";
    case Arithmetic::Cpu16: return "cpu16";
    case Arithmetic::Tensor: return "tensor";
    case Arithmetic::Tf32: return "tf32";
    case Arithmetic::Fp16x3: return "fp16x3";
    case Arithmetic::Fp8: return "fp8";
  }
  return "?";
}

std::string scales_json(const Problem& problem) {
  if (!is_scaled(problem)) return "null";
  return Object()
      .text("a", name_of(problem.scales.a.scaling))
      .text("b", name_of(problem.scales.b.scaling))
      .text("b_dtype", name_of(problem.scales.b_dtype))
      .str();
}

Object way_object(const Problem& problem, const Plan& plan) {
  const NamedWay name = name_of_way(problem, plan);
  return Object()
      .text("algo", name_of(plan.algo))
      .text("tile", name.tile)
      .truth("swap_ab", name.swap_ab)
      .count("cluster_p", name.cluster_p)
      .count("cluster_q", name.cluster_q)
      .truth("split_k", name.split_k);
}

namespace {

// A limit that is not set (-1) is null.
std::string limit(int blocks) { return blocks < 0 ? "null" : std::to_string(blocks); }

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

std::string steps(const Plan& plan) {
  std::vector<std::string> list;
  for (const Step& step : plan)
    list.push_back(Object()
                       .text("work", name_of(step.work))
                       .count("threads", step.threads_x * step.threads_y)
                       .count("grid_x", step.grid_x)
                       .count("grid_y", step.grid_y)
                       .count("cluster", step.cluster)
                       .count("shared_bytes", step.shared_bytes)
                       .truth("dynamic", step.dynamic)
                       .count("workspace_bytes", step.workspace_bytes)
                       .str());
  return array_of(list);
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
  const Step& step = plan.main_step();
  Object object;
  object.text("device", r.device.name)
      .text("dtype", name_of(p.dtype))
      .text("out_dtype", name_of(p.epilogue.out_dtype))
      .text("algo", name_of(plan.algo))
      .text("kernel", r.about.kernel)
      .count("batch", p.batch)
      .count("m", p.m)
      .count("n", p.n)
      .count("k", p.k)
      .count("segments", segment_count(p))
      .json("tile", Object()
                        .json("name", r.about.tile.empty() ? "null" : quoted(r.about.tile))
                        .count("m", plan.block_m)
                        .count("n", plan.block_n)
                        .count("k", plan.block_k)
                        .count("thread_m", r.about.thread_m)
                        .count("thread_n", r.about.thread_n)
                        .str())
      .json("steps", steps(plan))
      .json("threads", Object()
                           .count("x", step.threads_x)
                           .count("y", step.threads_y)
                           .count("block", r.threads)
                           .str())
      .json("grid", Object()
                        .count("x", step.grid_x)
                        .count("y", step.grid_y)
                        .count("tiles_m", plan.tiles_m)
                        .count("tiles_n", plan.tiles_n)
                        .real("blocks", r.blocks)
                        .str())
      .count("shared_bytes", step.shared_bytes)
      .count("workspace_bytes", plan.workspace_bytes)
      .text("arithmetic", arithmetic_name(p.arithmetic))
      .json("scales", scales_json(p))
      .count("left_free", r.device.left_free)
      .json("left_out", leaves_out_hopper_kernels(r.device) ? quoted(HOPPER_LEFT_OUT) : "null")
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
                           .str());
  std::vector<std::string> ways;
  for (const Choice& way : r.ways)
    ways.push_back(way_object(r.problem, way.plan).real("seconds", way.seconds).str());
  object.json("ways", array_of(ways));
  if (r.measured)
    object.json("measured", Object()
                                .real("seconds", r.measured->seconds)
                                .real("estimated_seconds", r.measured->estimated_seconds)
                                .text("date", r.measured->date)
                                .str());
  else
    object.json("measured", "null");
  for (const auto& [key, value] : r.about.json) object.json(key, value);
  return object.str();
}

}  // namespace tiled
