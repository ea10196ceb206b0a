// The tables of devices (cuda/plan/device.h) do not have this: the link to the host, and how much
// of a memory a product may take.
#pragma once

#include <cstdint>

namespace tiled::scale {

// Bytes/s one way over the 16 lanes that cards of this compute capability have: PCI Express 1.1,
// 2.0, 3.0, 4.0 and 5.0, whose lanes carry 2.5, 5, 8, 16 and 32 Gbit/s, a tenth or 2 of 130 bits of
// it the code's own. Of what is left packets and the protocol take an eighth: an H200's 63 GB/s are
// 55.4 (bench/results/h200_out_of_core.json.xz). A GH200's own link to its processor is faster, and
// counts here as PCI Express 5.0.
constexpr double link_rate(int capability) {
  constexpr double DATA = 0.88, SHORT_CODE = 0.8, LONG_CODE = 128. / 130;
  if (capability < 13) return 16 * 2.5e9 / 8 * SHORT_CODE * DATA;
  if (capability < 30) return 16 * 5e9 / 8 * SHORT_CODE * DATA;
  if (capability < 80) return 16 * 8e9 / 8 * LONG_CODE * DATA;
  if (capability < 90) return 16 * 16e9 / 8 * LONG_CODE * DATA;
  return 16 * 32e9 / 8 * LONG_CODE * DATA;
}

// The part of free memory that a product takes by default: all but a margin for other users.
constexpr int64_t usable(int64_t free_bytes) {
  constexpr int64_t LEAST_MARGIN = 512 << 20;
  const int64_t margin = free_bytes / 20 > LEAST_MARGIN ? free_bytes / 20 : LEAST_MARGIN;
  return free_bytes > 2 * margin ? free_bytes - margin : free_bytes / 2;
}

}  // namespace tiled::scale
