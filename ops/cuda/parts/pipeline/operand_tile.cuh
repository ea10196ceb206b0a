// One operand's share of a stage in shared memory: ROWS of m or n by 128 bytes of K, as TMA writes
// it and wgmma reads it.
//
//     K-major:  one box,  [ROWS][128 bytes of k], 128-byte swizzle
//     MN-major: ATOMS boxes,  [ATOMS][64 of k][ATOM of mn], rows of ATOM elements, swizzled by as
//               many bytes as a row has; of the last box wgmma may read a part only
//
// TMA fills with zeros what a box has beyond the matrix, but takes its time for it: some three
// cycles of an H200's more for every row of the box that is not there, so that a tile with few rows
// of its own took nearly twice as long as a whole one. Reach says what there is to ask for.
#pragma once

#include "cuda/plan/cluster_plan.h"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/ptx/tma.cuh"

namespace tiled {

// SHARE: the rows that one consumer reads; a share begins with an atom.
template <typename T, int ROWS, int SHARE, bool MN_MAJOR>
struct OperandTile {
  using Element = T;
  static constexpr bool IS_MN_MAJOR = MN_MAJOR;
  static constexpr int BYTES = (MN_MAJOR ? rows_in_atoms(ROWS, SHARE, sizeof(T)) : ROWS) * 128;
  static constexpr int BLOCK_K = 128 / sizeof(T);  // elements
  static constexpr int STEP_K = 32 / sizeof(T);    // elements: the K of one wgmma
  static constexpr int STEPS = BLOCK_K / STEP_K;
  static constexpr int ATOM = operand_atom(SHARE, sizeof(T));  // elements of mn
  static constexpr int ATOMS = (ROWS + ATOM - 1) / ATOM;
  static constexpr int BOXES = MN_MAJOR ? ATOMS : 1;  // of a stage
  static_assert(SHARE == ROWS || SHARE % ATOM == 0, "a share begins with an atom");
  static constexpr int ROW_BYTES = MN_MAJOR ? ATOM * sizeof(T) : 128;
  static constexpr int ATOM_BYTES = BLOCK_K * ROW_BYTES;  // MN-major
  static constexpr uint64_t LAYOUT =
      MN_MAJOR ? ptx::descriptor_layout<ROW_BYTES>(ATOM_BYTES, 8 * ROW_BYTES)
               : ptx::descriptor_layout<ROW_BYTES>(0, 8 * ROW_BYTES);

  // Bytes from the tile's begin to row `row` (a multiple of 8, MN-major of ATOM), step `step`.
  static constexpr uint32_t offset(int row, int step) {
    return MN_MAJOR ? row / ATOM * ATOM_BYTES + step * STEP_K * ROW_BYTES
                    : row * ROW_BYTES + step * 32;
  }

  // The part of the tile that one of the `blocks` that share it loads for all of them: a range of
  // rows, or of k where rows are contiguous along mn. Boxes: [ROWS / blocks][BLOCK_K], or
  // [BLOCK_K / blocks][ATOM].
  struct Part {
    int row, k;       // where it begins, elements
    int rows;         // of its box, elements; MN-major: all
    uint32_t offset;  // where it begins in the tile, bytes
    uint16_t mask;    // the sharers; 0 for a block alone
  };
  static __device__ __forceinline__ Part part(int blocks, int rank) {
    if (blocks == 1) return {0, 0, ROWS, 0, 0};
    const uint16_t mask = (1u << blocks) - 1;
    if constexpr (MN_MAJOR) {
      const int k = BLOCK_K / blocks * rank;
      return {0, k, ROWS, static_cast<uint32_t>(k * ROW_BYTES), mask};
    } else {
      const int row = ROWS / blocks * rank;
      return {row, 0, ROWS / blocks, static_cast<uint32_t>(row * ROW_BYTES), mask};
    }
  }

  // The in-bounds part of the tile that starts at row `row` of a matrix of `rows`. The rest of the
  // stage keeps what it had, and the elements of C that come of it are not stored.
  struct Reach {
    uint32_t bytes;  // of all parts
    int boxes;       // of this part
    bool is_short;   // K-major: the part's box ends beyond the matrix
  };
  static __device__ __forceinline__ Reach reach(const Part& part, int row, int rows) {
    const int there = max(0, min(rows - row, ROWS));
    if constexpr (MN_MAJOR) {
      const int atoms = (there + ATOM - 1) / ATOM;
      return {static_cast<uint32_t>(atoms * ATOM_BYTES), atoms, false};
    } else {
      const int own = min(there - part.row, part.rows);
      return {static_cast<uint32_t>(there * ROW_BYTES), own > 0, own < part.rows};
    }
  }

  // As below, of what there is. `edge`: K-major, the map with boxes of the rows that are left after
  // whole ones.
  static __device__ __forceinline__ void load(const Part& part, const Reach& reach, uint32_t shared,
                                              const CUtensorMap* map, const CUtensorMap* edge,
                                              int row, int k, int batch, uint32_t barrier) {
    if (MN_MAJOR ? reach.boxes == BOXES : !reach.is_short) {
      load(part, shared, map, row, k, batch, barrier);
    } else if constexpr (MN_MAJOR) {
      for (int atom = 0; atom < reach.boxes; ++atom)
        load_box(part, shared + part.offset + atom * ATOM_BYTES, map, row + atom * ATOM, k + part.k,
                 batch, barrier);
    } else if (reach.boxes != 0) {
      load_box(part, shared + part.offset, edge, k, row + part.row, batch, barrier);
    }
  }

  // Loads a part of the tile that begins at row `row` and k `k` into `shared`; `barrier` counts its
  // bytes (of every part, in every block that shares it).
  static __device__ __forceinline__ void load(const Part& part, uint32_t shared,
                                              const CUtensorMap* map, int row, int k, int batch,
                                              uint32_t barrier) {
    const uint32_t to = shared + part.offset;
    if constexpr (MN_MAJOR) {
#pragma unroll
      for (int atom = 0; atom < ATOMS; ++atom)
        load_box(part, to + atom * ATOM_BYTES, map, row + atom * ATOM, k + part.k, batch, barrier);
    } else {
      load_box(part, to, map, k, row + part.row, batch, barrier);
    }
  }

 private:
  static __device__ __forceinline__ void load_box(const Part& part, uint32_t shared,
                                                  const CUtensorMap* map, int x, int y, int z,
                                                  uint32_t barrier) {
    if (part.mask == 0)
      ptx::tma_load(shared, map, x, y, z, barrier);
    else
      ptx::tma_load_multicast(shared, map, x, y, z, barrier, part.mask);
  }
};

}  // namespace tiled
