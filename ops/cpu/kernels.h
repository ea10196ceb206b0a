// The kernels that one instruction level offers to the loops of blocked.cpp: a table of plain
// functions.
//
// This header is read by files that are compiled for different instruction sets, so it holds
// declarations only: an inline function compiled with AVX-512 here could be the copy that the
// linker keeps for everyone.
#pragma once

#include <stdint.h>

namespace tiled {
struct Epilogue;
enum class Activation : int8_t;
}  // namespace tiled

namespace tiled::cpu {

// One tile of C: chains of multiply-adds over `k` steps, accumulators in registers.
//
//     acc = start ? start : 0
//     for p in [0, k):  acc[i][j] = a[i][p] * b[p][j] + acc[i][j]      (fused where there is FMA)
//     out[i][j] = (add ? out[i][j] : +0) + acc[i][j]
//
// so that a chain may be carried from call to call through `start` and `out`, and a segment's
// last call adds it to the total (segments.h). Strides count elements of the accumulator type; in
// products by words (DotTable), a step of k is 32 bits of elements, and as long.
struct Tile {
  const void* a;       // [rows][k], any strides
  int64_t a_row, a_k;  // elements
  const void* b;       // [k][cols], neighbours in a row are neighbours in memory
  int64_t b_k;         // elements
  int64_t ahead;       // bytes from a row of b that is read to what is fetched: a hint
  const void* start;   // [rows][cols], or null
  int64_t start_row;   // elements
  void* out;           // [rows][cols]
  int64_t out_row;     // elements
  const void* next;    // where the next tile of C begins: a hint, never read
  int64_t k;           // steps
  int32_t rows;
  int32_t last;  // columns of the last vector: 1 .. lanes; nothing is stored beyond them
  bool padded;   // b may be read up to a whole vector all the same
  bool add;
  bool round;  // not with add: out holds elements of A's dtype, see Kernels::rounds
  bool more;   // the chain goes on from `out`: its zeros may have any sign
};
using TileKernel = void (*)(const Tile& tile);

// dst[i][j] = convert(src[i * row + j * col]) for i < rows, j < cols, and zeros for
// cols <= j < padded. Strides count elements, of the source and of the destination.
//
// In products by words, the elements of a step become one of the destination, and zeros make up
// what is missing of `steps` words.
struct Pack {
  const void* src;
  int64_t row, col;
  int64_t rows, cols, padded;
  void* dst;
  int64_t dst_row;
  int64_t steps;  // of k, in the destination
};
using PackFunction = void (*)(const Pack& pack);

// The reverse: dst[i * row + j * col] = convert(src[i][j]), rounding to nearest even.
struct Store {
  const void* src;
  int64_t src_row;
  int64_t rows, cols;
  void* dst;
  int64_t row, col;
};
using StoreFunction = void (*)(const Store& store);

// A tile of finished sums on its way to C (finish.h), changed in place. Bias and input are widened;
// without a bias there is a row of zeros. Strides count accumulators.
struct Finish {
  const Epilogue* epilogue;
  void* sums;  // [rows][cols]
  int64_t sums_row;
  int64_t rows, cols;  // elements of C
  const void* bias;    // [rows][cols], or one row for all if bias_row is 0
  int64_t bias_row;
  const void* input;  // [rows][cols], if the epilogue reads one
  int64_t input_row;
};
using FinishFunction = void (*)(const Finish& tile);

// A block's sums of a scaled product, added to the totals (core/scales.h):
//
//     totals[i][j] = (scale_a[i] * scale_b[j]) * sums[i][j] + totals[i][j]
struct Promotion {
  const float* sums;  // [rows][cols]
  int64_t sums_row;
  float* totals;  // [rows][cols]
  int64_t totals_row;
  int64_t rows, cols;
  const float* scale_a;  // [rows]
  const float* scale_b;  // [cols]
};
using PromoteFunction = void (*)(const Promotion& tile);

// Rows of a gradient on their way back through an activation (core/activation_gradient.h), widened
// and changed in place, and added to `sums` in ascending order.
struct PassBack {
  Activation activation;
  void* gradient;              // [rows][cols]
  const void* pre_activation;  // [rows][cols]; not read where there is no activation
  int64_t row;                 // accumulators from row to row of both
  int64_t rows, cols;
  void* sums;  // [cols]
};
using PassBackFunction = void (*)(const PassBack& tile);

// Accumulator types. Integers wrap, so the unsigned types serve the signed ones as well, and 8 bits
// may be summed in 16.
enum class Accumulator : int8_t { Float32, Float64, UInt16, UInt32, UInt64 };
constexpr int ACCUMULATOR_COUNT = 5;

constexpr int64_t LINE = 64;  // bytes of a cache line, and of a row of AMX's tiles
constexpr int MAX_ROWS = 32;
constexpr int MAX_VECTORS = 8;

// The micro-kernels of one accumulator type: tiles of `rows` x `vectors` * `lanes` elements of C,
// and wider ones for fewer rows.
struct Kernels {
  int32_t lanes;               // elements of a vector
  int32_t rows;                // of the largest tile
  int32_t wide[MAX_ROWS + 1];  // [rows]: vectors of the widest tile of so many rows
  TileKernel tile[MAX_ROWS + 1][MAX_VECTORS + 1];  // [rows][vectors], 1 <= vectors <= wide[rows]
  bool rounds;       // a tile can round its sums to the dtype of A and B on their way out
  int32_t row_unit;  // tiles begin at multiples of so many rows, and a may be read up to one
  void (*begin)();   // what a thread calls before and after its tiles, or null
  void (*end)();
};

// How elements of one dtype get in and out of the accumulators. A complex product is two real ones,
// one by A's real parts and one by its imaginary ones (pack.h).
struct Codec {
  Accumulator accumulator;
  int32_t parts;         // accumulators of one element: 2 for complex numbers, else 1
  int32_t fold;          // elements of k in one step: 2 or 4 in products by words, else 1
  int32_t unit;          // steps of k that may not be parted
  bool direct;           // memory holds accumulators: kernels may read and write it unpacked
  PackFunction pack_a;   // to [rows][k], or, of one part, from [k][rows] to [k][rows]; of complex
                         // numbers one part, strides counting reals
  PackFunction pack_b;   // to [k][parts cols]
  PackFunction pack_ib;  // the same of i times b, for A's imaginary parts; null of one part
  PackFunction widen;    // whole elements to accumulators, [rows][parts cols]
  StoreFunction store;
  // beta * input + (alpha * sum + bias), and the activation of it; null where there is none.
  FinishFunction combine, activate;
  PassBackFunction pass_back;  // null where activate is
  // For few rows, b as it stands, made into operands in registers; or null:
  const Kernels* raw;  // rows of neighbours (raw_kernel.h)
  const Kernels* dot;  // columns of neighbours (dot_kernel.h), and rows of them in a
  bool turned;         // pack_a changes A's bits: it is never packed as B is
};

struct Strides {
  int64_t batch, row, col;  // elements
};

struct NaiveProblem {
  int64_t m, n, k;
  const void* a;  // [batch][m][k]
  const void* b;  // [batch][k][n]
  void* c;        // [batch][m][n]
  Strides a_strides, b_strides, c_strides;
  bool unrounded;  // c holds sums: float of 16-bit inputs, 32 bits of bytes
};

// Rows [begin, end) of the product's batch * m rows, by three loops.
using NaiveFunction = void (*)(const NaiveProblem& problem, int64_t begin, int64_t end);

enum DTypeCounter {
#define DTYPE(dtype, ...) COUNTED_##dtype,
#include "core/dtypes.inc"
  TYPE_COUNT  // of DType
};

// The elements that are read and summed: a dtype, by its number, or bytes whose sums C keeps whole.
constexpr int WHOLE_INT8 = TYPE_COUNT, WHOLE_UINT8 = TYPE_COUNT + 1;
constexpr int KIND_COUNT = TYPE_COUNT + 2;

// Chains of multiply-adds, one step an element of k: every kind at one width of vectors.
struct ChainTable {
  bool fused;                          // multiply and add round once
  Kernels kernels[ACCUMULATOR_COUNT];  // [Accumulator]
  Codec codecs[KIND_COUNT];            // [DType], and what C keeps whole
  NaiveFunction naive[KIND_COUNT];     // likewise
  PromoteFunction promote;
};

// Products by words of 32 bits: one instruction multiplies the neighbours in k that a word holds
// and adds all of them to a sum of 32 bits.
struct DotTable {
  Kernels kernels;
  Codec codec;          // its store function is null where the sums are of the chains' type
  NaiveFunction naive;  // null where the chains give the same bits
};

extern const ChainTable BASE;
#ifdef __x86_64__
extern const ChainTable AVX2;
extern const ChainTable AVX512;
extern const DotTable AVX512_BF16;
extern const DotTable AVX512_VNNI;
extern const DotTable AVX512_VNNI_WHOLE_INT8;
extern const DotTable AVX512_VNNI_WHOLE_UINT8;
extern const DotTable AMX_BF16;
extern const DotTable AMX_INT8;
extern const DotTable AMX_WHOLE_INT8;
extern const DotTable AMX_WHOLE_UINT8;
#endif

struct Level {
  const char* name;
  const ChainTable* chains;
  const DotTable* pairs;       // of bf16; null: bf16 runs chains too
  const DotTable* quads;       // of 8-bit integers, likewise
  const DotTable* whole_int8;  // the same where C keeps their sums whole
  const DotTable* whole_uint8;
};

}  // namespace tiled::cpu
