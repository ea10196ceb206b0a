// Which class brings an operand of async_mma.
#pragma once

#include <type_traits>

#include "cuda/rungs/10_async_mma/any_operand.cuh"
#include "cuda/rungs/10_async_mma/word_operand.cuh"

namespace tiled {

template <typename Tile, typename T, int ROWS, int WARP_ROWS, bool ALONG_MN, bool IS_B>
using OperandOf = std::conditional_t<
    !Tile::ANY, AsyncOperand<Tile, T, ROWS, WARP_ROWS, ALONG_MN, IS_B>,
    std::conditional_t<sizeof(T) == 2, AnyOperand<Tile, T, ROWS, WARP_ROWS, ALONG_MN, IS_B>,
                       WordOperand<Tile, T, ROWS, WARP_ROWS, IS_B>>>;

}  // namespace tiled
