// Rung hopper. Producer and consumers as in lesson 6, and beyond it: blocks stay and take tile
// after tile; the blocks of a cluster share an operand by multicast; C leaves while the next tile
// is on its way.
//
//     producer warps, one thread of each        consumer warpgroups
//     wait empty[s]  (all that read it left)    wait full[s]
//     TMA -> P[s], Q[s]  ... full[s]            wgmma P[s] x Q[s], one group always in flight
//                                               arrive empty[s - 1]
//                                               ... end of K: round, shared memory, TMA store
//
//     shared memory: P[STAGES] | Q[STAGES] | slices of each consumer | full[], empty[], turn[]
//     | units of groups | scales
//
// Preconditions: base and long strides of both operands are multiples of 16 bytes (the planner has
// others repacked); sizes below 2^31; K is not 0; Q of tf32, and P and Q of 8 bits, are contiguous
// along K.
// Bound by the power limit at large sizes, by the bytes from L2 where rows begin off its lines. The
// best tile is at 0.96 to 1.04 of cuBLAS from 2048 to 8192, bf16, on an H200.
#pragma once

#include "cuda/engine/hopper/byte_operands.cuh"
#include "cuda/engine/hopper/clear_tail.cuh"
#include "cuda/engine/hopper/hopper_leave.cuh"
#include "cuda/engine/hopper/hopper_totals.cuh"
#include "cuda/engine/hopper/passed_units.cuh"
#include "cuda/engine/hopper/pieces.cuh"
#include "cuda/engine/hopper/tiles.h"
#include "cuda/parts/epilogue/finish_slices.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/parts/pipeline/operand_tile.cuh"
#include "cuda/parts/pipeline/stage_ring.cuh"
#include "cuda/parts/schedule/grouped_schedule.cuh"
#include "cuda/parts/schedule/hopper_schedule.cuh"
#include "cuda/ptx/opaque.cuh"

namespace tiled {

// wgmma reads tf32 in shared memory along K only: P along m or n goes through registers, and
// hopper_registers.cuh has this for those who ask for such a P.
template <typename Kernel>
__device__ __forceinline__ void multiply_from_registers(Kernel& kernel,
                                                        typename Kernel::Accumulators& d, int first,
                                                        int last, uint32_t p_at, uint32_t q_at,
                                                        Ring<Kernel::STAGES>& ring);

template <typename Tile, typename T, bool Q_MN_MAJOR>
constexpr int HOPPER_STAGES = IS_SCALED<T> ? Tile::SCALED_STAGES : Tile::stages(Q_MN_MAJOR);

// FINISHES: by the epilogue. Its code is most of a kernel's, so that kernels without it are others:
// instructions that are far apart come late. GROUPED: groups share out a size, and the kernel reads
// their ends. TREES: a tree sums K.
template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool FINISHES, bool GROUPED,
          bool TREES = false>
struct Hopper : StageRing<HOPPER_STAGES<Tile, T, Q_MN_MAJOR>> {
  static constexpr int STAGES = HOPPER_STAGES<Tile, T, Q_MN_MAJOR>;
  using Stages = StageRing<STAGES>;
  using Stages::base, Stages::blocks, Stages::full, Stages::turn;
  using typename Stages::StageRelease;
  using P = OperandTile<T, Tile::BLOCK_P, Tile::GROUP_P, P_MN_MAJOR>;
  using Q = OperandTile<T, Tile::BLOCK_Q, Tile::BLOCK_Q, Q_MN_MAJOR>;
  static constexpr bool IS_GROUPED = GROUPED;
  static constexpr int BLOCK_K = P::BLOCK_K;
  static constexpr int STRIPS = Tile::GROUP_P / 64;      // wgmma tiles of a consumer, along P
  static constexpr int REGISTERS = Tile::BLOCK_Q / 2;    // accumulators of a strip
  static constexpr int TURNS = Tile::PING_PONG ? 2 : 1;  // consumers that take tiles in turn
  static constexpr int CONSUMER_REGISTERS = Tile::CONSUMER_REGISTERS;  // of a thread
  static constexpr int COPIES = P::BOXES + Q::BOXES, PRODUCERS = hopper_producers<Tile>(COPIES);
  static_assert(!(TREES && Tile::PING_PONG), "leaves of a pair of units may differ");
  using Operands = typename TypesOf<T>::Operands;
  using Sum = typename TypesOf<T>::Sum;
  static constexpr bool OF_BYTES = std::is_same_v<Sum, int32_t>;
  using Accumulators = Sum[STRIPS][REGISTERS];
  using Slices = tiled::Slices<Tile, P::BYTES, STAGES>;
  using Arguments = std::conditional_t<TREES, TreeArguments, ArgumentsOf<T>>;
  using Scales = TileScales<T, Tile>;

