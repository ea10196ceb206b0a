// A thread remembers its choices.
//
// A table of rows, in each of which a key that falls there has any of some places. With one place a
// row, two products of a model that fall into the same one would drive each other out, call after
// call: of 64 rows and 10 products such a pair is as likely as not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tiled {

// No key may equal Key{}, which is in every place that was never filled.
template <typename Key, typename Value>
class MemoryByKey {
 public:
  // The value that was kept with the key, else what `make` gives, which is kept in the place of the
  // row's oldest.
  template <typename Make>
  const Value& find(const Key& key, const Make& make) {
    const uint64_t hash = hash_of(key);
    Row& row = rows_[hash >> (64 - ROW_BITS)];
    for (size_t i = 0; i < PLACES; ++i)
      if (row.hashes[i] == hash && row.keys[i] == key) return row.values[i];
    const Value made = make();  // may throw: nothing is kept then
    const size_t oldest = row.oldest;
    row.oldest = (oldest + 1) % PLACES;
    row.hashes[oldest] = hash, row.keys[oldest] = key;
    return row.values[oldest] = made;
  }

 private:
  static constexpr int ROW_BITS = 5;
  static constexpr size_t PLACES = 8;

  struct Row {
    std::array<uint64_t, PLACES> hashes{};  // adjacent, as a look-up reads all of them
    std::array<Key, PLACES> keys{};
    std::array<Value, PLACES> values{};
    size_t oldest = 0;
  };

  static uint64_t hash_of(const Key& key) {
    uint64_t hash = 0;
    for (const int64_t value : key)
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    return hash;
  }

  std::array<Row, size_t{1} << ROW_BITS> rows_{};
};

}  // namespace tiled
