#include "out_of_core/worker.h"

#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/segments.h"
#include "out_of_core/blocks.h"
#include "out_of_core/threads.h"

namespace tiled {

void SharedJob::fail(std::exception_ptr error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  stopping = true;
  on_change();
}

std::exception_ptr SharedJob::error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

namespace {

// The real numbers of a matrix: ATen adds complex ones with a factor, of which infinity times zero
// would make NaN.
at::Tensor numbers_of(const at::Tensor& t) { return t.is_complex() ? at::view_as_real(t) : t; }

// One product, or where C stays, one of those that make a tile.
struct Work {
  Range tile;
  bool first, last;  // of the tile's
  Blocks::Taken a, b;
};

struct Finished {
  Range tile;
  int64_t place;
  EventPtr there;
};

class Worker {
 public:
  Worker(SharedJob& job, OutOfCoreDevice& device, int64_t index, const MmOptions& options)
      : job_(job),
        plan_(job.plan),
        device_(device),
        index_(index),
        options_(options),
        arena_(device, plan_.matrix_bytes),
        a_(job, device, arena_, job.a, plan_.block_m, plan_.block_k, plan_.slots_a),
        b_(job, device, arena_, job.b, plan_.block_k, plan_.block_n, plan_.slots_b),
        c_direct_(copies_directly(device, job.c)),
        c_staging_(device, plan_.block_m * plan_.block_n * job.c.element_size()),
        loaded_(plan_.group + 1),
        finished_(plan_.slots_c),
        places_free_(plan_.slots_c) {
    const bool by_columns = lies_by_columns(job.c);
    const auto tile = [&](at::ScalarType type) {
      return arena_.take(plan_.block_m, plan_.block_n, by_columns, type);
    };
    for (int64_t place = 0; place < plan_.slots_c; ++place) {
      tiles_.push_back(tile(job.c.scalar_type()));
      places_free_.put(place);
    }
    if (plan_.keeps_parts) part_ = tile(job.sum_type);
    if (plan_.keeps_totals) total_ = tile(job.sum_type);
  }

  // All three stages, to their ends. If a thread cannot start, the job fails, and the stages that
  // there are find nothing to do.
  void run() {
    std::thread loader, drainer;
    attempt([&] {
      drainer = start_thread([this] { stage([this] { drain(); }); });
      loader = start_thread([this] { stage([this] { load(); }); });
    });
    if (!loader.joinable()) loaded_.close();
    stage([this] { multiply(); });
    for (std::thread* thread : {&loader, &drainer})
      if (thread->joinable()) thread->join();
  }

 private:
  template <typename Body>
  void stage(const Body& body) {
    attempt([&] { device_.enter(); });
    body();
  }

  // An error ends the job, but not the stage: what others wait for still comes.
  template <typename Body>
  void attempt(const Body& body) {
    try {
      body();
    } catch (...) {
      job_.fail(std::current_exception());
    }
  }

  void load() {
    attempt([&] {
      while (!job_.stopping) {
        const std::optional<int64_t> index = job_.tiles.take(index_);
        if (!index) break;
        load(scale::tile_at(plan_, *index));
      }
    });
    loaded_.close();
  }

  void load(const scale::Tile& at) {
    Range tile{at.i * plan_.block_m, 0, at.j * plan_.block_n, 0};
    tile.rows = std::min(plan_.block_m, job_.c.size(0) - tile.row);
    tile.columns = std::min(plan_.block_n, job_.c.size(1) - tile.column);
    for (int64_t step = 0; step < plan_.steps_k && !job_.stopping; ++step) {
      const int64_t k = step * plan_.block_k;
      const int64_t depth = std::min(plan_.block_k, job_.a.size(1) - k);
      Blocks::Taken a = a_.take(at.i * plan_.steps_k + step, {tile.row, tile.rows, k, depth});
      Blocks::Taken b;
      try {
        b = b_.take(at.j * plan_.steps_k + step, {k, depth, tile.column, tile.columns});
      } catch (...) {
        a_.used(a, nullptr);
        throw;
      }
      loaded_.put({tile, step == 0, step + 1 == plan_.steps_k, std::move(a), std::move(b)});
    }
  }

  void multiply() {
    int64_t place = 0;
    while (const std::optional<Work> work = loaded_.take()) {
      EventPtr done;
      if (!job_.stopping) {
        attempt([&] {
          if (work->first) place = *places_free_.take();
          multiply(*work, corner_of(tiles_[place], work->tile.rows, work->tile.columns));
          done = device_.record(Queue::Products);
        });
      }
      a_.used(work->a, done);
      b_.used(work->b, done);
      if (done && work->last) finished_.put({work->tile, place, done});
    }
    finished_.close();
  }

  void multiply(const Work& work, const at::Tensor& tile) {
    device_.wait(Queue::Products, work.a.there);
    device_.wait(Queue::Products, work.b.there);
    if (!plan_.keeps_parts) {
      device_.multiply(work.a.block, work.b.block, options_, tile);
      return;
    }
    const auto as_tile = [&](const at::Tensor& t) {
      return corner_of(t, tile.size(0), tile.size(1));
    };
    const at::Tensor total = plan_.keeps_totals ? as_tile(total_) : tile, part = as_tile(part_);
    // The contract's segments: a sum each, added to the total in their order (core/segments.h).
    const int64_t depth = work.a.block.size(1);
    for (int64_t k = 0; k < depth; k += SEGMENT_K) {
      const int64_t length = std::min(SEGMENT_K, depth - k);
      const bool begins = work.first && k == 0;
      device_.multiply(work.a.block.narrow(1, k, length), work.b.block.narrow(0, k, length),
                       options_, begins ? total : part);
      if (!begins) device_.add(numbers_of(total), numbers_of(part));
    }
    if (work.last && plan_.keeps_totals) device_.round(tile, total);
  }

  void drain() {
    while (const std::optional<Finished> finished = finished_.take()) {
      if (!job_.stopping) attempt([&] { drain(*finished); });
      places_free_.put(finished->place);
    }
  }

  // A tile whose copy has begun is copied to its end.
  void drain(const Finished& finished) {
    const at::Tensor to = part_of(job_.c, finished.tile);
    const at::Tensor from =
        corner_of(tiles_[finished.place], finished.tile.rows, finished.tile.columns);
    device_.synchronize(finished.there);
    if (job_.stopping) return;
    if (c_direct_) {
      device_.copy(Queue::Out, to, from);
      device_.synchronize(device_.record(Queue::Out));
    } else {
      c_staging_.to_host(to, from);
    }
    job_.bytes_out += to.nbytes();
    ++job_.tiles_done;
    job_.on_change();
  }

  SharedJob& job_;
  const scale::Plan& plan_;
  OutOfCoreDevice& device_;
  const int64_t index_;
  const MmOptions options_;
  Arena arena_;
  Blocks a_, b_;
  const bool c_direct_;
  Staging c_staging_;
  std::vector<at::Tensor> tiles_;
  at::Tensor part_, total_;
  Channel<Work> loaded_;
  Channel<Finished> finished_;
  Channel<int64_t> places_free_;  // of tiles_
};

}  // namespace

void run_worker(SharedJob& job, OutOfCoreDevice& device, int64_t index, const MmOptions& options) {
  std::optional<Worker> worker;
  try {
    device.enter();
    worker.emplace(job, device, index, options);
    worker->run();
  } catch (...) {
    job.fail(std::current_exception());
  }
  // Work in the queues uses the memory that is given back next.
  try {
    device.synchronize();
  } catch (...) {
    job.fail(std::current_exception());
  }
}

}  // namespace tiled
