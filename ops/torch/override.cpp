// The kernels that stand on torch's operators for products. Each asks whether the override of its
// device is on, and whether tiled computes the call; if not, it goes on to the kernel that was
// there before, which may be torch's own or another library's, and which raises where a call is
// wrong.
//
// They are registered below autograd, on the keys CPU and CUDA, so that torch's own derivatives,
// autocast, batching rules and shapes apply; at the first enable, so that a program that never
// overrides keeps torch's kernels; and they stay, since the dispatcher's table must not change
// under threads that compute. Being on is a count, for all threads, as the backward runs on others.
#include "torch/override.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <mutex>
#include <type_traits>
#include <vector>

#include "core/text.h"
#include "torch/override_kernel.h"
#include "torch/override_table.h"

namespace tiled {
namespace {

constexpr const char* OUR_NAME = "tiled_mm.override";

// ---- the operators -----------------------------------------------------------------------------

struct Overridden {
  const char* name;
  const char* overload;
  Slot* slots[2];  // CPU, CUDA
  torch::CppFunction (*kernels[2])();
};

template <auto request, at::DeviceType DEVICE>
torch::CppFunction kernel_function() {
  if constexpr (std::is_invocable_r_v<ScaledCall, decltype(request), asked::Arguments>)
    return torch::CppFunction::makeFromBoxedFunction<&boxed_kernel<request, DEVICE>>();
  else
    return torch::CppFunction(TORCH_FN((&Kernel<request, DEVICE>::call)));
}

template <auto request>
constexpr Overridden entry(const char* name, const char* overload) {
  return {name,
          overload,
          {&slot<request, at::kCPU>, &slot<request, at::kCUDA>},
          {&kernel_function<request, at::kCPU>, &kernel_function<request, at::kCUDA>}};
}

// The out= form of a request.
template <auto request>
constexpr Overridden into(const char* name, const char* overload) {
  return entry<&asked::Into<request>::out>(name, overload);
}

constexpr Form MM = Form::Matrices, BMM = Form::Batches, MV = Form::MatrixVector, DOT = Form::Dot;

const Overridden OVERRIDDEN[] = {
    entry<&asked::product<MM>>("mm", ""),
    into<&asked::product<MM>>("mm", "out"),
    entry<&asked::product_as<MM>>("mm", "dtype"),
    into<&asked::product_as<MM>>("mm", "dtype_out"),
    entry<&asked::product<BMM>>("bmm", ""),
    into<&asked::product<BMM>>("bmm", "out"),
    entry<&asked::product_as<BMM>>("bmm", "dtype"),
    into<&asked::product_as<BMM>>("bmm", "dtype_out"),
    entry<&asked::product<DOT>>("dot", ""),
    entry<&asked::sum<MM>>("addmm", ""),
    entry<&asked::sum_in_place<MM>>("addmm_", ""),
    into<&asked::sum<MM>>("addmm", "out"),
    entry<&asked::sum_as<MM>>("addmm", "dtype"),
    into<&asked::sum_as<MM>>("addmm", "dtype_out"),
    entry<&asked::sum<BMM>>("baddbmm", ""),
    entry<&asked::sum_in_place<BMM>>("baddbmm_", ""),
    into<&asked::sum<BMM>>("baddbmm", "out"),
    entry<&asked::sum_as<BMM>>("baddbmm", "dtype"),
    into<&asked::sum_as<BMM>>("baddbmm", "dtype_out"),
    entry<&asked::sum<MV>>("addmv", ""),
    entry<&asked::sum_in_place<MV>>("addmv_", ""),
    into<&asked::sum<MV>>("addmv", "out"),
    entry<&asked::activated>("_addmm_activation", ""),
    into<&asked::activated>("_addmm_activation", "out"),
    entry<&asked::groups>("_grouped_mm", ""),
    entry<&asked::int8>("_int_mm", ""),
    into<&asked::int8>("_int_mm", "out"),
    entry<&asked::scaled>("_scaled_mm", ""),
    entry<&asked::scaled_out>("_scaled_mm", "out"),
    entry<&asked::scaled_by_recipes>("_scaled_mm_v2", ""),
    entry<&asked::scaled_by_recipes_out>("_scaled_mm_v2", "out"),
    entry<&asked::scaled_groups>("_scaled_grouped_mm", ""),
    entry<&asked::scaled_groups_by_recipes>("_scaled_grouped_mm_v2", ""),
};

std::string full_name(const Overridden& op) {
  return std::string(op.name) + (*op.overload ? "." : "") + op.overload;
}

// ---- registration ------------------------------------------------------------------------------

// The dispatcher warns, once in a process, that a kernel is overridden. Here that is what was asked
// for; and the one warning is kept for those who do it unasked.
class Quiet : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("Overriding a previously registered kernel") == std::string::npos)
      previous_->process(warning);
  }

 private:
  c10::WarningHandler* const previous_ = c10::WarningUtils::get_warning_handler();
  const c10::WarningUtils::WarningHandlerGuard guard_{this};  // of this thread
  const c10::WarningUtils::WarnAlways always_;                // so that this one does not count
};

// A kernel that someone else has registered, where ours is to stand.
struct Found {
  const Overridden* op;
  c10::OperatorHandle handle;
  c10::SafeKernelFunction kernel;
};

