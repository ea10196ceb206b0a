#include "cpu/finish.h"

namespace tiled::cpu {

void finish(const Epilogue& e, const ChainTable& chains, char* sums, int64_t sums_row,
            int64_t entry, Range rows, Range cols, char* c, const Strides& c_strides) {
  constexpr int64_t MOST = MAX_ROWS * FINISH_ROW_BYTES;
  static constexpr char NO_BIAS[FINISH_ROW_BYTES] = {};
  alignas(64) char bias[MOST], input[MOST];
  const Codec& out = chains.codecs[static_cast<int>(e.out_dtype)];
  const int64_t row = cols.size() * out.parts;

  // Widened to accumulators, `count` rows of a matrix with these strides.
  const auto widen = [&](const void* data, DType dtype, const Strides& s, int64_t count, char* to) {
    const char* from = static_cast<const char*>(data) +
                       (entry * s.batch + rows.begin * s.row + cols.begin * s.col) * size_of(dtype);
    const int64_t n = cols.size();
    chains.codecs[static_cast<int>(dtype)].widen({from, s.row, s.col, count, n, n, to, row, n});
  };
  Finish tile = {&e, sums, sums_row, rows.size(), cols.size(), NO_BIAS, 0, input, row};
  if (e.bias_along != Along::Nothing) {
    const bool along_m = e.bias_along == Along::M;
    widen(e.bias, e.bias_dtype,
          {e.bias_batch_stride, along_m ? e.bias_stride : 0, along_m ? 0 : e.bias_stride},
          along_m ? rows.size() : 1, bias);
    tile.bias = bias;
    tile.bias_row = along_m ? row : 0;
  }
  if (e.reads_input())
    widen(e.input.data, e.input.dtype,
          {e.input.batch_stride, e.input.row_stride, e.input.col_stride}, rows.size(), input);
  out.combine(tile);

  if (e.pre_activation.data != nullptr) {
    const int64_t at = entry * e.pre_activation.batch_stride +
                       rows.begin * e.pre_activation.row_stride +
                       cols.begin * e.pre_activation.col_stride;
    char* pre_activation = static_cast<char*>(e.pre_activation.data) + at * size_of(e.out_dtype);
    out.store({sums, sums_row, rows.size(), cols.size(), pre_activation,
               e.pre_activation.row_stride, e.pre_activation.col_stride});
  }
  if (e.activation != Activation::None) out.activate(tile);
  out.store({sums, sums_row, rows.size(), cols.size(), c, c_strides.row, c_strides.col});
}

}  // namespace tiled::cpu
