// SPDX-License-Identifier: Apache-2.0
#include "large_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

namespace tenon::cpu_onednn {
namespace {

constexpr size_t kLine = 64, kPage = size_t{2} << 20, kBlock = 8 * kPage;

struct Block {
  explicit Block(size_t size) : bytes(static_cast<char*>(std::aligned_alloc(kPage, size))) {
    if (bytes == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(bytes, size, MADV_HUGEPAGE);
#endif
  }
  ~Block() { std::free(bytes); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  char* const bytes;
};

constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

std::shared_ptr<void> InLargePages(size_t bytes) {
  if (bytes > SIZE_MAX - kPage) throw std::bad_alloc();
  if (bytes > kBlock / 2) {
    auto own = std::make_shared<Block>(RoundUp(bytes, kPage));
    return {own, own->bytes};
  }
  static std::mutex mutex;
  static std::weak_ptr<Block> open;  // whose parts are given out; it stays as long as one of them
  static size_t used = 0;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Block> block = open.lock();
  if (block == nullptr || used + RoundUp(bytes, kLine) > kBlock) {
    open = block = std::make_shared<Block>(kBlock);
    used = 0;
  }
  char* const part = block->bytes + used;
  used += RoundUp(bytes, kLine);
  return {block, part};
}

}  // namespace tenon::cpu_onednn
