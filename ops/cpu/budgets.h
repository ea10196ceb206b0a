// The measured numbers behind the choices of blocking.cpp: how much of an operand is worked on at a
// time, and when a copy of it pays.
#pragma once

#include "cpu/blocking.h"

namespace tiled::cpu {

enum Number {
#define NUMBER(name, ...) name,
#include "cpu/budgets.inc"
  NUMBER_COUNT
};
enum Column { BASE_CHAINS, AVX2_CHAINS, AVX512_CHAINS, AVX512_WORDS, AMX_TILES, COLUMN_COUNT };

struct Limits {
  int64_t least, most;
};
constexpr Limits limits_of(Number number) {
  const bool is_group = number == FEW_TILES || number == DOT_TILES || number == DOT_STREAM_TILES;
  const bool is_size = number == LONG_K || number == SET_ROWS || number == STREAM_VECTORS;
  return {is_size ? 1 : 0, is_group ? MAX_GROUP : int64_t{1} << 40};
}

// Written only to measure, while no product runs.
extern int64_t budgets[NUMBER_COUNT][COLUMN_COUNT];

}  // namespace tiled::cpu
