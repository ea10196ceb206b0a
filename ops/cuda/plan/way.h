// How a rung runs a problem: which of its tiles, in which order, read in which manner. Every rung
// has a type of its own for that, which no other file needs to know; a Way carries one of them.
#pragma once

#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace tiled {

// The names of ways' types: an address for each.
template <typename T>
inline constexpr char WAY_TYPE = 0;

class Way {
 public:
  Way() = default;  // of rungs with one way only

  template <typename T>
  explicit Way(const T& way) : type_(&WAY_TYPE<T>) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof data_, "plain and small");
    std::memcpy(data_, &way, sizeof way);
  }

  template <typename T>
  bool is() const {
    return type_ == &WAY_TYPE<T>;
  }
  // The rung's own way, which this was made of.
  template <typename T>
  T as() const {
    if (!is<T>()) throw std::logic_error("tiled_mm: a way of another rung");
    T way;
    std::memcpy(&way, data_, sizeof way);
    return way;
  }

 private:
  const char* type_ = nullptr;
  alignas(8) unsigned char data_[32] = {};
};

}  // namespace tiled