// All of them are read before any is replaced. Ours stand there already where an earlier try ended
// halfway: they have what was there before them.
std::vector<Found> kernels_of_others(c10::DispatchKey key) {
  std::vector<Found> found;
  for (const Overridden& op : OVERRIDDEN) {
    const auto handle =
        c10::Dispatcher::singleton().findSchema({"aten::" + std::string(op.name), op.overload});
    // An operator that torch does not have on this device gets none from here.
    if (!handle || !handle->hasComputedKernelForDispatchKey(key)) continue;
    c10::SafeKernelFunction kernel = handle->getComputedKernelForDispatchKey(key);
    if (kernel.debug() != OUR_NAME) found.push_back({&op, *handle, std::move(kernel)});
  }
  return found;
}

void register_kernels(int device, c10::DispatchKey key) {
  const Quiet quiet;
  std::vector<Found> found = kernels_of_others(key);
  // Never destroyed: other threads may compute while the process ends.
  auto* library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  for (Found& one : found) {
    Slot& slot = *one.op->slots[device];
    slot.previous = std::move(one.kernel);
    slot.op = one.handle;
    library->impl(full_name(*one.op).c_str(), one.op->kernels[device]().debug(OUR_NAME));
  }
}

std::mutex registration;  // of registering, and of reading what is registered

void register_once(at::DeviceType device) {
  static bool done[2];
  const std::lock_guard<std::mutex> lock(registration);
  const int i = device == at::kCPU ? 0 : 1;
  if (done[i]) return;
  register_kernels(i, i == 0 ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA);
  done[i] = true;
}

std::atomic<int64_t>& enabled_on(at::DeviceType device) {
  return device == at::kCPU ? enabled<at::kCPU> : enabled<at::kCUDA>;
}

// Takes back one enable; false where there is none.
bool take_back(at::DeviceType device) noexcept {
  std::atomic<int64_t>& count = enabled_on(device);
  for (int64_t now = count.load(); now > 0;)
    if (count.compare_exchange_weak(now, now - 1)) return true;
  return false;
}

// The devices that are meant: of both, those that the build has.
std::vector<at::DeviceType> devices_of(std::optional<std::string_view> name) {
  if (!name)
    return cuda_products() ? std::vector<at::DeviceType>{at::kCPU, at::kCUDA}
                           : std::vector<at::DeviceType>{at::kCPU};
  if (*name == "cpu") return {at::kCPU};
  TORCH_CHECK(*name == "cuda", "tiled_mm: unknown device '", std::string(*name),
              "' to override; expected 'cpu', 'cuda' or None for both");
  TORCH_CHECK_NOT_IMPLEMENTED(cuda_products(),
                              "tiled_mm was built without CUDA "
                              "(tiled_mm.build_info() says why), so it overrides the CPU only");
  return {at::kCUDA};
}

// The name of the kernel that an operator has now, from the dispatcher's own text of its table:
// "CPU: <name> [kernel]". Asked for the kernel itself, the dispatcher keeps a token of each call.
std::string kernel_name(const c10::OperatorHandle& op, c10::DispatchKey key) {
  const std::string begin = "\n" + std::string(c10::toString(key)) + ": ";
  const std::string table = "\n" + op.dumpComputedTable();
  const size_t line = table.find(begin);
  TORCH_INTERNAL_ASSERT(line != std::string::npos, "tiled_mm: the dispatcher's table has no ", key);
  const size_t name = line + begin.size();
  return table.substr(name, table.rfind(" [", table.find('\n', name)) - name);
}

}  // namespace

void enable_override_of(std::optional<std::string_view> device) {
  const std::vector<at::DeviceType> types = devices_of(device);
  for (const at::DeviceType type : types) register_once(type);
  for (const at::DeviceType type : types) ++enabled_on(type);  // all or none
}

void disable_override_of(std::optional<std::string_view> device) {
  const std::vector<at::DeviceType> types = devices_of(device);
  for (size_t i = 0; i < types.size(); ++i) {
    if (take_back(types[i])) continue;
    for (size_t taken = 0; taken < i; ++taken) ++enabled_on(types[taken]);
    TORCH_CHECK(false, "tiled_mm: override is not enabled for ", types[i]);
  }
}

void detail::leave_override(std::optional<at::DeviceType> device) noexcept {
  for (const at::DeviceType type : {at::kCPU, at::kCUDA})
    if (!device || *device == type) take_back(type);
}

std::string override_counts(bool reset) {
  const std::lock_guard<std::mutex> lock(registration);
  constexpr c10::DispatchKey KEYS[] = {c10::DispatchKey::CPU, c10::DispatchKey::CUDA};
  Object all;
  for (const Overridden& op : OVERRIDDEN) {
    std::array<int64_t, VERDICTS> counts{};
    std::string replaced_by;
    for (int device = 0; device < 2; ++device) {
      Slot& slot = *op.slots[device];
      for (int i = 0; i < VERDICTS; ++i)
        counts[i] += reset ? slot.counts[i].exchange(0) : slot.counts[i].load();
      if (!slot.op) continue;
      const std::string now = kernel_name(*slot.op, KEYS[device]);
      if (now != OUR_NAME) replaced_by = now;
    }
    if (counts == decltype(counts){} && replaced_by.empty()) continue;
    Object torch;
    for (int i = 1; i < VERDICTS; ++i)
      if (counts[i] > 0) torch.count(name_of(static_cast<Verdict>(i)), counts[i]);
    Object one;
    one.count("tiled", counts[0]).json("torch", torch.str());
    if (!replaced_by.empty()) one.text("replaced_by", replaced_by);
    all.json(full_name(op), one.str());
  }
  return all.str();
}

}  // namespace tiled
