// cpu_peak: what the CPU's cores could do at most, from loops that touch registers only.
//
//   cpu_peak [threads]
//
// prints Gflop/s as JSON, {"fp32": ..., "fp64": ...}, and "bf16" where the CPU has vdpbf16ps or
// AMX; by the widest instructions that it has, all threads at once, the best of several tries.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace {

// Flops of one call of `rounds` rounds. Chains enough to hide any latency, and no more than fit
// the registers.
using Meter = double (*)(int64_t rounds);
volatile double sink;

#ifdef __x86_64__
// Sixteen chains, or twelve of them where there are sixteen registers.
#define METER(name, isa, Vector, lanes, chains, set1, fma)                     \
  __attribute__((target(isa))) double name(int64_t rounds) {                   \
    Vector sums[chains];                                                       \
    for (Vector& sum : sums) sum = set1(1);                                    \
    Vector a = set1(0.5), b = set1(0.25);                                      \
    __asm__ volatile("" : "+v"(a), "+v"(b)); /* values that nobody can know */ \
    for (int64_t r = 0; r < rounds; ++r)                                       \
      _Pragma("GCC unroll 16") for (Vector& sum : sums) sum = fma(a, b, sum);  \
    for (Vector& sum : sums) __asm__ volatile("" ::"v"(sum)); /* nor drop */   \
    return 2.0 * lanes * chains * static_cast<double>(rounds);                 \
  }
METER(fp32_avx512, "avx512f", __m512, 16, 16, _mm512_set1_ps, _mm512_fmadd_ps)
METER(fp64_avx512, "avx512f", __m512d, 8, 16, _mm512_set1_pd, _mm512_fmadd_pd)
METER(fp32_avx2, "avx2,fma", __m256, 8, 12, _mm256_set1_ps, _mm256_fmadd_ps)
METER(fp64_avx2, "avx2,fma", __m256d, 4, 12, _mm256_set1_pd, _mm256_fmadd_pd)

__attribute__((target("avx512f,avx512bf16"))) double bf16_avx512(int64_t rounds) {
  __m512 sums[16];
  __m512i a = _mm512_set1_epi32(0x3f003f00);
  __asm__ volatile("" : "+v"(a));
  for (__m512& sum : sums) {
    sum = _mm512_setzero_ps();
    __asm__ volatile("" : "+v"(sum));  // equal chains that are known to be would become one
  }
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)a);
  for (__m512& sum : sums) __asm__ volatile("" ::"v"(sum));
  return 2.0 * 32 * 16 * static_cast<double>(rounds);
}

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfiguration TILES;

__attribute__((target("amx-tile,amx-bf16"))) double bf16_amx(int64_t rounds) {
  _tile_loadconfig(&TILES);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(rounds);
}

// By CPUID's bits, since Clang 14 knows no names for them.
bool has_tiles() {
  constexpr long REQUEST = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  constexpr unsigned ALL = 1u << 22 | 1u << 24;     // AMX_BF16 and AMX_TILE
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  return (d & ALL) == ALL && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

// Any CPU runs this: vectors of 16 bytes.
template <typename T>
double portable(int64_t rounds) {
  typedef T Vector __attribute__((vector_size(16)));
  constexpr int CHAINS = 12;
  Vector sums[CHAINS] = {};
  T half = T(0.5);
  __asm__ volatile("" : "+m"(half));
  const Vector a = Vector{} + half;
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (Vector& sum : sums) sum += a * a;
  for (Vector& sum : sums) sink = static_cast<double>(sum[0]);
  return 2.0 * (16 / sizeof(T)) * CHAINS * static_cast<double>(rounds);
}

// The best rate of all threads together, in Gflop/s.
double measure(Meter meter, int threads) {
  constexpr double TRY_SECONDS = 0.05;
  constexpr int TRIES = 7;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto since = [&](auto begin) {
    return std::chrono::duration<double>(now() - begin).count();
  };
  int64_t rounds = 1000;
  for (auto begin = now(); meter(rounds), since(begin) < TRY_SECONDS; begin = now()) rounds *= 2;
  double best = 0;
  for (int t = 0; t < TRIES; ++t) {
    std::vector<double> flops(threads);
    std::vector<std::thread> team;
    const auto begin = now();
    for (int i = 0; i < threads; ++i)
      team.emplace_back([&flops, meter, rounds, i] { flops[i] = meter(rounds); });
    for (std::thread& thread : team) thread.join();
    const double seconds = since(begin);
    best = std::max(best, flops[0] * threads / seconds * 1e-9);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (argc > 2 || threads < 1) {
    std::fprintf(stderr, "usage: cpu_peak [threads]\n");
    return 2;
  }
  Meter fp32 = &portable<float>, fp64 = &portable<double>, bf16 = nullptr;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) {
    fp32 = &fp32_avx512;
    fp64 = &fp64_avx512;
    if (__builtin_cpu_supports("avx512bf16")) bf16 = &bf16_avx512;
    if (has_tiles()) bf16 = &bf16_amx;
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    fp32 = &fp32_avx2;
    fp64 = &fp64_avx2;
  }
#endif
  std::printf("{\"fp32\": %.1f, \"fp64\": %.1f", measure(fp32, threads), measure(fp64, threads));
  if (bf16 != nullptr) std::printf(", \"bf16\": %.1f", measure(bf16, threads));
  std::printf("}\n");
  return 0;
}
