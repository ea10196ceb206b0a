#include "scale/report.h"

#include <sstream>

#include "core/text.h"

namespace tiled::scale {
namespace {

std::string_view bound_of(const Plan& plan) {
  if (plan.seconds_flops >= plan.seconds_in && plan.seconds_flops >= plan.seconds_out)
    return "arithmetic";
  return plan.seconds_in >= plan.seconds_out ? "link in" : "link out";
}

double compulsory_bytes(const Task& task) {
  return static_cast<double>(task.m + task.n) * task.k * task.element_bytes;
}

std::string order_of(const Report& r) {
  const Plan& p = r.plan;
  if (r.task.maps) return "A and B are read where they are, in the host's memory";
  if (p.stays == Stays::C)
    return "a tile of C stays while " + std::to_string(p.steps_k) + " pieces of K go by";
  const bool a = p.stays == Stays::A;
  const int64_t groups = ((a ? p.tiles_m : p.tiles_n) + p.group - 1) / p.group;
  return std::string(a ? "A" : "B") + " stays, " + std::to_string(p.group) + " block" +
         (p.group > 1 ? "s" : "") + " at a time, while " + (a ? "B" : "A") + " goes by " +
         (groups > 1 ? std::to_string(groups) + " times" : "once");
}

}  // namespace

std::string to_text(const Report& r) {
  const Plan& p = r.plan;
  const Task& t = r.task;
  std::ostringstream s;
  s << "out of core on " << r.devices << " x " << r.device << ", "
    << with_unit(static_cast<double>(r.memory), "B") << " of memory each\n"
    << "  C[" << t.m << ", " << t.n << "] = A[" << t.m << ", " << t.k << "] B[" << t.k << ", "
    << t.n << "], " << r.dtype << ", arithmetic " << r.arithmetic << "\n"
    << "  tiles        " << p.tiles_m << " x " << p.tiles_n << " of " << p.block_m << " x "
    << p.block_n << ", K in steps of " << p.block_k << "\n"
    << "  order        " << order_of(r) << "\n"
    << "  on the device  " << (t.maps ? 0 : p.slots_a) << " blocks of A, "
    << (t.maps ? 0 : p.slots_b) << " of B, " << p.slots_c << " tiles of C; "
    << with_unit(static_cast<double>(p.device_bytes), "B") << ", "
    << with_unit(static_cast<double>(p.workspace_bytes), "B") << " of it workspace\n"
    << "  to the device  " << with_unit(static_cast<double>(p.bytes_in), "B")
    << " (each element once: " << with_unit(compulsory_bytes(t), "B") << "), "
    << with_unit(p.seconds_in, "s") << " at " << with_unit(r.rates.to_device, "B/s") << "\n"
    << "  to the host    " << with_unit(static_cast<double>(p.bytes_out), "B") << ", "
    << with_unit(p.seconds_out, "s") << " at " << with_unit(r.rates.to_host, "B/s") << "\n"
    << "  arithmetic     " << with_unit(t.flops, "flop") << ", " << with_unit(p.seconds_flops, "s")
    << " at " << with_unit(r.rates.flops, "flop/s") << "\n"
    << "  bound by       " << bound_of(p) << "; one device takes about "
    << with_unit(p.seconds, "s") << " with what nothing hides\n";
  return s.str();
}

std::string to_json(const Report& r) {
  const Plan& p = r.plan;
  const Task& t = r.task;
  return Object()
      .text("device", r.device)
      .count("devices", r.devices)
      .text("dtype", r.dtype)
      .text("arithmetic", r.arithmetic)
      .count("m", t.m)
      .count("n", t.n)
      .count("k", t.k)
      .count("memory", r.memory)
      .text("stays", name_of(p.stays))
      .json("tile",
            Object().count("m", p.block_m).count("n", p.block_n).count("k", p.block_k).str())
      .json("tiles",
            Object().count("m", p.tiles_m).count("n", p.tiles_n).count("count", p.tiles()).str())
      .count("steps_k", p.steps_k)
      .count("group", p.group)
      .json("slots",
            Object().count("a", p.slots_a).count("b", p.slots_b).count("c", p.slots_c).str())
      .count("device_bytes", p.device_bytes)
      .count("workspace_bytes", p.workspace_bytes)
      .count("bytes_in", p.bytes_in)
      .count("bytes_out", p.bytes_out)
      .real("compulsory_bytes_in", compulsory_bytes(t))
      .json("rates", Object()
                         .real("to_device", r.rates.to_device)
                         .real("to_host", r.rates.to_host)
                         .real("flops", r.rates.flops)
                         .str())
      .json("seconds", Object()
                           .real("in", p.seconds_in)
                           .real("out", p.seconds_out)
                           .real("flops", p.seconds_flops)
                           .real("estimate", p.seconds)
                           .str())
      .text("bound", bound_of(p))
      .str();
}

}  // namespace tiled::scale
