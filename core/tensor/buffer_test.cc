// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/buffer.h"
// Covers E6.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/base/guard.h"
#include "core/tensor/shape.h"

namespace tenon::buffer_test {
namespace {

// Counts what is out, and refuses when told.
struct CountingAllocator {
  int64_t live = 0;
  int64_t live_bytes = 0;
  int refusals = 0;  // calls that are still to fail
  Allocator allocator() {
    return {[](void* context, uint64_t bytes, Status*) -> void* {
              auto* self = static_cast<CountingAllocator*>(context);
              if (self->refusals > 0) {
                --self->refusals;
                return nullptr;
              }
              ++self->live;
              self->live_bytes += static_cast<int64_t>(bytes);
              return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
            },
            [](void* context, void* data, uint64_t bytes) {
              auto* self = static_cast<CountingAllocator*>(context);
              --self->live;
              self->live_bytes -= static_cast<int64_t>(bytes);
              std::free(data);
            },
            this};
  }
};

constexpr uint64_t kRecord = 256;  // charged for a buffer beside its memory

TEST(BufferPool, GivesAlignedMemoryWithTheDimsAskedFor) {
  BufferPool* pool = BufferPool::Create(HostAllocator(), 0);
  const Shape shapes[] = {Shape(), {3}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 7, 8}};
  for (const Shape& shape : shapes) {
    auto buffer = pool->Allocate(100, shape.c());
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data) % 64, 0u);
    EXPECT_GE((*buffer)->capacity, 100u);
    EXPECT_EQ(Shape(tenon_shape{(*buffer)->dims, (*buffer)->rank, 0}), shape);
    EXPECT_TRUE(IsUnique(*buffer));
    Release(*buffer);
  }
  pool->Close();
}

#ifdef __SANITIZE_ADDRESS__
// A value of 20 bytes lies in a piece of 64, which the next one gets.
TEST(BufferPool, NobodyTouchesWhatLiesBehindAValueOrIsReleased) {
  const int64_t dims[] = {5};
  BufferPool* pool = BufferPool::Create(HostAllocator(), 0);
  for (const uint64_t bytes : {20, 60, 8}) {
    Buffer* buffer = *pool->Allocate(bytes, {dims, 1, 0});
    const auto* data = static_cast<const char*>(buffer->data);
    for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(IsForbidden(data + i), i >= bytes) << bytes << ", " << i;
    Release(buffer);
    EXPECT_TRUE(IsForbidden(data)) << bytes;
  }
  pool->Close();
}

TEST(BufferPool, LeavesTheMemoryOfDevicesAlone) {
  const int64_t dims[] = {5};
  BufferPool* pool = BufferPool::Create(HostAllocator(), 0, nullptr, false);
  Buffer* buffer = *pool->Allocate(20, {dims, 1, 0});
  EXPECT_FALSE(IsForbidden(static_cast<const char*>(buffer->data) + 20));
  Release(buffer);
  pool->Close();
}
#endif

TEST(BufferPool, SharesABudgetWithOtherPoolsAlsoWhenItIsClosed) {
  const auto budget = std::make_shared<MemoryBudget>(1024, "the house");
  BufferPool* one = BufferPool::Create(HostAllocator(), 0, budget);
  BufferPool* other = BufferPool::Create(HostAllocator(), 512, budget);
  auto kept = one->Allocate(768 - kRecord, {nullptr, 0, 0});
  ASSERT_TRUE(kept.ok());
  one->Close();
  EXPECT_EQ(budget->in_use(), 768u);
  EXPECT_EQ(other->Allocate(512 - kRecord, {nullptr, 0, 0}).status().ToString(),
            "RESOURCE_EXHAUSTED: 512 more bytes would pass the memory limit of the house, 1024 bytes; 768 are in use; "
            "raise the limit or "
            "make the step smaller");
  EXPECT_EQ(other->bytes_in_use(), 0u);
  EXPECT_FALSE(other->AllocateRaw(1024).ok()) << "its own limit is half of that";
  EXPECT_EQ(budget->in_use(), 768u);
  Release(*kept);
  EXPECT_EQ(budget->in_use(), 0u);
  auto memory = other->AllocateRaw(512);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(budget->in_use(), 512u);
  other->FreeRaw(*memory, 512);
  other->Close();
  EXPECT_EQ(budget->in_use(), 0u);
  EXPECT_EQ(budget->peak(), 768u);
}

TEST(BufferPool, WastesAtMostAQuarter) {
  BufferPool* pool = BufferPool::Create(HostAllocator(), 0);
  for (uint64_t bytes : {1u, 64u, 65u, 256u, 257u, 320u, 1000u, 4096u, 4097u, 65537u, 1000000u, 1048577u}) {
    auto buffer = pool->Allocate(bytes, {nullptr, 0, 0});
    ASSERT_TRUE(buffer.ok());
    EXPECT_GE((*buffer)->capacity, bytes);
    EXPECT_LE((*buffer)->capacity, bytes + bytes / 4 + 63) << bytes;
    Release(*buffer);
  }
  pool->Close();
}

