// Memory that ends where none follows, so that a read or write past the end stops the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <stdexcept>

namespace tiled::test {

// So many bytes that end at a page without access, or `behind` bytes before it; and such a page
// stands before them too.
class GuardedPages {
 public:
  explicit GuardedPages(size_t bytes, size_t behind = 0) {
    const size_t page = sysconf(_SC_PAGESIZE);
    length_ = ((bytes + behind + page - 1) / page + 2) * page;
    void* const found = mmap(nullptr, length_, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) throw std::runtime_error("no memory");
    pages_ = static_cast<char*>(found);
    end_ = pages_ + length_ - page;
    mprotect(pages_, page, PROT_NONE);
    mprotect(end_, page, PROT_NONE);
    data_ = end_ - behind - bytes;
  }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;
  ~GuardedPages() { munmap(pages_, length_); }
  char* data() const { return data_; }
  size_t bytes() const { return end_ - data_; }  // those behind among them

 private:
  size_t length_;
  char *pages_, *end_, *data_;
};

}  // namespace tiled::test
