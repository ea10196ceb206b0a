// AMX: an instruction multiplies tiles, 16 rows of A of 64 bytes by 64 bytes of 16 columns of B,
// and adds to 16 x 16 sums of 32 bits: TDPBF16PS for bf16, TDPBUUD for integers of 8 bits, of whose
// sums the low 8 bits are right for signed ones too; TDPBSSD for those where C keeps sums whole.
// The rest runs as at level avx512.
//
//                  tile 6    tile 7        b: [16][16 words], packed (words.h)
//                +---------+---------+
//       tile 4   | tile 0  | tile 1  |     a: [16 rows][16 words], as it stands or packed
//       tile 5   | tile 2  | tile 3  |
//                +---------+---------+
//
// For each element, TDPBF16PS sums the 16 even products of its 32 and the 16 odd ones by
// fused multiply-adds, adds the two sums, and adds that to the element; it rounds to nearest even
// and takes subnormals for zero throughout. So the bits depend on which 32 elements of k meet in
// one instruction: always those between two multiples of 32, zeros making up what is missing at K's
// end.
//
// Tiles are always whole: what is beyond the rows of A or the columns of B is computed and not
// stored. Compiled as avx512.cpp, with -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8.
#define VECTOR_BYTES 64
#include "cpu/micro_kernel.h"
#include "cpu/naive_pairs.h"
#include "cpu/words.h"

namespace tiled::cpu {
namespace {

constexpr int64_t SIDE = 16;       // rows, and columns of sums, of a tile
constexpr int64_t STEPS = 16;      // words of k in a tile
constexpr int64_t ROW = 2 * SIDE;  // sums of a row of `sums` below

struct alignas(64) Configuration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {LINE, LINE, LINE, LINE, LINE, LINE, LINE, LINE};
  uint8_t rows[16] = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE};
};
static_assert(sizeof(Configuration) == 64, "as the processor reads it");
constexpr Configuration CONFIGURATION;

void begin() { _tile_loadconfig(&CONFIGURATION); }

// Tiles in use would be saved at every switch of threads, and are in the way of other libraries.
void end() { _tile_release(); }

// The compiler does not know that tiles are read from memory, nor what for.
inline void memory_is_read() { __asm__ volatile("" ::: "memory"); }

// Tile SUM += its tile of A * its tile of B, see above. The numbers of tiles are part of the
// instructions.
struct DotPairs {
  using Sum = float;
  using Rounded = uint16_t;