  // Shared memory, bytes from its begin.
  static constexpr uint32_t P_AT = 0;                              // [STAGES][P::BYTES]
  static constexpr uint32_t Q_AT = P_AT + STAGES * P::BYTES;       // [STAGES][Q::BYTES]
  static constexpr uint32_t SLICES_AT = Q_AT + STAGES * Q::BYTES;  // [CONSUMERS][slices]
  static constexpr uint32_t CONSUMER_SLICES = Tile::SLICES * Tile::SLICE_BYTES;
  static constexpr uint32_t BARRIERS_AT = SLICES_AT + Tile::CONSUMERS * CONSUMER_SLICES;
  static constexpr uint32_t UNITS_AT = BARRIERS_AT + Stages::BARRIER_BYTES;  // of groups
  static constexpr uint32_t SCALES_AT = UNITS_AT + UNITS_BYTES;  // of scaled products alone
  static constexpr int SHARED_BYTES = IS_SCALED<T> ? Tile::SCALED_BYTES : Tile::SHARED_BYTES;
  static_assert(SCALES_AT + Scales::BYTES <= SHARED_BYTES);

  using Schedule = tiled::Schedule<Tile, BLOCK_K>;
  using Pieces = std::conditional_t<TREES, Leaves, Segments<IS_SCALED<T>>>;
  using Turns = std::conditional_t<GROUPED, PassedUnits, WholeTurns<Schedule>>;
  static_assert(PRODUCERS <= 2, "warp 2 finds units, warp 3 copies scales");

  const Arguments& args;
  Schedule schedule;

  __device__ __forceinline__ Hopper(const Arguments& a, uint8_t* m)
      : Stages(a, m, BARRIERS_AT), args(a), schedule(a) {}

  __device__ __forceinline__ void initialise_barriers() const {
    this->initialise(1 + Scales::ARRIVALS, 4 * Tile::CONSUMERS / TURNS, [&] {
      if constexpr (GROUPED)
        Turns::initialise(base + UNITS_AT, PRODUCERS + IS_SCALED<T> + 4 * Tile::CONSUMERS);
    });
  }

  __device__ __forceinline__ Turns units() const {
    if constexpr (GROUPED)
      return Turns(base + UNITS_AT);
    else
      return Turns(schedule);
  }

  __device__ __forceinline__ void find_units() const {
    if constexpr (GROUPED) {
      using Finder = GroupedTurns<Schedule, Tile, BLOCK_K, /*SPACED=*/sizeof(T) == 1>;
      wait_for_kernels_before();  // one of which wrote the groups' ends
      Turns::find(Finder(schedule), base + UNITS_AT);
    }
  }

  // Where an operand's boxes come from.
  struct Boxes {
    const CUtensorMap *map, *edge;
    int k;  // of the first step, elements
  };

