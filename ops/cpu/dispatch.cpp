// Which instruction level runs.
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/text.h"
#include "cpu/blocked.h"
#include "cpu/blocking.h"
#include "cpu/finish.h"
#include "cpu/float_mode.h"
#include "cpu/gradient_pass.h"

namespace tiled::cpu {

namespace {

constexpr Level LEVELS[] = {
    {"base", &BASE, nullptr, nullptr, nullptr, nullptr},
#ifdef __x86_64__
    {"avx2", &AVX2, nullptr, nullptr, nullptr, nullptr},
    {"avx512", &AVX512, nullptr, nullptr, nullptr, nullptr},
    {"avx512_bf16", &AVX512, &AVX512_BF16, &AVX512_VNNI, &AVX512_VNNI_WHOLE_INT8,
     &AVX512_VNNI_WHOLE_UINT8},
    {"amx", &AVX512, &AMX_BF16, &AMX_INT8, &AMX_WHOLE_INT8, &AMX_WHOLE_UINT8},
#endif
};

#ifdef __x86_64__
// __builtin_cpu_supports takes only names that the compiler knows, and Clang 14 knows neither F16C
// nor AMX by name. For these the bits of CPUID are read, whose places Intel's manual gives (volume
// 2A, CPUID).
struct Cpuid {
  unsigned a, b, c, d;
};

// Zeros for a leaf that the CPU does not have.
Cpuid cpuid(unsigned leaf) {
  Cpuid found = {};
  __get_cpuid_count(leaf, 0, &found.a, &found.b, &found.c, &found.d);
  return found;
}

// F16C uses the registers of AVX2: the caller asks for that first, and with it for a system that
// saves them.
bool has_f16c() {
  constexpr unsigned F16C = 1u << 29;
  return (cpuid(1).c & F16C) != 0;
}

// Whether the CPU has AMX; tiles_are_permitted() asks the system.
bool has_amx() {
  constexpr unsigned AMX_BF16 = 1u << 22, AMX_TILE = 1u << 24, AMX_INT8 = 1u << 25;
  constexpr unsigned ALL = AMX_BF16 | AMX_TILE | AMX_INT8;
  return (cpuid(7).d & ALL) == ALL;
}

// The kernel saves tiles only for processes that have asked for them, once, for all their threads.
bool tiles_are_permitted() {
  constexpr long REQUEST = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

// How many of the levels above this CPU, and its system, can run.
size_t count_levels() {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return 1;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return 2;
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni")) return 3;
  return has_amx() && tiles_are_permitted() ? 5 : 4;
#else
  return 1;
#endif
}

}  // namespace

const std::vector<const Level*>& available_levels() {
  static const std::vector<const Level*> levels = [] {
    std::vector<const Level*> found;
    for (size_t i = 0; i < count_levels(); ++i) found.push_back(&LEVELS[i]);
    return found;
  }();
  return levels;
}

namespace {

const Level& choose_level() {
  const char* wanted = std::getenv("TILED_MM_CPU_LEVEL");
  if (wanted == nullptr || *wanted == '\0') return *available_levels().back();
  std::vector<std::string> names;
  for (const Level* level : available_levels()) {
    if (std::string(level->name) == wanted) return *level;
    names.emplace_back(level->name);
  }
  throw std::invalid_argument(std::string("TILED_MM_CPU_LEVEL is '") + wanted +
                              "', but this CPU has: " + joined(names));
}

}  // namespace

const Level& chosen_level() {
  static const Level& chosen = choose_level();  // tried again while it throws
  return chosen;
}

void mm_naive(const Problem& problem, const ParallelFor& parallel) {
  mm_naive(problem, parallel, chosen_level());
}

void mm_blocked(const Problem& problem, const ParallelFor& parallel) {
  mm_blocked(problem, parallel, chosen_level());
}

void pass_back(const GradientPass& pass, const ParallelFor& parallel) {
  pass_back(pass, parallel, chosen_level());
}

namespace {

// Rows [begin, end) of the batch's rows where the epilogue is not the identity: the sums of each go
// to a row of their own, and from there to C.
void naive_rows_finished(const Problem& p, const Level& level, NaiveFunction rows,
                         NaiveProblem unfinished, int64_t begin, int64_t end) {
  const DType sum = size_of(p.dtype) == 2 && p.dtype != DType::Int16 ? DType::Float32 : p.dtype;
  const Codec& codec = level.chains->codecs[static_cast<int>(sum)];
  const int64_t most = FINISH_ROW_BYTES / (2 * sizeof(double));  // of the largest accumulators
  const Strides c = unfinished.c_strides;
  std::vector<char> row(p.n * size_of(sum));
  alignas(64) char sums[FINISH_ROW_BYTES];
  unfinished.c = row.data();
  unfinished.c_strides = {0, 0, 1};
  unfinished.unrounded = sum != p.dtype;
  for (int64_t at = begin; at < end; ++at) {
    rows(unfinished, at, at + 1);
    const int64_t entry = at / p.m, i = at % p.m;
    for (int64_t j = 0; j < p.n; j += most) {
      const int64_t cols = std::min(most, p.n - j);
      codec.widen({&row[j * size_of(sum)], 0, 1, 1, cols, cols, sums, 0, cols});
      char* to = static_cast<char*>(p.c.data) +
                 (entry * c.batch + i * c.row + j * c.col) * size_of(p.epilogue.out_dtype);
      finish(p.epilogue, *level.chains, sums, 0, entry, {i, i + 1}, {j, j + cols}, to, c);
    }
  }
}

}  // namespace

void mm_naive(const Problem& problem, const ParallelFor& parallel, const Level& level) {
  const DotTable* dots = dots_of(problem, level);
  struct State {
    const Problem& whole;
    const Level& level;
    NaiveProblem problem;
    NaiveFunction rows;
  } state = {problem,
             level,
             {problem.m,
              problem.n,
              problem.k,
              problem.a.data,
              problem.b.data,
              problem.c.data,
              {problem.a.batch_stride, problem.a.row_stride, problem.a.col_stride},
              {problem.b.batch_stride, problem.b.row_stride, problem.b.col_stride},
              {problem.c.batch_stride, problem.c.row_stride, problem.c.col_stride},
              problem.epilogue.out_dtype != problem.dtype},
             dots != nullptr && dots->naive != nullptr ? dots->naive
                                                       : level.chains->naive[kind_of(problem)]};
  const int64_t rows = problem.batch * problem.m;
  if (rows == 0 || problem.n == 0) return;
  parallel.run(
      rows,
      [](void* state, int64_t begin, int64_t end) {
        const State& s = *static_cast<State*>(state);
        const IeeeMode mode;
        if (s.whole.epilogue.is_identity())
          s.rows(s.problem, begin, end);
        else
          naive_rows_finished(s.whole, s.level, s.rows, s.problem, begin, end);
      },
      &state);
}

}  // namespace tiled::cpu
