// Slices of C of 32 and 8 bits (engine/hopper/element_slices.cuh) in software: filled from a
// warpgroup's accumulators, read back as TMA reads them, and written to a C of any alignment.

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <type_traits>

#include "cuda/engine/hopper/element_slices.cuh"
#include "cuda/parts/epilogue/write_rows.cuh"
#include "guarded.h"

namespace tiled::test {
namespace {

constexpr int COUNT = 88;  // registers: 176 columns, of which the last slice takes some twice
constexpr uint32_t AT = 2048;

// A sum that says where it stands, in all of its bytes.
template <typename Element>
using SumOf = std::conditional_t<std::is_same_v<Element, float>, float, int32_t>;
template <typename Element>
SumOf<Element> sum_at(int p, int q) {
  return static_cast<SumOf<Element>>(
      static_cast<int32_t>((p * 1000003u + q * 7919u) * 2654435761u));
}

template <typename Element>
void fill_registers(SumOf<Element> (&d)[COUNT], int thread) {
  for (int i = 0; i < COUNT; ++i)
    d[i] = sum_at<Element>(thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8,
                           i / 4 * 8 + thread % 4 * 2 + i % 2);
}

// By all threads, from column `first` of their registers on.
template <typename Element, int WIDTH, bool ALONG_P>
void fill(int first) {
  for (int thread = 0; thread < 128; ++thread) {
    SumOf<Element> d[COUNT];
    fill_registers<Element>(d, thread);
    fill_elements<Element, WIDTH, ALONG_P>(AT, d, first, thread);
  }
}

// Where TMA finds an element: boxes of WIDTH x ROW along p, or 64 x WIDTH, their chunks of 16 bytes
// permuted by the swizzle of so long a row (CUtensorMapSwizzle).
template <typename Element, int WIDTH, bool ALONG_P>
uint32_t found_by_tma(int p, int q) {
  constexpr int SIZE = sizeof(Element), ROW = ALONG_P ? 128 / (SIZE == 4 ? SIZE : 2) : WIDTH;
  const int box = ALONG_P ? p / ROW : 0;
  const int row = ALONG_P ? q : p, place = (ALONG_P ? p % ROW : q) * SIZE;
  const uint32_t offset = row * ROW * SIZE + place;
  const uint32_t chunks = ROW * SIZE / 16;  // of a row: 8, 4, 2 or, unswizzled, 1
  const uint32_t turned = offset / 16 ^ (offset / 128 % chunks);
  return AT + box * WIDTH * ROW * SIZE + turned * 16 + offset % 16;
}

template <typename Element, int WIDTH, bool ALONG_P>
void check_layout() {
  for (int first = 0; first + WIDTH <= 2 * COUNT; first += 8) {
    fill<Element, WIDTH, ALONG_P>(first);
    std::set<uint32_t> places;
    for (int p = 0; p < 64; ++p)
      for (int q = 0; q < WIDTH; ++q) {
        const uint32_t at = found_by_tma<Element, WIDTH, ALONG_P>(p, q);
        places.insert(at);
        ASSERT_EQ(software_gpu::shared_at<Element>(at),
                  static_cast<Element>(sum_at<Element>(p, first + q)))
            << WIDTH << ' ' << ALONG_P << ", p " << p << ", q " << q;
      }
    ASSERT_EQ(places.size(), 64u * WIDTH);
  }
}

TEST(ElementSlices, LieAsTmaReadsThem) {
  check_layout<int32_t, 8, false>(), check_layout<int32_t, 8, true>();
  check_layout<int32_t, 16, false>(), check_layout<int32_t, 16, true>();
  check_layout<int32_t, 32, false>(), check_layout<int32_t, 32, true>();
  check_layout<float, 8, false>(), check_layout<float, 8, true>();
  check_layout<float, 32, false>(), check_layout<float, 32, true>();
  check_layout<uint8_t, 16, false>(), check_layout<uint8_t, 16, true>();
  check_layout<uint8_t, 32, false>(), check_layout<uint8_t, 32, true>();
  check_layout<uint8_t, 64, false>(), check_layout<uint8_t, 64, true>();
}

// To a C that has so many elements of the slice, `apart` from each other, in rows further apart,
// and no memory after them.
template <typename Element, int WIDTH, bool ALONG_P>
void check_written(int ps, int qs, int apart) {
  constexpr int FIRST = 16;
  fill<Element, WIDTH, ALONG_P>(FIRST);
  const int rows = ALONG_P ? qs : ps, length = ALONG_P ? ps : qs, pitch = length * apart + 3;
  const Guarded memory(((rows - 1) * pitch + (length - 1) * apart + 1) * sizeof(Element), 0);
  auto* const c = reinterpret_cast<Element*>(memory.data());
  std::memset(memory.data(), 0x5a, memory.bytes());
  constexpr int BOX = ALONG_P ? slice_row(sizeof(Element)) : 64;
  for (int box = 0; box < 64; box += BOX)
    for (int thread = 0; thread < 128; ++thread)
      if constexpr (ALONG_P)
        write_rows<WIDTH, BOX, 128>(AT + box * WIDTH * sizeof(Element), c + box * apart, pitch,
                                    apart, qs, ps - box, thread);
      else
        write_rows<64, WIDTH, 128>(AT, c, pitch, apart, ps, qs, thread);
  Element untouched;
  std::memset(&untouched, 0x5a, sizeof untouched);
  for (int at = 0; at < memory.bytes() / static_cast<int>(sizeof(Element)); ++at) {
    const int row = at / pitch, i = at % pitch / apart;
    const bool is_element = at % pitch % apart == 0 && i < length;
    ASSERT_EQ(c[at], !is_element ? untouched
                                 : static_cast<Element>(ALONG_P ? sum_at<Element>(i, FIRST + row)
                                                                : sum_at<Element>(row, FIRST + i)))
        << ps << " x " << qs << ", " << apart << " apart, " << row << ", " << i;
  }
}

TEST(ElementSlices, AreWrittenWhereCEnds) {
  for (const auto& [ps, qs] : {std::array{64, 16}, {63, 15}, {1, 1}, {33, 7}, {5, 16}})
    for (const int apart : {1, 2}) {
      check_written<int32_t, 16, false>(ps, qs, apart);
      check_written<int32_t, 16, true>(ps, qs, apart);
      check_written<float, 16, false>(ps, qs, apart);
      check_written<float, 16, true>(ps, qs, apart);
      check_written<uint8_t, 16, false>(ps, qs, apart);
      check_written<uint8_t, 16, true>(ps, qs, apart);
      check_written<uint8_t, 64, false>(ps, 4 * qs, apart);
      check_written<uint8_t, 64, true>(ps, 4 * qs, apart);
    }
}

// The most lanes that meet in one of shared memory's 32 banks of 4 bytes, of those whose stores go
// out together: of sums along q, which are two words a lane, a half warp; of all others the warp.
template <typename Element, int WIDTH, bool ALONG_P>
int most_to_a_bank() {
  using Slice = ElementSlice<Element, WIDTH, ALONG_P>;
  const bool pairs_of_words = !ALONG_P && sizeof(Element) == 4;
  int most = 0;
  for (int warp = 0; warp < 4; ++warp)
    for (int half = 0; half < (pairs_of_words ? 2 : 1); ++half) {
      std::array<std::set<uint32_t>, 32> words;  // of each bank
      for (int lane = pairs_of_words ? 16 * half : 0; lane < (pairs_of_words ? 16 * half + 16 : 32);
           ++lane)
        for (int word = 0; word < (pairs_of_words ? 2 : 1); ++word) {
          const uint32_t at = Slice::at(16 * warp + lane / 4, lane % 4 * 2) / 4 + word;
          words[at % 32].insert(at);
        }
      for (const auto& bank : words) most = std::max(most, static_cast<int>(bank.size()));
    }
  return most;
}

TEST(ElementSlices, MeetFewLanesInABank) {
  EXPECT_EQ((most_to_a_bank<int32_t, 32, true>()), 1);
  EXPECT_EQ((most_to_a_bank<int32_t, 8, true>()), 1);
  EXPECT_EQ((most_to_a_bank<uint8_t, 64, true>()), 1);
  EXPECT_EQ((most_to_a_bank<uint8_t, 64, false>()), 1);
  EXPECT_EQ((most_to_a_bank<uint8_t, 32, false>()), 1);
  EXPECT_EQ((most_to_a_bank<uint8_t, 16, false>()), 1);
  EXPECT_EQ((most_to_a_bank<int32_t, 32, false>()), 2);
}

}  // namespace
}  // namespace tiled::test
