// The measured numbers behind the choices of blocking.cpp.
#pragma once

#include <cstdint>

namespace tiled::cpu {

enum Number {
#define NUMBER(name, ...) name,
#include "cpu/budgets.inc"
  NUMBER_COUNT
};
enum Column { BASE_CHAINS, AVX2_CHAINS, AVX512_CHAINS, AVX512_WORDS, AMX_TILES, COLUMN_COUNT };

// Any values >= 0. Written only to measure, while no product runs.
extern int64_t budgets[NUMBER_COUNT][COLUMN_COUNT];

}  // namespace tiled::cpu
