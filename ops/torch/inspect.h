// Inspection says what would run, and why: the operators behind algos(), explain(), plan(),
// occupancy() and roofline(). They compute no product.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/plan/device.h"
#include "tiled_mm.h"

namespace tiled {

using OptionalName = std::optional<std::string_view>;
using MaybeTensor = std::optional<at::Tensor>;

// One of device_names(), or "cuda" or "cuda:1" for a GPU of this machine; else an error that lists
// them.
DeviceInfo device_by_name(std::string_view name);

// With scales of both operands, here and below: of the scaled product.
std::string explain_text(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                         OptionalName device, bool verbose, const MaybeTensor& scale_a = {},
                         const MaybeTensor& scale_b = {});

std::string plan_json(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                      OptionalName device, const MaybeTensor& scale_a = {},
                      const MaybeTensor& scale_b = {});

// Every way in which the problem can run in its arithmetic, of all rungs or of options.algo alone:
// a JSON array of objects {algo, tile, swap_ab, cluster_p, cluster_q, split_k, by_name
// (whether it runs by its name alone), seconds (estimated), demand (what the estimate is made of)}.
// With an activation the product has an epilogue.
std::string ways_json(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                      std::optional<std::string_view> activation, OptionalName device,
                      const MaybeTensor& scale_a, const MaybeTensor& scale_b);

// A row of a rules file, for the way of that name of options.algo: "row CLASS WAY".
std::string rules_row(const at::Tensor& a, const at::Tensor& b, std::string_view tile, bool swap_ab,
                      int64_t cluster_p, int64_t cluster_q, bool split_k, const MmOptions& options,
                      std::optional<std::string_view> activation, OptionalName device);

std::string occupancy_json(std::string_view device, int64_t threads, int64_t registers,
                           int64_t shared_bytes);

std::string roofline_json(std::string_view device, double bytes, double flops,
                          std::string_view peak);

std::vector<int64_t> kernel_attributes(const at::Tensor& a, const at::Tensor& b,
                                       const MmOptions& options);

}  // namespace tiled
