// A thread block in software: its threads are fibers of one CPU thread, so that a kernel's text can
// be tested where there is no GPU. Beside the folder `ops` this one stands first among the include
// paths: its cuda/ptx has, under the same names, functions in C++ for the instructions that the
// kernel uses.
//
// What hardware leaves open is drawn at random, as far apart as it may be: which warp runs, up to a
// barrier, and whether a copy by cp.async is made at once or only when it is waited for. A missing
// wait or barrier shows as wrong numbers, and shared memory begins as NaNs. A copy by cp.async may
// touch only memory that has been registered, with all of its width: hardware reads no more than it
// is told to, but what its address spans must be there.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <ucontext.h>
#include <vector_functions.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace software_gpu {

constexpr int WARP = 32;

// All lanes of a warp do this together: the last to come does it, for all.
using Collective = void (*)(void* const (&arguments)[WARP]);

class Block {
 public:
  // Runs `body` as `threads` threads; `seed` draws the order. Throws where they wait for ever.
  void run(int threads, uint32_t seed, const std::function<void()>& body);

  // Blocks until all lanes of the warp have come.
  void together(Collective what, void* argument);
  // Until all threads have.
  void barrier();
  // Lets others go on, for a thread that waits for what they do.
  void yield() {
    ++in_vain_;
    leave(State::Ready);
  }
  // The current thread goes no further, and run() throws.
  void fail(const char* why) {
    error_ = why;
    leave(State::Done);
  }

  bool draw(int one_in) { return random_() % one_in == 0; }

  // Memory that copies may read.
  void add_memory(const void* begin, size_t bytes) {
    memory_.push_back({static_cast<const char*>(begin), bytes});
  }
  void remove_memory(const void* begin) {
    memory_.erase(std::find_if(memory_.begin(), memory_.end(),
                               [&](const Memory& memory) { return memory.begin == begin; }));
  }

  // Copies under way, of the current thread.
  struct Copy {
    uint32_t shared;
    const void* global;
    int bytes, size;
  };
  void start(const Copy& copy);
  void commit();
  void wait(size_t pending);

 private:
  enum class State { Ready, InWarp, AtBarrier, Done };
  struct Thread {
    jmp_buf at;
    std::vector<char> stack;
    State state = State::Ready;
    bool begun = false;
    Collective what = nullptr;
    void* argument = nullptr;
    std::vector<std::vector<Copy>> groups;  // the last is not committed yet
  };
  struct Memory {
    const char* begin;
    size_t bytes;
    bool holds(const void* at, size_t size) const {
      const char* const p = static_cast<const char*>(at);
      return p >= begin && p + size <= begin + bytes;
    }
  };
  void resume(int thread);
  void leave(State state);  // the current thread; returns when it is resumed
  void turn(int warp);
  // Whether a warp's other lanes do, and its first has met them already.
  bool waits(int warp) const {
    const auto lanes = threads_.begin() + warp * WARP;
    return lanes->state == State::InWarp &&
           std::any_of(lanes, lanes + WARP,
                       [](const Thread& lane) { return lane.state == State::Ready; });
  }
  static void begin();

  std::vector<Memory> memory_;
  std::vector<Thread> threads_;
  std::function<void()> body_;
  std::mt19937 random_;
  jmp_buf scheduler_;
  ucontext_t start_;
  int current_ = 0;
  int in_vain_ = 0;  // yields since somebody went on
  const char* error_ = nullptr;
};

inline Block block;
struct Index {
  unsigned x, y, z;
};

// Shared memory, as bytes of the shared window.
constexpr int SHARED_BYTES = 228 * 1024;
inline char* shared_memory();
template <typename T>
T& shared_at(uint32_t address) {
  if (address % alignof(T) != 0 || address + sizeof(T) > SHARED_BYTES)
    throw std::runtime_error("a shared address that is not aligned or outside");
  return *reinterpret_cast<T*>(shared_memory() + address);
}

}  // namespace software_gpu

// As CUDA C++ has them. threadIdx is the running fiber's.
inline software_gpu::Index threadIdx, blockIdx, blockDim, gridDim;

namespace software_gpu {

// A grid's blocks, one after the other, each in an order of its own.
template <typename Kernel>
void run_grid(int64_t grid_x, int64_t grid_y, int threads, std::mt19937& random, Kernel kernel) {
  gridDim = {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), 1};
  blockDim = {static_cast<unsigned>(threads), 1, 1};
  for (unsigned y = 0; y < gridDim.y; ++y)
    for (unsigned x = 0; x < gridDim.x; ++x) {
      blockIdx = {x, y, 0};
      block.run(threads, static_cast<uint32_t>(random()), kernel);
    }
}

}  // namespace software_gpu

