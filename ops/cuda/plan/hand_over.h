// Stream-K (stream_k.h): how a tile's accumulators go from block to block. Where they are in the
// workspace, and the words by which blocks find their number and say that accumulators are there.
// Host and device; hand_over.cuh has the way itself.
#pragma once

#include <cstdint>

#include "cuda/plan/stream_k.h"

namespace tiled {

struct HandOver {
  void* accumulators;  // of a group of threads, [group][vector][thread] of 16 bytes
  uint32_t* ticket;    // zero before, as are the flags
  uint32_t* flags;     // [blocks]
};

// Its words in one place, which is zero before.
constexpr int64_t hand_over_words_bytes(int64_t groups) { return (groups + 1) * 4; }
constexpr uint32_t hand_over_groups(int64_t words_bytes) {
  return static_cast<uint32_t>(words_bytes / 4 - 1);
}

inline HandOver hand_over_at(char* workspace, int64_t accumulators_at, int64_t words_at) {
  auto* const words = reinterpret_cast<uint32_t*>(workspace + words_at);
  return {workspace + accumulators_at, words, words + 1};
}

// A grid of persistent clusters that shares tiles out by stream-K.
struct StreamKGrid {
  StreamK rule;        // of the grid's units
  HandOver hand_over;  // by blocks, or by StreamKTurns
};

}  // namespace tiled