  // Warp `producer` of those that fill stages in turn.
  __device__ __forceinline__ void produce(const Turns& units, int producer) {
    // Blocks along Q share P and blocks along P share Q.
    const auto p_part = P::part(args.cluster_q, schedule.rank);
    const auto q_part = Q::part(args.cluster_p, schedule.rank);
    StageProducer<STAGES, PRODUCERS> stages(*this, producer,
                                            hopper_stages_of_one<Tile>(COPIES, STAGES));
    const auto load = [&](const auto& unit, const Piece& piece) {
      const int p_batch = unit.batch * args.p_batch, q_batch = unit.batch * args.q_batch;
      // Where groups share out rows a box is whole: what it has of the next group's meets no
      // element of C that is stored.
      const bool p_whole = GROUPED && args.groups_of_p, q_whole = GROUPED && args.groups_of_q;
      const Extent<GROUPED> end(args, unit);
      const auto p_reach = P::reach(p_part, unit.p, p_whole ? unit.p + Tile::BLOCK_P : end.p());
      const auto q_reach = Q::reach(q_part, unit.q, q_whole ? unit.q + Tile::BLOCK_Q : end.q());
      Boxes p_from = {&args.p_map, &args.p_edge, piece.begin};
      Boxes q_from = {&args.q_map, &args.q_edge, piece.begin};
      if constexpr (GROUPED) p_from.k = q_from.k = unit.k;
      if constexpr (GROUPED && IS_SCALED<T>) {
        const bool is_aligned = unit.group_begin % 16 == 0;
        if (args.has_p_place && is_aligned)
          p_from = {&args.p_place, &args.p_place_edge, unit.group_begin};
        if (args.has_q_place && is_aligned)
          q_from = {&args.q_place, &args.q_place_edge, unit.group_begin};
      }
      const auto load_step = [&](uint32_t s, int step) {
        P::load(p_part, p_reach, base + P_AT + s * P::BYTES, p_from.map, p_from.edge, unit.p,
                p_from.k + step * BLOCK_K, p_batch, full(s));
        Q::load(q_part, q_reach, base + Q_AT + s * Q::BYTES, q_from.map, q_from.edge, unit.q,
                q_from.k + step * BLOCK_K, q_batch, full(s));
      };
      stages.fill(piece.first, piece.end(), p_reach.bytes + q_reach.bytes, load_step);
    };
    for (uint32_t i = units.first; i < units.end; i += TURNS * units.stride) {
      const bool paired = TURNS == 2 && i + units.stride < units.end;
      const auto unit = units.at(i), next = paired ? units.at(i + units.stride) : unit;
      units.give_back(i);
      if (paired) units.give_back(i + units.stride);
      // The first tile is found beside the end of the kernel before.
      if (i == units.first) wait_for_kernels_before();
      for (Pieces pieces(args, unit); pieces.next(unit);) {
        load(unit, pieces.of(unit));
        if (paired) load(next, pieces.of(next));
      }
    }
    stages.wait_for_readers();
  }

  // A piece's products into d: a chain from zero, or scaled, added to d's totals; of bytes, one
  // that goes on from the piece before.
  template <typename TailOf>
  __device__ __forceinline__ void multiply(Accumulators& d, bool is_first, const Piece& piece,
                                           uint32_t p_at, uint32_t q_at, Ring<STAGES>& ring,
                                           const TailOf& tail_of, const Scales& scales) {
    if constexpr (IS_SCALED<T> && !OF_BYTES)
      scales.with_factor([&](auto factor) {
        multiply_scaled(*this, d, piece.first, piece.last, p_at, q_at, ring, tail_of, scales,
                        factor);
      });
    else if constexpr (P_MN_MAJOR && sizeof(T) == 4)
      multiply_from_registers(*this, d, piece.first, piece.last, p_at, q_at, ring);
    else
      multiply_from_memory(d, OF_BYTES && !is_first, piece, p_at, q_at, ring, tail_of());
    ptx::finish_accumulators(d);
  }

  // Clears what the stage of the tail's step has of the next group's K.
  __device__ __forceinline__ void clear_behind(const Tail& tail, uint32_t stage) const {
    if constexpr (FAULT != Fault::NoTailClear)
      clear_tail<Tile, P, Q>(tail.left, base + P_AT + stage * P::BYTES,
                             base + Q_AT + stage * Q::BYTES);
  }

