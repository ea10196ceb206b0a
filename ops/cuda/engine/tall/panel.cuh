// The short operand's panel in shared memory, which all warps of a block read: a tile's columns by
// as much of K as fits, mostly all of it. Its layout is the one that products read, and it is
// filled up with zeros:
//
//     16 bits:  [BLOCK_N][panel_k], 16 bytes between rows, for ldmatrix
//     fp32:     [panel_k][BLOCK_N]
#pragma once

#include "cuda/engine/tall/strips.cuh"

namespace tiled {

template <typename Tile, typename T>
class Panel {
 public:
  __device__ __forceinline__ Panel(const TallArguments& args, uint32_t at, int64_t column0)
      : args_(args), at_(at), column0_(column0) {}

  __device__ __forceinline__ uint32_t pitch() const {  // bytes
    return ALONG_K ? args_.panel_k * 2 + 16 : Tile::BLOCK_N * 4;
  }
  // Where its column 0 has its k `k`.
  __device__ __forceinline__ uint32_t at(int k) const {
    return at_ + (ALONG_K ? k * 2 : k * Tile::BLOCK_N * 4);
  }

  // By all threads of a block, from `k0` of K on. Vectors have the operand's layout; where the
  // panel has another they are taken apart, so that neighbouring threads write side by side.
  __device__ __forceinline__ void load(int64_t entry, int64_t k0) const {
    const Operand& b = args_.problem.b;
    const bool along_n = b.col_stride == 1;
    const int octets = (along_n ? Tile::BLOCK_N : args_.panel_k) / WIDE;  // vectors of a line
    const int count = octets * (along_n ? args_.panel_k : Tile::BLOCK_N);
    const bool apart = along_n == ALONG_K;
    const int lines = along_n ? args_.panel_k : Tile::BLOCK_N;
    const auto place_of = [&](int i) -> Place {
      const int octet = apart ? i / lines : i % octets, line = apart ? i % lines : i / octets;
      return along_n ? Place{line, octet * WIDE} : Place{octet * WIDE, line};
    };
    const T* const from = static_cast<const T*>(b.data) + entry * b.batch_stride +
                          k0 * b.row_stride + column0_ * b.col_stride;
    const int64_t ks = args_.problem.k - k0, columns = args_.problem.n - column0_;
    constexpr int AT_ONCE = Tile::CHAINS ? 2 : 1;  // as registers allow
    for (int first = threadIdx.x; first < count; first += AT_ONCE * Tile::THREADS) {
      Vector vectors[AT_ONCE];
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        const int item = first + i * Tile::THREADS;
        if (item >= count) break;
        const Place place = place_of(item);
        const T* const x = from + place.k * b.row_stride + place.column * b.col_stride;
        vectors[i] = load_vector(x, along_n ? columns - place.column : ks - place.k,
                                 along_n ? place.k < ks : place.column < columns,
                                 along_n ? b.col_stride : b.row_stride);
      }
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        const int item = first + i * Tile::THREADS;
        if (item >= count) break;
        const Place place = place_of(item);
        const uint32_t to = at(place.k) + (ALONG_K ? place.column * pitch() : place.column * 4);
        if (!apart)
          ptx::store_shared_v4(to, reinterpret_cast<const uint4&>(vectors[i]));
        else
#pragma unroll
          for (int j = 0; j < WIDE; ++j) store_shared_bits(to + j * pitch(), vectors[i].element[j]);
      }
    }
  }

 private:
  static constexpr bool ALONG_K = sizeof(T) == 2;
  static constexpr int WIDE = 16 / sizeof(T);
  struct Place {
    int k, column;
  };
  struct alignas(16) Vector {
    Bits<T> element[WIDE];
  };

  __device__ __forceinline__ Vector load_vector(const T* x, int64_t exist, bool line_exists,
                                                int64_t stride) const {
    Vector vector{};
    if (!line_exists) return vector;
    if (exist >= WIDE && stride == 1 && args_.problem.b.alignment == 16)
      return *reinterpret_cast<const Vector*>(x);
#pragma unroll
    for (int j = 0; j < WIDE; ++j)
      if (j < exist) vector.element[j] = reinterpret_cast<const Bits<T>&>(x[j * stride]);
    return vector;
  }

  const TallArguments& args_;
  uint32_t at_;
  int64_t column0_;
};

}  // namespace tiled
