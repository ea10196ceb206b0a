// Memory that grows with what is asked of it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "cpu/blocking.h"

namespace tiled::cpu {

// Memory for packed operands and waiting sums, kept by each thread from call to call.
class Scratch {
 public:
  ~Scratch() { std::free(data_); }
  char* reserve(int64_t bytes) {
    if (bytes > bytes_) {
      std::free(data_);
      bytes_ = 0;
      data_ = static_cast<char*>(std::aligned_alloc(4096, round_up(bytes, 4096)));
      if (data_ == nullptr) throw std::bad_alloc();
      bytes_ = bytes;
    }
    return data_;
  }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tiled::cpu
