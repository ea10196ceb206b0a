// How a thread computes with floating-point numbers: a mode that each thread has, that a process
// may have set in some of them (torch.set_flush_denormal(True) in the caller's), and that would be
// seen in the bits of a product. So every part of one runs in the same mode, whichever thread runs
// it.
#pragma once

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include <cstdint>

namespace tiled::cpu {

// As long as this lives, the thread rounds to nearest and keeps subnormal numbers, as IEEE 754 has
// it. Afterwards its mode is what it was before. Which exceptions trap stays the thread's choice.
class IeeeMode {
 public:
  IeeeMode() : before_(read()) {
    if ((before_ & OTHER) != 0) write(before_ & ~OTHER);
  }
  ~IeeeMode() {
    if ((before_ & OTHER) != 0) write(before_);
  }
  IeeeMode(const IeeeMode&) = delete;
  IeeeMode& operator=(const IeeeMode&) = delete;

 private:
#if defined(__x86_64__)
  using Register = uint32_t;
  // MXCSR: subnormal results and operands become zeros, and the direction of roundings.
  static constexpr Register OTHER = 0x8000 | 0x0040 | 0x6000;
  static Register read() { return _mm_getcsr(); }
  static void write(Register mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Register = uint64_t;
  // FPCR: FZ, FZ16 and FIZ, by which subnormals become zeros, and RMode.
  static constexpr Register OTHER = (1u << 24) | (1u << 19) | (1u << 0) | (3u << 22);
  static Register read() {
    Register mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(Register mode) { asm volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
#else
  using Register = uint32_t;
  static constexpr Register OTHER = 0;
  static Register read() { return 0; }
  static void write(Register) {}
#endif

  Register before_;
};

}  // namespace tiled::cpu