namespace software_gpu {

// ---- the scheduler ------------------------------------------------------------------------------

inline void Block::begin() {
  block.body_();
  block.leave(State::Done);
}

inline void Block::resume(int thread) {
  current_ = thread;
  threadIdx = {static_cast<unsigned>(thread), 0, 0};
  Thread& t = threads_[thread];
  if (_setjmp(scheduler_) != 0) return;
  if (t.begun) _longjmp(t.at, 1);
  t.begun = true;
  constexpr size_t STACK = 256 * 1024;
  t.stack.resize(STACK);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = t.stack.data();
  context.uc_stack.ss_size = STACK;
  context.uc_link = nullptr;
  makecontext(&context, &Block::begin, 0);
  setcontext(&context);
}

inline void Block::leave(State state) {
  Thread& t = threads_[current_];
  t.state = state;
  if (_setjmp(t.at) == 0) _longjmp(scheduler_, 1);
}

inline void Block::together(Collective what, void* argument) {
  threads_[current_].what = what, threads_[current_].argument = argument;
  leave(State::InWarp);
}

inline void Block::barrier() { leave(State::AtBarrier); }

// Every lane of a warp that can goes on to where it must wait.
inline void Block::turn(int warp) {
  Thread* const lanes = &threads_[warp * WARP];
  int together = 0;
  bool waiting = false;  // for other warps
  for (int lane = 0; lane < WARP; ++lane) {
    if (lanes[lane].state == State::Ready) resume(warp * WARP + lane);
    waiting |= lanes[lane].state == State::Ready;
    together += lanes[lane].state == State::InWarp && lanes[lane].what == lanes[0].what;
  }
  if (together == 0 || waiting) return;
  if (together < WARP) throw std::runtime_error("the lanes of a warp do different things");
  in_vain_ = 0;
  void* arguments[WARP];
  for (int lane = 0; lane < WARP; ++lane) {
    arguments[lane] = lanes[lane].argument;
    lanes[lane].state = State::Ready;
  }
  lanes[0].what(arguments);
}

inline void Block::run(int threads, uint32_t seed, const std::function<void()>& body) {
  std::memset(shared_memory(), 0xff, SHARED_BYTES);
  threads_.assign(threads, Thread());
  for (Thread& t : threads_) t.groups.resize(1);
  body_ = body;
  random_.seed(seed);
  int warp = 0;
  in_vain_ = 0, error_ = nullptr;
  for (;;) {
    if (error_ != nullptr) throw std::runtime_error(error_);
    if (in_vain_ > 100000) throw std::runtime_error("some threads wait for ever");
    std::vector<int> ready;
    bool done = true;
    for (int w = 0; w < threads / WARP; ++w) {
      done &= threads_[w * WARP].state == State::Done;
      if (threads_[w * WARP].state == State::Ready || waits(w)) ready.push_back(w);
    }
    if (done) return;
    if (ready.empty()) {
      for (Thread& t : threads_) {
        if (t.state != State::AtBarrier)
          throw std::runtime_error("some threads wait at a barrier, others do not come");
        t.state = State::Ready;
      }
      continue;
    }
    // Mostly the same goes on, so that warps drift apart.
    if ((threads_[warp * WARP].state != State::Ready && !waits(warp)) || draw(64))
      warp = ready[random_() % ready.size()];
    turn(warp);
  }
}

// ---- cp.async -----------------------------------------------------------------------------------

inline void make(const Block::Copy& copy) {
  char* const to = shared_memory() + copy.shared;
  if (copy.bytes > 0) std::memcpy(to, copy.global, copy.bytes);
  std::memset(to + copy.bytes, 0, copy.size - copy.bytes);
}

inline void Block::start(const Copy& copy) {
  if (copy.shared % copy.size != 0 || copy.shared + copy.size > SHARED_BYTES ||
      (copy.bytes > 0 && reinterpret_cast<uintptr_t>(copy.global) % copy.size != 0) ||
      copy.bytes < 0 || copy.bytes > copy.size)
    throw std::runtime_error("a copy that is not aligned, outside, or of a wrong size");
  if (std::none_of(memory_.begin(), memory_.end(),
                   [&](const Memory& memory) { return memory.holds(copy.global, copy.size); }))
    throw std::runtime_error("a copy that spans what is not the operand's");
  if (draw(2))
    make(copy);
  else
    threads_[current_].groups.back().push_back(copy);
}

inline void Block::commit() { threads_[current_].groups.emplace_back(); }

inline void Block::wait(size_t pending) {
  auto& groups = threads_[current_].groups;
  while (groups.size() - 1 > pending) {
    for (const Copy& copy : groups.front()) make(copy);
    groups.erase(groups.begin());
  }
}

}  // namespace software_gpu

// Dynamic shared memory, as a kernel declares it.
namespace tiled {
extern char shared[];
}  // namespace tiled
inline char* software_gpu::shared_memory() { return tiled::shared; }

// ---- what CUDA C++ has by itself ----------------------------------------------------------------

#define __launch_bounds__(...)

