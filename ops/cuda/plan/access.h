// How operands are read where a rung has the choice. Pure, as plan.h.
#pragma once

#include <string>

#include "cuda/plan/plan.h"

namespace tiled {

// How register_tile, or mma_tile in fp64, reads an operand from global memory.
enum class Access : int8_t {
  AlongK,    // vectors of elements that are neighbours in k
  AlongMN,   // vectors of elements that are neighbours in m (A) or n (B)
  Elements,  // one at a time, any strides, lanes along the smaller stride (by cp.async: along k,
             // or along m or n for such operands of mma_tile)
};

// How both operands are read.
struct Accesses {
  Access a, b;
};

// By vectors in both operands, or by single elements in both.
Accesses vector_accesses_of(const Problem& problem);

// The access by which cp.async can copy 16 bytes: their address must be aligned whatever the
// number of elements there.
Access copied_access_of(const Side& side);

// The same where the tile is contiguous along m or n: register_tile's, whose operands along k are
// transposed on their way, one element at a time.
Access async_access_of(const Side& side);

// Whether elements share memory: a copy could then be larger than all the memory there is.
bool overlaps_itself(const Side& side, int64_t batch);

// For reports: "A by vectors along k, B by single elements", and as JSON.
std::string text_of(const Accesses& accesses);
std::string json_of(const Accesses& accesses);

}  // namespace tiled
