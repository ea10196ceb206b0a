// How rung fp16x3 runs a problem. Pure, as plan/plan.h.
#pragma once

#include <cmath>

#include "core/elementary.h"
#include "cuda/engine/fp16x3/tiles.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/plan.h"

namespace tiled {

struct Description;  // plan/rung.h, which kernels need not know

// Below this K every element is computed in fp64: there is nothing to gain, and the bound of a few
// terms leaves no room for two parts. `coarse` tensor cores are those of other compute capabilities
// than 9.0, whose steps are shorter and keep fewer bits (docs/fp16x3.md).
constexpr int64_t fp16x3_least_k(bool coarse) { return coarse ? 160 : 64; }

// A block of the guard takes at a time so many rows and columns of C.
constexpr int GUARD_SQUARE = 64;
constexpr int GUARD_THREADS = 256;

// How much of |C| lost parts may be before an element is computed again: what all other errors
// leave of the bound g u |A||B|, with g = min(K, 8 sqrt(K)) and u = 2^-24 (docs/fp16x3.md). |C|
// stands for |A||B|, which is no smaller.
TILED_HOST_DEVICE double fp16x3_tolerance(int64_t k, bool coarse) {
  const double terms = static_cast<double>(k), root = 8 * sqrt(terms);
  const double g = terms < root ? terms : root;
  const double sums = k < DEEP_K ? ceil(terms / 64) - 1
                                 : static_cast<double>(SEGMENT_K / 64 - 1 + segment_count(k));
  return (g - ((coarse ? 93.4 : 53.2) + sums)) * 0x1p-24;
}

// The steps of 64 of K that make a part of a tile worth handing over, which takes as long as two.
constexpr uint32_t FP16X3_LEAST_STEPS = 2;

// The kernel of the product.
enum class Fp16x3Kernel : int8_t {
  Planes,   // fp16x3.cu: of two split operands
  Direct,   // direct.cu: P is split on its way
  FewRows,  // few_rows.cu: P is split on its way, and Q has few rows
  Async,    // async.cu: of two split operands, by mma.sync
};

struct Fp16x3Plan : ClusterPlan {  // tile: of Fp16x3Tiles, or the kernel's own list if it has one
  Fp16x3Kernel kernel;
  bool coarse;         // the device's tensor cores are
  bool stream_k;       // planes only: stream-K (plan/stream_k.h)
  FewRowsBlock block;  // few rows only, whose cluster_p blocks share K
};

inline std::string_view tile_name_of(const Fp16x3Plan& plan) {
  switch (plan.kernel) {
    case Fp16x3Kernel::FewRows: return Fp16x3FewRowsTiles::NAMES[plan.tile];
    case Fp16x3Kernel::Async: return Fp16x3AsyncTiles::NAMES[plan.tile];
    default: return Fp16x3Tiles::NAMES[plan.tile];
  }
}
inline Fp16x3TileInfo tile_of(const Fp16x3Plan& plan) {
  switch (plan.kernel) {
    case Fp16x3Kernel::FewRows: return Fp16x3FewRowsTiles::AS<Fp16x3TileInfo>[plan.tile];
    case Fp16x3Kernel::Async: return Fp16x3AsyncTiles::AS<Fp16x3TileInfo>[plan.tile];
    default: return Fp16x3Tiles::AS<Fp16x3TileInfo>[plan.tile];
  }
}

// plan.cpp's rung describes its plans by this (describe.cpp).
Description describe_fp16x3(const Problem& problem, const DeviceInfo& device, const Plan& plan);

}  // namespace tiled