inline void __syncthreads() { software_gpu::block.barrier(); }
inline bool __syncthreads_and(bool value) {
  static bool all;
  __syncthreads();
  all = true;
  __syncthreads();
  all &= value;
  __syncthreads();
  return all;
}
inline void __threadfence() {}
inline size_t __cvta_generic_to_shared(const void* p) {
  return static_cast<const char*>(p) - tiled::shared;
}
namespace software_gpu {

// Each lane's result is `of` the values that all lanes bring, and its own number.
template <typename Value, typename Of>
auto among_lanes(Value value, Of of) {
  using Result = decltype(of(std::declval<const Value(&)[WARP]>(), 0));
  struct Lane {
    Value in;
    Result out;
    Of of;
  } lane = {value, {}, of};
  block.together(
      [](void* const(&lanes)[WARP]) {
        Value values[WARP];
        for (int i = 0; i < WARP; ++i) values[i] = static_cast<Lane*>(lanes[i])->in;
        for (int i = 0; i < WARP; ++i) {
          Lane& to = *static_cast<Lane*>(lanes[i]);
          to.out = to.of(values, i);
        }
      },
      &lane);
  return lane.out;
}

}  // namespace software_gpu

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return software_gpu::among_lanes(value,
                                   [=](const T(&all)[32], int lane) { return all[lane ^ mask]; });
}
template <typename T>
T __shfl_sync(unsigned, T value, int from) {
  return software_gpu::among_lanes(value, [=](const T(&all)[32], int) { return all[from % 32]; });
}
template <typename T>
T __shfl_up_sync(unsigned, T value, int distance) {
  return software_gpu::among_lanes(value, [=](const T(&all)[32], int lane) {
    return all[lane < distance ? lane : lane - distance];
  });
}
inline uint32_t __ballot_sync(unsigned, bool value) {
  return software_gpu::among_lanes(value, [](const bool (&all)[32], int) {
    uint32_t result = 0;
    for (int i = 0; i < 32; ++i) result |= uint32_t{all[i]} << i;
    return result;
  });
}
inline int __ffs(int value) { return __builtin_ffs(value); }
inline bool __any_sync(unsigned, bool value) {
  return software_gpu::among_lanes(
      value, [](const bool (&all)[32], int) { return std::find(all, all + 32, true) != all + 32; });
}
inline bool __all_sync(unsigned, bool value) { return !__any_sync(~0u, !value); }
template <typename Of>
uint32_t over_lanes(uint32_t value, Of of) {
  return software_gpu::among_lanes(value, [=](const uint32_t (&all)[32], int) {
    uint32_t result = all[0];
    for (const uint32_t x : all) result = of(result, x);
    return result;
  });
}
inline uint32_t __reduce_or_sync(unsigned, uint32_t value) {
  return over_lanes(value, [](uint32_t a, uint32_t b) { return a | b; });
}
inline uint32_t __reduce_max_sync(unsigned, uint32_t value) {
  return over_lanes(value, [](uint32_t a, uint32_t b) { return std::max(a, b); });
}
inline uint32_t __reduce_add_sync(unsigned, uint32_t value) {
  return software_gpu::among_lanes(value, [](const uint32_t (&all)[32], int) {
    uint32_t sum = 0;
    for (const uint32_t x : all) sum += x;
    return sum;
  });
}
inline void __syncwarp() {
  software_gpu::among_lanes(0, [](const int (&)[32], int) { return 0; });
}
template <typename T>
T atomicOr(T* at, T value) {
  const T before = *at;
  *at |= value;
  return before;
}
template <typename T, typename U>
T atomicAdd(T* at, U value) {
  const T before = *at;
  *at += value;
  return before;
}
template <typename T>
T atomicMax(T* at, T value) {
  const T before = *at;
  *at = std::max(before, value);
  return before;
}
template <typename T>
T atomicMin(T* at, T value) {
  const T before = *at;
  *at = std::min(before, value);
  return before;
}
template <typename T>
T __ldcg(const T* at) {
  return *at;
}
inline uint32_t __viaddmin_u32(uint32_t a, uint32_t b, uint32_t c) { return std::min(a + b, c); }
inline float __fadd_ru(float a, float b) {
  const double sum = double{a} + double{b};  // exact where the exponents are near enough
  const auto rounded = static_cast<float>(sum);
  return rounded < sum ? std::nextafter(rounded, INFINITY) : rounded;
}
inline float __ull2float_ru(unsigned long long value) {
  const auto rounded = static_cast<float>(value);
  return static_cast<long double>(rounded) < static_cast<long double>(value)
             ? std::nextafter(rounded, INFINITY)
             : rounded;
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __double2hiint(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<int>(bits >> 32);
}
inline int __double2loint(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<int>(bits);
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline float __int_as_float(int32_t bits) { return __uint_as_float(static_cast<uint32_t>(bits)); }
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = low | uint64_t{high} << 32;
  uint32_t found = 0;
  for (int i = 0; i < 4; ++i)
    found |= static_cast<uint32_t>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return found;
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t bits) {
  return static_cast<uint32_t>(((uint64_t{high} << 32) | low) >> bits % 32);
}
inline long long clock64() { return 0; }
inline void __nanosleep(unsigned) {}
template <typename A, typename B>
constexpr auto min(A a, B b) {
  return b < a ? b : a;
}
template <typename A, typename B>
constexpr auto max(A a, B b) {
  return a < b ? b : a;
}
