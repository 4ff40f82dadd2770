// SPDX-License-Identifier: Apache-2.0
#include "large_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

namespace tenon::cpu_onednn::large_pages_test {
namespace {

struct Part {
  std::shared_ptr<void> held;
  size_t bytes;
  unsigned char mark;
};

Part Marked(size_t bytes, unsigned char mark) {
  Part part{InLargePages(bytes), bytes, mark};
  EXPECT_EQ(reinterpret_cast<uintptr_t>(part.held.get()) % 64, 0u);
  std::fill_n(static_cast<unsigned char*>(part.held.get()), bytes, mark);
  return part;
}
bool IsWhole(const Part& part) {
  const auto* const bytes = static_cast<const unsigned char*>(part.held.get());
  return std::all_of(bytes, bytes + part.bytes, [&](unsigned char byte) { return byte == part.mark; });
}

TEST(LargePages, GiveEachItsOwnBytesWhicheverGo) {
  std::vector<Part> parts;
  unsigned char mark = 0;
  for (int round = 0; round < 4; ++round)
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{3} << 20,
                               (size_t{8} << 20) - 1, size_t{8} << 20, (size_t{8} << 20) + 1, size_t{20} << 20})
      parts.push_back(Marked(bytes, ++mark));
  for (size_t i = 0; i < parts.size(); i += 3) parts[i] = Marked(parts[i].bytes, ++mark);
  for (const Part& part : parts) EXPECT_TRUE(IsWhole(part)) << part.bytes;
}

TEST(LargePages, AreAskedForByManyThreads) {
  std::vector<std::thread> threads;
  for (unsigned char t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      std::vector<Part> kept;
      for (size_t i = 0; i < 200; ++i) {
        kept.push_back(Marked(1 + (i * 7919 + t) % 200'000, static_cast<unsigned char>(50 * t + i % 50)));
        if (kept.size() > 20) kept.erase(kept.begin() + static_cast<int64_t>(i % 20));
        for (const Part& part : kept) EXPECT_TRUE(IsWhole(part));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(LargePages, SayThatThereIsNoMemory) {
  EXPECT_THROW(InLargePages(SIZE_MAX), std::bad_alloc);
}

}  // namespace
}  // namespace tenon::cpu_onednn::large_pages_test
