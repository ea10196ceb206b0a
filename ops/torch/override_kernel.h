// One of torch's operators on one device: the kernel that stands there while this library is
// loaded, what was there before, and what it has counted.
#pragma once

#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <atomic>
#include <optional>
#include <type_traits>

#include "torch/override_scaled.h"

namespace tiled {

struct Slot {
  std::optional<c10::OperatorHandle> op;            // set once the kernel stands there
  std::optional<c10::SafeKernelFunction> previous;  // the kernel that was there
  std::array<std::atomic<int64_t>, VERDICTS> counts{};
};

template <auto request, at::DeviceType DEVICE>
Slot slot;

template <at::DeviceType DEVICE>
std::atomic<int64_t> enabled{0};

template <at::DeviceType DEVICE>
const Products* products() {
  return DEVICE == at::kCPU ? &cpu_products() : cuda_products();
}

template <auto request, at::DeviceType DEVICE, typename Function = decltype(request)>
struct Kernel;

template <auto request, at::DeviceType DEVICE, typename... Args>
struct Kernel<request, DEVICE, Request (*)(Args...)> {
  // An operator that writes into a tensor returns it, and others a tensor of their own.
  static constexpr bool WRITES = (std::is_same_v<Args, at::Tensor&> || ...);
  using Result = std::conditional_t<WRITES, at::Tensor&, at::Tensor>;

  static Result call(c10::DispatchKeySet keys, Args... args) {
    const Request asked = request(args...);
    const bool on = enabled<DEVICE>.load(std::memory_order_relaxed) > 0;
    const Verdict verdict = on ? judge(asked, DEVICE, *products<DEVICE>()) : Verdict::Off;
    Slot& here = slot<request, DEVICE>;
    here.counts[static_cast<int>(verdict)].fetch_add(1, std::memory_order_relaxed);
    if constexpr (WRITES) {
      if (verdict == Verdict::Tiled)
        compute_out(asked, *products<DEVICE>());
      else
        go_on(here, keys, args...);
      return *asked.out;
    } else {
      if (verdict == Verdict::Tiled) return compute(asked, *products<DEVICE>());
      return go_on(here, keys, args...).toTensor();
    }
  }

  static c10::IValue go_on(const Slot& here, c10::DispatchKeySet keys, Args... args) {
    torch::jit::Stack stack = c10::impl::boxArgs<Args...>(args...);
    here.previous->callBoxed(*here.op, keys, &stack);
    return std::move(stack.back());
  }
};

// The same of an operator whose arguments are read from the stack.
template <auto request, at::DeviceType DEVICE>
void boxed_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Slot& here = slot<request, DEVICE>;
  const auto verdict_of = [&](Verdict verdict) {
    here.counts[static_cast<int>(verdict)].fetch_add(1, std::memory_order_relaxed);
    return verdict;
  };
  if (enabled<DEVICE>.load(std::memory_order_relaxed) == 0) {
    verdict_of(Verdict::Off);
    return here.previous->callBoxed(op, keys, stack);
  }
  const ScaledCall asked = request(torch::jit::last(*stack, count));
  if (verdict_of(judge(asked, DEVICE, *products<DEVICE>())) != Verdict::Tiled)
    return here.previous->callBoxed(op, keys, stack);
  at::Tensor c = compute(asked, *products<DEVICE>());
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(c));
}

}  // namespace tiled