TEST(BufferPool, UsesReleasedMemoryAgain) {
  CountingAllocator memory;
  BufferPool* pool = BufferPool::Create(memory.allocator(), 0);
  auto first = pool->Allocate(1000, {nullptr, 0, 0});
  ASSERT_TRUE(first.ok());
  void* const data = (*first)->data;
  Release(*first);
  auto second = pool->Allocate(1010, {nullptr, 0, 0});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->data, data);
  EXPECT_EQ(pool->allocations(), 1u);
  Release(*second);
  pool->Close();
  EXPECT_EQ(memory.live, 0);
}

TEST(BufferPool, RefusesWhatWouldPassItsLimitAndNamesIt) {
  BufferPool* pool = BufferPool::Create(HostAllocator(), 1024);
  auto first = pool->Allocate(512, {nullptr, 0, 0});
  ASSERT_TRUE(first.ok());
  const auto second = pool->Allocate(256, {nullptr, 0, 0});
  EXPECT_EQ(second.status().ToString(),
            "RESOURCE_EXHAUSTED: 512 more bytes would pass the memory limit of 1024 bytes; 768 are in use; raise the "
            "limit or "
            "make the step smaller");
  EXPECT_EQ(pool->bytes_in_use(), 512 + kRecord);
  EXPECT_FALSE(pool->AllocateRaw(512).ok());
  Release(*first);
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  auto third = pool->Allocate(1024 - kRecord, {nullptr, 0, 0});
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(pool->peak_bytes(), 1024u);
  Release(*third);
  pool->Close();
}

// Whatever has dims of its own has a record, which a graph may ask for by the million.
TEST(BufferPool, ChargesTheRecordOfEachBufferUntilItGoes) {
  const auto budget = std::make_shared<MemoryBudget>(0);
  BufferPool* pool = BufferPool::Create(HostAllocator(), 0, budget);
  auto whole = pool->Allocate(1, {nullptr, 0, 0});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(pool->bytes_in_use(), 64 + kRecord);
  const std::vector<int64_t> ones(200, 1);
  Buffer* view = pool->Alias(*whole, {ones.data(), 200, 0});
  EXPECT_EQ(pool->bytes_in_use(), 64 + 2 * kRecord + 200 * sizeof(int64_t));
  EXPECT_EQ(budget->in_use(), pool->bytes_in_use());
  Release(*whole);
  Release(view);
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  EXPECT_EQ(budget->in_use(), 0u);
  pool->Close();
}

// A limit holds for what is in use and what lies ready to be used again: small pieces of many sizes, one size after the
// other, are not kept all.
TEST(BufferPool, KeepsNoMoreThanItsLimitReadyToBeUsedAgain) {
  for (const bool shared : {false, true}) {
    constexpr uint64_t kLimit = 1 << 20;
    CountingAllocator memory;
    BufferPool* pool = BufferPool::Create(memory.allocator(), shared ? 0 : kLimit,
                                          shared ? std::make_shared<MemoryBudget>(kLimit) : nullptr);
    int64_t most = 0;
    for (const uint64_t size : {64, 128, 192, 256, 512, 1024, 4096, 65536}) {
      std::vector<Buffer*> all;
      for (uint64_t i = 0; i < kLimit / (size + kRecord); ++i) all.push_back(*pool->Allocate(size, {nullptr, 0, 0}));
      most = std::max(most, memory.live_bytes);
      for (Buffer* each : all) Release(each);
    }
    EXPECT_LE(static_cast<uint64_t>(most), kLimit) << shared;
    pool->Close();
    EXPECT_EQ(memory.live, 0);
  }
}

// A limit that pools share: what one keeps unused goes when another needs it.
TEST(BufferPool, GivesUpWhatItKeepsWhenAnotherOfItsBudgetNeedsRoom) {
  constexpr uint64_t kLimit = 1 << 20;
  CountingAllocator memory;
  const auto budget = std::make_shared<MemoryBudget>(kLimit);
  std::vector<BufferPool*> pools;
  for (int i = 0; i < 5; ++i) {
    pools.push_back(BufferPool::Create(memory.allocator(), 0, budget));
    std::vector<Buffer*> all;
    while (budget->in_use() + 4096 + kRecord <= kLimit) all.push_back(*pools.back()->Allocate(4096, {nullptr, 0, 0}));
    EXPECT_LE(static_cast<uint64_t>(memory.live_bytes), kLimit) << i;
    for (Buffer* each : all) Release(each);
  }
  EXPECT_GT(memory.live, 0) << "the last one keeps it";
  for (BufferPool* pool : pools) pool->Close();
  EXPECT_EQ(memory.live, 0);
}

