// A setting of the library, a small number, which holds for all threads: what was set outside of
// all blocks, and what each open block has set, in the order in which they were entered.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tiled {

class Setting {
 public:
  constexpr explicit Setting(int8_t value) : now_(value), outside_(value) {}

  int8_t now() const { return now_.load(std::memory_order_relaxed); }

  // In a block it counts until the block is left.
  void set(int8_t value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    (blocks().empty() ? outside_ : blocks().back().value) = value;
    publish();
  }

  // A block within which it is another: its number, to leave it by. Blocks of several threads may
  // interleave: of those that are open the one entered last decides.
  int64_t enter(int8_t value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks().push_back({++entered_, value});
    publish();
    return entered_;
  }

  // Whether the block was open.
  bool leave(int64_t number) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto block = std::find_if(blocks().begin(), blocks().end(),
                                    [&](const Block& b) { return b.number == number; });
    if (block == blocks().end()) return false;
    blocks().erase(block);
    publish();
    return true;
  }

 private:
  struct Block {
    int64_t number;
    int8_t value;
  };

  // Never destroyed: other threads may leave their blocks while the process ends.
  std::vector<Block>& blocks() {
    if (blocks_ == nullptr) blocks_ = new std::vector<Block>;
    return *blocks_;
  }

  void publish() {
    now_.store(blocks().empty() ? outside_ : blocks().back().value, std::memory_order_relaxed);
  }

  std::atomic<int8_t> now_;
  std::mutex mutex_;
  std::vector<Block>* blocks_ = nullptr;
  int8_t outside_;
  int64_t entered_ = 0;
};

}  // namespace tiled
