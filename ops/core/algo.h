// The rungs of the ladder by name: what `algo=` may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiled {

enum class Algo : int8_t {
  Naive,         // CPU and CUDA: three loops, one element at a time
  Blocked,       // CPU: cache-blocked, a register tile of vectors
  SharedTile8,   // CUDA: the textbook's tile in shared memory, 8 wide
  SharedTile16,  // CUDA: the same, 16 wide
  SharedTile32,  // CUDA: the same, 32 wide
  RegisterTile,  // CUDA: each thread a patch of C in registers
  // Tensor cores of compute capability 9.0, 16-bit inputs and tf32:
  MmaTile,          // CUDA: fragments from shared memory, mma.sync; fp64 too
  TmaWgmma,         // CUDA: TMA and wgmma, one warpgroup
  WarpSpecialized,  // CUDA: a producer warp and two consumer warpgroups
  Hopper,           // CUDA: the same, persistent, in clusters, named tiles
  FewRows,          // CUDA: a weight streamed past at most 64 rows, mma.sync
  Fp16x3,           // CUDA: fp32 inputs in two fp16 parts each, three products
};

constexpr Algo ALL_ALGOS[] = {Algo::Naive,        Algo::Blocked,      Algo::SharedTile8,
                              Algo::SharedTile16, Algo::SharedTile32, Algo::RegisterTile,
                              Algo::MmaTile,      Algo::TmaWgmma,     Algo::WarpSpecialized,
                              Algo::Hopper,       Algo::FewRows,      Algo::Fp16x3};

constexpr bool on_tensor_cores(Algo algo) { return algo >= Algo::MmaTile; }

constexpr std::string_view name_of(Algo algo) {
  switch (algo) {
    case Algo::Naive: return "naive";
    case Algo::Blocked: return "blocked";
    case Algo::SharedTile8: return "shared_tile_8";
    case Algo::SharedTile16: return "shared_tile_16";
    case Algo::SharedTile32: return "shared_tile_32";
    case Algo::RegisterTile: return "register_tile";
    case Algo::MmaTile: return "mma_tile";
    case Algo::TmaWgmma: return "tma_wgmma";
    case Algo::WarpSpecialized: return "warp_specialized";
    case Algo::Hopper: return "hopper";
    case Algo::FewRows: return "few_rows";
    case Algo::Fp16x3: return "fp16x3";
  }
  return "?";
}

constexpr std::optional<Algo> parse_algo(std::string_view name) {
  for (Algo algo : ALL_ALGOS)
    if (name_of(algo) == name) return algo;
  return std::nullopt;
}

}  // namespace tiled
