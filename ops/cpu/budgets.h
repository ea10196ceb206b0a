// The measured numbers behind the choices of blocking.cpp: how much of an operand is worked on at a
// time, and when a copy of it pays.
#pragma once

#include <cstdint>

#include "cpu/blocking.h"

namespace tiled::cpu {

// Cache budgets, packed or not. The best sizes are flat around these.
constexpr int64_t TILE_BYTES = 24 << 10;  // of A, [tile_rows][block_k], in L1
constexpr int64_t BLOCK_K = 512;          // the longest block of several tiles
// The same where sums would wait outside C for the next block: their way to memory and back takes
// longer than reading the tiles of A from L2.
constexpr int64_t WAITING_BLOCK_K = 2048;
constexpr int64_t COLUMN_BLOCK_K = 2048;  // of columns read by few tiles: pages are visited once
constexpr int64_t LONG_COLS = 256;        // else A is not packed, and its rows share sets
// A panel of B, [block_k][panel], takes half a megabyte of L2: A and C pass through L2 too. From L3
// the kernel runs at three quarters of its speed on an Intel server.
constexpr int64_t PANEL_BYTES = 512 << 10;
constexpr int64_t FEW_PANEL_BYTES = 256 << 10;
// AMX multiplies so fast that sums which wait outside C take longer than reading A and B from L2,
// of which every CPU with AMX has two megabytes: all of K in one block, up to so many steps.
constexpr int64_t AMX_BLOCK_K = 2048;
constexpr int64_t AMX_PART_K = 512;
constexpr int64_t AMX_PANEL_BYTES = 1 << 20;
constexpr int64_t LONG_BLOCK_K = 4096;  // of one tile, elements: what is packed of A stays in L2

// Multiply-adds of a vector that take about as long as waking a thread.
constexpr int64_t THREAD_STEPS = 1 << 15;

// Rows that are a multiple of this apart fall into the same few sets of the first-level cache.
constexpr int64_t SET_BYTES = 4096;

// So many of A's leave lines for B in a set of eight: tiles of no more rows read A as it stands.
constexpr int64_t SET_ROWS = 6;

// Strips that must read a tile of A before a copy of it pays.
constexpr int64_t STRIPS_TO_PACK_A = 8;

// Tiles that must read a strip of B before a copy of it pays.
constexpr int64_t TILES_TO_PACK_B = 24;
constexpr int64_t TILES_TO_PACK_SCATTERED_B = 8;

// Narrow strips of a B whose rows share sets: lines fetched beside them would be gone, with longer
// blocks, when the next strip needs them.
constexpr int64_t NARROW_BYTES = 64;  // of a row
constexpr int64_t NARROW_K = 128;     // steps

// Tiles that read the same elements of B and make operands of them, each for itself, before packing
// pays: two where that is little beside the rest, pairs or many rows a tile, or reading B is more.
constexpr int64_t SHARING_TILES = 2;
constexpr int64_t SHARING_ROWS = 8;
constexpr int64_t SHARING_STREAM_ROWS = 16;  // more pack a B that streams

// A B that is used once streams from memory: B of more bytes than this is read a few whole rows at
// a time, so that each page is visited once; packed columns go through in narrow strips. The wider
// a strip, the fewer rows it takes to keep memory busy.
constexpr int64_t STREAM_BYTES = 16 << 20;
constexpr int64_t STREAM_K = 16;       // rows
constexpr int64_t STREAM_WIDE_K = 8;   // rows of strips of WIDE_BYTES or more
constexpr int64_t WIDE_BYTES = 256;    // of a row
constexpr int64_t STREAM_AHEAD = 512;  // bytes along a row, fetched before they are needed
constexpr int64_t STREAM_VECTORS = 2;  // columns, in vectors

// So few tiles read a B of more than a panel strip by strip in turn, a few rows at a time: each
// strip comes from memory once. As it stands, where it can be read so: a copy costs more than it
// saves.
constexpr int64_t FEW_TILES = MAX_GROUP;
constexpr int64_t FEW_K = 16;          // rows
constexpr int64_t FEW_PACKED_K = 128;  // steps
constexpr int64_t FEW_CACHED_K = 128;  // rows of a B that does not stream

}  // namespace tiled::cpu
