// The engine's own threads.
#pragma once

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <system_error>
#include <thread>
#include <utility>

namespace tiled {

// A thread that does `body`, or an error that says that the system has no more of them. The engine
// computes below autograd, so its threads are in inference mode: there the results of a caller in
// inference mode may be written, and those of any other caller too. No mode of the caller's thread
// (autocast, functorch's, Python's) reaches them: what a product means is settled when it begins.
template <typename Body>
std::thread start_thread(Body body) {
  try {
    return std::thread([body = std::move(body)] {
      const c10::InferenceMode below_autograd;
      body();
    });
  } catch (const std::system_error& error) {
    TORCH_CHECK(false, "tiled_mm: out_of_core cannot start a thread: ", error.what());
  }
}

}  // namespace tiled