TEST(BufferPool, RefusesMoreThanAnyMachineHasWithoutAskingForIt) {
  CountingAllocator memory;
  BufferPool* pool = BufferPool::Create(memory.allocator(), 0);
  EXPECT_EQ(pool->Allocate(UINT64_MAX, {nullptr, 0, 0}).status().ToString(),
            "RESOURCE_EXHAUSTED: a tensor of 18446744073709551615 bytes is more than any machine has");
  EXPECT_FALSE(pool->AllocateRaw((uint64_t{1} << 46) + 1).ok());
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  EXPECT_EQ(pool->allocations(), 0u);
  pool->Close();
}

TEST(BufferPool, GivesItsCacheBackBeforeItSaysThatTheSystemHasNothing) {
  CountingAllocator memory;
  BufferPool* pool = BufferPool::Create(memory.allocator(), 0);
  auto cached = pool->Allocate(100, {nullptr, 0, 0});
  ASSERT_TRUE(cached.ok());
  Release(*cached);
  EXPECT_EQ(memory.live, 1);
  memory.refusals = 1;
  auto after = pool->Allocate(5000, {nullptr, 0, 0});
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(memory.live, 1) << "the cached piece went back";
  memory.refusals = 2;
  EXPECT_EQ(pool->Allocate(5000, Shape({2, 3}).c()).status().ToString(),
            "RESOURCE_EXHAUSTED: the system has no 5120 bytes for a tensor of shape [2,3]");
  EXPECT_EQ(pool->bytes_in_use(), (*after)->capacity + kRecord);
  Release(*after);
  pool->Close();
  EXPECT_EQ(memory.live, 0);
}

TEST(BufferPool, LendsOneMemoryUnderOtherDims) {
  CountingAllocator memory;
  BufferPool* pool = BufferPool::Create(memory.allocator(), 0);
  auto whole = pool->Allocate(24, Shape({2, 3}).c());
  ASSERT_TRUE(whole.ok());
  Buffer* flat = pool->Alias(*whole, Shape({6}).c());
  Buffer* again = pool->Alias(flat, Shape({3, 2}).c());
  EXPECT_EQ(flat->data, (*whole)->data);
  EXPECT_EQ(again->parent, *whole) << "an alias of an alias holds the memory itself";
  EXPECT_EQ(Shape(tenon_shape{again->dims, again->rank, 0}), (Shape{3, 2}));
  EXPECT_FALSE(IsUnique(*whole));
  Release(*whole);
  Release(flat);
  EXPECT_GT(pool->bytes_in_use(), 0u) << "the last alias keeps the memory";
  Release(again);
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  pool->Close();
  EXPECT_EQ(memory.live, 0);
}

TEST(BufferPool, LivesUntilItsLastBufferIsReleased) {
  CountingAllocator memory;
  BufferPool* pool = BufferPool::Create(memory.allocator(), 0);
  auto kept = pool->Allocate(100, {nullptr, 0, 0});
  auto cached = pool->Allocate(100, {nullptr, 0, 0});
  ASSERT_TRUE(kept.ok() && cached.ok());
  Release(*cached);
  pool->Close();
  EXPECT_EQ(memory.live, 1) << "what is cached goes at once, what is lent stays";
  static_cast<char*>((*kept)->data)[99] = 1;
  Release(*kept);
  EXPECT_EQ(memory.live, 0);
}

TEST(BufferPool, ChargesRawMemoryToTheSameLimit) {
  CountingAllocator memory;
  BufferPool* pool = BufferPool::Create(memory.allocator(), 4096);
  auto arena = pool->AllocateRaw(4000);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(pool->bytes_in_use(), 4000u);
  EXPECT_FALSE(pool->Allocate(100, {nullptr, 0, 0}).ok());
  pool->FreeRaw(*arena, 4000);
  pool->FreeRaw(nullptr, 4000);
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  memory.refusals = 1;
  EXPECT_EQ(pool->AllocateRaw(64).status().ToString(),
            "RESOURCE_EXHAUSTED: the system has no 64 bytes for the memory of a step");
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  pool->Close();
  EXPECT_EQ(memory.live, 0);
}

TEST(BufferPool, CountsBackToZeroFromManyThreads) {
  BufferPool* pool = BufferPool::Create(HostAllocator(), 0);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([pool, t] {
      for (uint64_t i = 0; i < 2000; ++i) {
        auto buffer = pool->Allocate(64 + (i * 37 + t * 1001) % 3000, {nullptr, 0, 0});
        if (!buffer.ok()) return;
        Buffer* alias = pool->Alias(*buffer, {nullptr, 0, 0});
        Retain(*buffer);
        Release(*buffer);
        Release(*buffer);
        Release(alias);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  EXPECT_LE(pool->allocations(), 4u * 24u) << "each thread holds one buffer at a time, of one of the size classes";
  pool->Close();
}

}  // namespace
}  // namespace tenon::buffer_test