  // Everything that a step needs beside its products is ready before them or waits behind them: one
  // warp issues an instruction in four cycles or more, and while it computes addresses or asks
  // barriers its tensor core runs dry. So nothing is computed twice, the next stage's barrier is
  // asked while products go on, and the word to the producer has no branch.
  __device__ __forceinline__ void multiply_from_memory(Accumulators& d, bool goes_on,
                                                       const Piece& piece, uint32_t p_at,
                                                       uint32_t q_at, Ring<STAGES>& ring,
                                                       const Tail& tail) {
    const int first = piece.first, last = piece.last;
    const StageRelease release(*this);
    uint32_t full_at = full(0);
    uint32_t p_start = ptx::descriptor_start(p_at), q_start = ptx::descriptor_start(q_at);
    ptx::opaque(full_at);
    ptx::opaque(p_start, q_start);
    uint32_t previous = ring.stage;
    bool is_full = ptx::mbarrier_test_wait(full_at + ring.stage * 8, ring.parity);
    for (int step = first; step < last; ++step) {
      const uint32_t stage = ring.stage;
      maybe_delay();
      if constexpr (FAULT != Fault::NoFullWait)
        if (!is_full) ptx::mbarrier_wait(full_at + stage * 8, ring.parity);
      if constexpr (GROUPED && P_MN_MAJOR && Q_MN_MAJOR)
        if (step == tail.step) clear_behind(tail, stage);
      const uint32_t p = p_start + stage * (P::BYTES / 16), q = q_start + stage * (Q::BYTES / 16);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < P::STEPS; ++k)
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip)
          ptx::Wgmma<Operands, Tile::BLOCK_Q>::template run<P_MN_MAJOR, Q_MN_MAJOR>(
              d[strip], ptx::descriptor_at(P::LAYOUT, p + P::offset(64 * strip, k) / 16),
              ptx::descriptor_at(Q::LAYOUT, q + Q::offset(0, k) / 16),
              goes_on || step != first || k != 0);
      ptx::wgmma_commit_group();
      ring.advance();
      is_full = ptx::mbarrier_test_wait(full_at + ring.stage * 8, ring.parity);
      ptx::wgmma_wait_group<1>();  // all but this group: the previous stage has been read
      release.arrive(previous, step != first);
      previous = stage;
    }
    if constexpr (TREES) {
      if (piece.rest != 0) {
        const uint32_t stage = ring.stage;
        maybe_delay();
        if constexpr (FAULT != Fault::NoFullWait)
          if (!is_full) ptx::mbarrier_wait(full_at + stage * 8, ring.parity);
        const uint32_t p = p_start + stage * (P::BYTES / 16), q = q_start + stage * (Q::BYTES / 16);
        ptx::wgmma_fence();
#pragma unroll 1
        for (int k = 0; k * P::STEP_K < piece.rest; ++k)
#pragma unroll
          for (int strip = 0; strip < STRIPS; ++strip)
            ptx::Wgmma<Operands, Tile::BLOCK_Q>::template run<P_MN_MAJOR, Q_MN_MAJOR>(
                d[strip], ptx::descriptor_at(P::LAYOUT, p + P::offset(64 * strip, k) / 16),
                ptx::descriptor_at(Q::LAYOUT, q + Q::offset(0, k) / 16), first != last || k != 0);
        ptx::wgmma_commit_group();
        ring.advance();
        ptx::wgmma_wait_group<1>();
        release.arrive(previous, first != last);
        previous = stage;
      }
    }
    ptx::wgmma_wait_group<0>();
    release.arrive(previous, !GROUPED || first != last);
  }

  __device__ __forceinline__ void consume(const Turns& units, int consumer) {
    const int thread = threadIdx.x % 128;
    const int row = Tile::PING_PONG ? 0 : consumer * Tile::GROUP_P;
    const uint32_t p_at = base + P_AT + P::offset(row, 0), q_at = base + Q_AT;
    Slices slices = {base + SLICES_AT + consumer * CONSUMER_SLICES, p_at};
    std::conditional_t<TREES, WaitingSums<Tile>,
                       Total<Tile, totals_stay(Tile::TOTALS_FIT, sizeof(T))>>
        sums(args.totals, consumer);
    Scales scales(args, row, base + SCALES_AT);
    uint32_t waits = 0;
    Ring<STAGES> ring;
    for (uint32_t i = units.first; i < units.end; i += TURNS * units.stride) {
      const bool paired = TURNS == 2 && i + units.stride < units.end;
      if (TURNS == 2 && consumer == 1 && !paired) break;  // the last tile is the other consumer's
      // The even one of a pair of tiles is consumer 0's, the odd one consumer 1's.
      const uint32_t odd = TURNS == 2 ? consumer : 0;
      const uint32_t own = i + odd * units.stride, others = i + (1 - odd) * units.stride;
      auto unit = units.at(own);
      const auto other = paired ? units.at(others) : unit;
      if (paired) units.give_back(others);
      // No wgmma reads these zeros. But ptxas takes whatever may stand in its registers for what it
      // reads, and would serialise all of them for the sake of an epilogue's values.
      Accumulators d = {};
      if (i == units.first) wait_for_kernels_before();
      const Extent<GROUPED> end(args, unit);
      if constexpr (FINISHES)
        prefetch_bias<typename ElementOf<ResultOf<T>>::Type>(
            args.epilogue, unit.p + row, Tile::GROUP_P, unit.q, Tile::BLOCK_Q,
            {end.p(), end.q(), unit.batch}, thread);
      // Scaled products have no registers for it.
      const auto tail_of = [&] {
        if constexpr (!GROUPED)
          return Tail{};
        else if constexpr (IS_SCALED<T>)
          return scales.tail_of(units.again(own));
        else
          return unit.tail;
      };
      for (Pieces pieces(args, unit); pieces.next(unit);) {
        const Piece piece = pieces.of(unit);
        const bool is_first = pieces.index == 0;
        if constexpr (TURNS == 2) {
          // A parity tells one lap of the ring from the next only, so what was loaded before this
          // piece must have been read. Nothing was before the first, and nothing by the other one
          // between the pieces of a tile without a partner.
          if (consumer == 1) ring.skip(pieces.of(other).steps());
          if (consumer == 1 || (is_first ? i != units.first : paired))
            this->wait_turn(consumer, waits++ % 2);
        }
        multiply(d, is_first, piece, p_at, q_at, ring, tail_of, scales);
        scales.skip(piece.last - piece.first);
        if constexpr (TURNS == 2) {
          if (thread % 32 == 0) ptx::mbarrier_arrive(turn(1 - consumer));
          if (consumer == 0 && paired) ring.skip(pieces.of(other).steps());
        }
        if constexpr (TREES) {
          if (args.segments == 1) sums.add(d, pieces.additions(), pieces.is_last());
        } else if constexpr (!IS_SCALED<T> && !OF_BYTES)
          sums.add(d, pieces.index, unit.pieces);
      }
      // Called, it would have its totals in memory.
      const auto finish = [&](auto& totals) __attribute__((always_inline)) {
        if constexpr (IS_SCALED<T>) scales.finish(totals, unit.first != unit.last);
        if constexpr (GROUPED) unit = units.again(own);
        if (i + (odd + 1) * units.stride >= units.end) {
          // Warps that read P by themselves have not all done so.
          if constexpr (P_MN_MAJOR && sizeof(T) == 4) ptx::barrier_sync(1 + consumer, 128);
          slices.use_stages();
        }
        // These have no kernels without an epilogue's code, which takes some 2 us a tile for
        // nothing (docs/decisions/044).
        if constexpr (TREES || (GROUPED && IS_SCALED<T>))
          if (!args.finishes)
            return leave<ResultOf<T>, Tile, /*FINISHES=*/false, GROUPED>(args, totals, unit, row,
                                                                         slices, 1 + consumer);
        leave<ResultOf<T>, Tile, FINISHES, GROUPED>(args, totals, unit, row, slices, 1 + consumer);
      };
      if constexpr (IS_SCALED<T> && OF_BYTES) {
        float totals[STRIPS][REGISTERS];
#pragma unroll
        for (int j = 0; j < STRIPS * REGISTERS; ++j)
          totals[j / REGISTERS][j % REGISTERS] = __int2float_rn(d[j / REGISTERS][j % REGISTERS]);
        finish(totals);
      } else {
        finish(d);
      }
      units.give_back(own);
    }
    if (thread / 32 == 0 && ptx::elect_sync()) ptx::bulk_wait_group_read<0>();  // slices end
  }
};

}  // namespace tiled