  // As in avx512_bf16.cpp: every CPU with AMX has that level's instructions.
  static inline __attribute__((always_inline)) void round(uint16_t* p, uint32_t mask,
                                                          Vector<float> first,
                                                          Vector<float> second) {
    _mm512_mask_storeu_epi16(p, mask, (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
  }

  template <int SUM>
  static inline __attribute__((always_inline)) void step() {
    if constexpr (SUM == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (SUM == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (SUM == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (SUM == 3) _tile_dpbf16ps(3, 5, 7);
  }
};
template <bool SIGNED>
struct DotQuads {
  using Sum = uint32_t;
  using Rounded = uint8_t;

  static inline __attribute__((always_inline)) void round(uint8_t* p, uint32_t mask, Words first,
                                                          Words second) {
    alignas(32) uint8_t low[2 * SIDE];
    LowByte::narrow_vector(low, first), LowByte::narrow_vector(low + SIDE, second);
    _mm256_mask_storeu_epi8(p, mask, _mm256_load_si256(reinterpret_cast<__m256i*>(low)));
  }

  template <int SUM>
  static inline __attribute__((always_inline)) void step() {
    if constexpr (SUM == 0 && SIGNED) _tile_dpbssd(0, 4, 6);
    if constexpr (SUM == 1 && SIGNED) _tile_dpbssd(1, 4, 7);
    if constexpr (SUM == 2 && SIGNED) _tile_dpbssd(2, 5, 6);
    if constexpr (SUM == 3 && SIGNED) _tile_dpbssd(3, 5, 7);
    if constexpr (SUM == 0 && !SIGNED) _tile_dpbuud(0, 4, 6);
    if constexpr (SUM == 1 && !SIGNED) _tile_dpbuud(1, 4, 7);
    if constexpr (SUM == 2 && !SIGNED) _tile_dpbuud(2, 5, 6);
    if constexpr (SUM == 3 && !SIGNED) _tile_dpbuud(3, 5, 7);
  }
};

// ROWS x COLS tiles.
template <typename Math, int ROWS, int COLS>
void multiply_tiles(const Tile& tile) {
  using Sum = typename Math::Sum;
  alignas(64) Sum sums[ROWS * SIDE * ROW];
  const Part<Sum> part(tile.last);
  const bool whole = tile.rows == ROWS * SIDE && tile.last == SIDE;

  if (tile.start == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    const Sum* start = static_cast<const Sum*>(tile.start);
    int64_t row = tile.start_row;
    if (!whole) {
      for (int64_t i = 0; i < tile.rows; ++i) {
        Vector<Sum> sum[COLS];
        load_row<Sum, COLS>(sum, start + i * row, part);
        store_row<Sum, COLS>(sums + i * ROW, sum, Whole<Sum>{});
      }
      start = sums;
      row = ROW;
    }
    memory_is_read();
    _tile_loadd(0, start, row * 4);
    if constexpr (COLS == 2) _tile_loadd(1, start + SIDE, row * 4);
    if constexpr (ROWS == 2) _tile_loadd(2, start + SIDE * row, row * 4);
    if constexpr (ROWS == 2 && COLS == 2) _tile_loadd(3, start + SIDE * row + SIDE, row * 4);
  }

  const uint32_t* a = static_cast<const uint32_t*>(tile.a);
  const uint32_t* b = static_cast<const uint32_t*>(tile.b);
  const int64_t a_row = tile.a_row * 4, b_row = tile.b_k * 4;  // bytes
  memory_is_read();
  for (int64_t p = 0; p < tile.k; p += STEPS) {
    _tile_loadd(6, b, b_row);
    _tile_loadd(4, a, a_row);
    Math::template step<0>();
    if constexpr (COLS == 2) {
      _tile_loadd(7, b + SIDE, b_row);
      Math::template step<1>();
    }
    if constexpr (ROWS == 2) {
      _tile_loadd(5, a + SIDE * tile.a_row, a_row);
      Math::template step<2>();
      if constexpr (COLS == 2) Math::template step<3>();
    }
    a += STEPS;
    b += STEPS * tile.b_k;
  }

  const bool direct = tile.more && whole;
  Sum* to = direct ? static_cast<Sum*>(tile.out) : sums;
  const int64_t to_row = direct ? tile.out_row : ROW;
  _tile_stored(0, to, to_row * 4);
  if constexpr (COLS == 2) _tile_stored(1, to + SIDE, to_row * 4);
  if constexpr (ROWS == 2) _tile_stored(2, to + SIDE * to_row, to_row * 4);
  if constexpr (ROWS == 2 && COLS == 2) _tile_stored(3, to + SIDE * to_row + SIDE, to_row * 4);
  memory_is_read();
  if (direct) return;
  if (tile.round) {
    auto* out = static_cast<typename Math::Rounded*>(tile.out);
    const uint32_t mask = ~0u >> (ROW - (COLS - 1) * SIDE - tile.last);
    for (int64_t i = 0; i < tile.rows; ++i, out += tile.out_row) {
      const Vector<Sum> second = COLS == 2 ? load<Sum>(sums + i * ROW + SIDE) : Vector<Sum>{};
      Math::round(out, mask, load<Sum>(sums + i * ROW) + Sum{0}, second + Sum{0});
    }
    return;
  }
  Sum* out = static_cast<Sum*>(tile.out);
  for (int64_t i = 0; i < tile.rows; ++i, out += tile.out_row) {
    Vector<Sum> total[COLS] = {};  // not skipped where nothing is added: -0 becomes +0
    if (tile.add) load_row<Sum, COLS>(total, out, part);
    for (int64_t j = 0; j < COLS; ++j) total[j] += load<Sum>(sums + i * ROW + j * SIDE);
    store_row<Sum, COLS>(out, total, part);
  }
}

// One element of C: tiles of one row and one column that count.
float chain(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride, int64_t k) {
  alignas(64) uint32_t row[SIDE][STEPS] = {}, column[STEPS][SIDE] = {};
  alignas(64) float sums[SIDE][SIDE];
  begin();
  _tile_zero(0);
  for (int64_t first = 0; 2 * first < k; first += STEPS) {
    for (int64_t p = 0; p < STEPS; ++p) {
      row[0][p] = word_at(a, first + p, a_stride, k);
      column[p][0] = word_at(b, first + p, b_stride, k);
    }
    memory_is_read();
    _tile_loadd(4, row, LINE);
    _tile_loadd(6, column, LINE);
    DotPairs::step<0>();
  }
  _tile_stored(0, sums, LINE);
  memory_is_read();
  end();
  return sums[0][0];
}

template <typename Math>
constexpr Kernels tile_kernels() {
  Kernels kernels = {};
  kernels.lanes = SIDE;
  kernels.rows = 2 * SIDE;
  kernels.rounds = true;
  kernels.row_unit = SIDE;
  kernels.begin = &begin;
  kernels.end = &end;
  for (int64_t rows = 1; rows <= 2 * SIDE; ++rows) {
    kernels.wide[rows] = 2;
    kernels.tile[rows][1] =
        rows <= SIDE ? &multiply_tiles<Math, 1, 1> : &multiply_tiles<Math, 2, 1>;
    kernels.tile[rows][2] =
        rows <= SIDE ? &multiply_tiles<Math, 1, 2> : &multiply_tiles<Math, 2, 2>;
  }
  return kernels;
}

}  // namespace

constexpr DotTable AMX_BF16 = {tile_kernels<DotPairs>(), words_codec<uint16_t>(STEPS),
                               &naive_dots<chain>};
constexpr DotTable AMX_INT8 = {tile_kernels<DotQuads<false>>(), words_codec<uint8_t>(STEPS),
                               nullptr};
constexpr DotTable AMX_WHOLE_INT8 = {tile_kernels<DotQuads<true>>(),
                                     words_codec<uint8_t>(STEPS, /*whole=*/true), nullptr};
constexpr DotTable AMX_WHOLE_UINT8 = {tile_kernels<DotQuads<false>>(),
                                      words_codec<uint8_t>(STEPS, /*whole=*/true), nullptr};

}  // namespace tiled::cpu
