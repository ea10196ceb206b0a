// A job as Python holds it: a class of TorchScript's, by which it waits for a product, shows how
// far it is and can be interrupted. door.cpp has the one on GPUs, on_cpu.cpp the one for tests.
#pragma once

#include <torch/custom_class.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "out_of_core/job.h"
#include "tiled_mm.h"

namespace tiled {

// Each door has a struct of its own of this, in its file: a class that two files know would be
// exported from the library. Its methods let go of the interpreter's lock while they run.
struct OutOfCoreHolder : torch::CustomClassHolder {
  explicit OutOfCoreHolder(std::unique_ptr<OutOfCoreJob> job) : job(std::move(job)) {}
  const std::unique_ptr<OutOfCoreJob> job;
};

// The options as a constructor gets them: the dtype by its number. They refer to `precision`.
OutOfCoreOptions options_from_python(const std::optional<std::string>& precision,
                                     std::optional<int64_t> out_dtype,
                                     const std::vector<std::string>& devices,
                                     std::optional<int64_t> memory, bool copy);

// wait(seconds) says whether the job has ended; progress() gives [tiles done, tiles, bytes in,
// bytes out, seconds, flops done]; stop() and result() as OutOfCoreJob's.
template <typename Holder>
void define_job_methods(torch::class_<Holder>& c) {
  using Self = c10::intrusive_ptr<Holder>;
  c.def("wait", [](const Self& self, double seconds) { return self->job->wait(seconds); });
  c.def("progress", [](const Self& self) {
    const OutOfCoreProgress p = self->job->progress();
    return std::make_tuple(p.tiles_done, p.tiles, p.bytes_in, p.bytes_out, p.seconds, p.flops_done);
  });
  c.def("stop", [](const Self& self) { self->job->stop(); });
  c.def("result", [](const Self& self) { return self->job->result(); });
}

}  // namespace tiled
