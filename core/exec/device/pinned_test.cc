// SPDX-License-Identifier: Apache-2.0
// Pinned tensors of a driver of the test's own: which kind of memory they are of, what is charged and given back, and
// drivers that are wrong. Covers E10.
#include "core/exec/device/pinned.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "core/base/live_objects.h"

namespace tenon::exec::pinned_test {
namespace {

// What the driver does, and has done.
struct Memory {
  std::vector<uint32_t> flags = {0, 0, TENON_MEMORY_HOST_VISIBLE, TENON_MEMORY_HOST_VISIBLE};  // of its kinds
  uint32_t unknown_kind = 99;   // memory_kind() fails for this one
  bool refuses = false, gives_nothing = false, is_misaligned = false, gives_with_an_error = false;
  uint32_t kind = 99;           // that was asked for last
  std::set<void*> given;
  uint64_t freed = 0;
};
Memory* g_memory;

tenon_device_driver MakeDriver() {
  tenon_device_driver driver{};
  driver.struct_size = sizeof driver;
  driver.memory_kind = [](tenon_device*, uint32_t index, tenon_memory_kind* out) -> tenon_status* {
    if (index == g_memory->unknown_kind) return Status(Code::kInternal, "nobody knows").release();
    out->flags = g_memory->flags[index];
    return nullptr;
  };
  driver.allocate = [](tenon_device*, uint32_t kind, uint64_t bytes, uint64_t alignment, tenon_queue* queue,
                       void** out) -> tenon_status* {
    EXPECT_EQ(queue, nullptr);
    EXPECT_EQ(alignment, 64u);
    g_memory->kind = kind;
    if (g_memory->refuses) return Status(Code::kResourceExhausted, "it has no more").release();
    if (g_memory->gives_nothing) return nullptr;
    if (g_memory->gives_with_an_error) *out = reinterpret_cast<void*>(64);
    if (g_memory->gives_with_an_error) return Status(Code::kInternal, "it changed its mind").release();
    char* const data = static_cast<char*>(std::aligned_alloc(64, bytes + 64)) + (g_memory->is_misaligned ? 8 : 0);
    g_memory->given.insert(data);
    *out = data;
    return nullptr;
  };
  driver.free = [](tenon_device*, uint32_t kind, void* data, uint64_t, tenon_queue* queue) {
    EXPECT_EQ(kind, g_memory->kind);
    EXPECT_EQ(queue, nullptr);
    EXPECT_EQ(g_memory->given.erase(data), 1u);
    ++g_memory->freed;
    std::free(static_cast<char*>(data) - (g_memory->is_misaligned ? 8 : 0));
  };
  driver.queue_create = [](tenon_device*, int32_t, tenon_queue** out) -> tenon_status* {
    static char queues[8];
    static int made = 0;
    *out = reinterpret_cast<tenon_queue*>(&queues[made++ % 8]);
    return nullptr;
  };
  driver.queue_destroy = [](tenon_queue*) {};
  return driver;
}

class PinnedTest : public testing::Test {
 protected:
  PinnedTest() {
    g_memory = &memory_;
    static const tenon_device_driver kDriver = MakeDriver();
    device_.name = "/job:localhost/replica:0/task:0/device:CARD:0";
    device_.plugin = "card of pinned memory";
    device_.driver = &kDriver;
    device_.handle = reinterpret_cast<tenon_device*>(&memory_);
    device_.properties.memory_kind_count = static_cast<uint32_t>(memory_.flags.size());
    device_.synchronous = false;
    device_.queues = *DeviceQueues::Open(device_);
  }
  ~PinnedTest() override {
    EXPECT_TRUE(memory_.given.empty()) << "what was given leaked";
    EXPECT_EQ(pool_->bytes_in_use(), 0u);
    EXPECT_EQ(LiveKernels(device_.plugin), 0);
    pool_->Close();
  }
  Result<Tensor> Make(Shape shape = {1000}, DType dtype = TENON_DT_FLOAT) {
    return NewPinned(&device_, pool_, dtype, std::move(shape));
  }
  bool IsKnown(const void* data, uint64_t bytes) {
    Buffer* const found = RetainPinnedAround(data, bytes);
    if (found != nullptr) Release(found);
    return found != nullptr;
  }

  Memory memory_;
  Device device_;
  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 1 << 20);
};

TEST_F(PinnedTest, IsOfTheFirstKindThatTheHostReachesAndGivenBackOnce) {
  {
    const auto tensor = Make();
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_EQ(memory_.kind, 2u);
    EXPECT_EQ(pool_->bytes_in_use(), 4032u) << "4000 bytes, rounded up to 64";
    EXPECT_EQ(LiveKernels(device_.plugin), 1);
    const Tensor another = *tensor;
    EXPECT_EQ(memory_.freed, 0u);
  }
  EXPECT_EQ(memory_.freed, 1u);
}

TEST_F(PinnedTest, IsOrdinaryMemoryOfADeviceThatNeedsNoOther) {
  const auto is_ordinary = [&](const char* why) {
    const auto tensor = Make();
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_TRUE(memory_.given.empty()) << why;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % 64, 0u);
    EXPECT_EQ(LiveKernels(device_.plugin), 0) << why;
    EXPECT_TRUE(IsKnown(tensor->data(), 4000));
    EXPECT_EQ(OwnerOfPinned(*tensor->buffer(), device_), nullptr);
  };
  memory_.flags = {TENON_MEMORY_HOST_VISIBLE, TENON_MEMORY_HOST_VISIBLE, TENON_MEMORY_HOST_VISIBLE, 0};
  is_ordinary("it computes in memory that the host reads");
  memory_.flags = {0, 0, 0, 0};
  is_ordinary("it has no such memory");
  device_.properties.memory_kind_count = 0;
  is_ordinary("it has one kind, and does not say so");
  const auto host = NewPinned(nullptr, pool_, TENON_DT_INT8, {3});
  ASSERT_TRUE(host.ok());
}

TEST_F(PinnedTest, AKindThatTheDriverCannotTellOfIsLeftOut) {
  memory_.unknown_kind = 2;
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(memory_.kind, 3u);
}

TEST_F(PinnedTest, IsFoundByItsAddressesAlone) {
  auto tensor = Make();
  ASSERT_TRUE(tensor.ok());
  char* const data = tensor->as<char>();
  EXPECT_TRUE(IsKnown(data, 4000));
  EXPECT_TRUE(IsKnown(data + 1000, 3000));
  EXPECT_FALSE(IsKnown(data + 1000, 3001)) << "it ends before";
  EXPECT_FALSE(IsKnown(data + 1, UINT64_MAX));
  EXPECT_FALSE(IsKnown(data - 1, 1));
  EXPECT_FALSE(IsKnown(data + 4001, 0));
  EXPECT_EQ(OwnerOfPinned(*tensor->buffer(), device_), device_.handle);
  Device loaded_again = device_;
  loaded_again.self = reinterpret_cast<tenon_plugin_self*>(this);
  EXPECT_EQ(OwnerOfPinned(*tensor->buffer(), loaded_again), nullptr);
  *tensor = Tensor();
  EXPECT_FALSE(IsKnown(data, 4000));
}

TEST_F(PinnedTest, DriversThatAreWrongAreNamedAndLoseNothing) {
  const auto fails = [&](bool* how, Code code, const char* text) {
    *how = true;
    const Status status = Make().status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status.message();
    EXPECT_NE(std::string(status.message())
                  .find("a pinned tensor of float[1000] for /job:localhost/replica:0/task:0/device:CARD:0"),
              std::string::npos)
        << status.message();
    EXPECT_EQ(pool_->bytes_in_use(), 0u);
    EXPECT_EQ(LiveKernels(device_.plugin), 0);
    *how = false;
  };
  fails(&memory_.refuses, Code::kResourceExhausted, "it has no more");
  fails(&memory_.gives_nothing, Code::kInternal, "success and no memory");
  fails(&memory_.gives_with_an_error, Code::kInternal, "it changed its mind");
  fails(&memory_.is_misaligned, Code::kInternal, "not aligned to 64 bytes");
  EXPECT_TRUE(Make().ok());
}

TEST_F(PinnedTest, PassesNoLimit) {
  EXPECT_EQ(Make({1 << 20}).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(memory_.kind, 99u) << "the driver was asked";
  EXPECT_EQ(Make({1}, TENON_DT_STRING).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Make(Shape::Unknown()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Make({-3}).status().code(), Code::kInvalidArgument);
}

TEST_F(PinnedTest, OfAClosedDeviceIsTheDriversNoMore) {
  auto tensor = Make();
  ASSERT_TRUE(tensor.ok());
  device_.queues.reset();
  *tensor = Tensor();
  EXPECT_EQ(memory_.freed, 0u);
  for (void* data : memory_.given) std::free(data);
  memory_.given.clear();
}

TEST_F(PinnedTest, OutlivesThePoolThatItIsChargedTo) {
  BufferPool* const pool = BufferPool::Create(HostAllocator(), 1 << 20);
  auto tensor = NewPinned(&device_, pool, TENON_DT_FLOAT, {1000});
  ASSERT_TRUE(tensor.ok());
  pool->Close();
  std::thread([&] { *tensor = Tensor(); }).join();
  EXPECT_EQ(memory_.freed, 1u);
}

// The last reference goes while another thread finds it.
TEST_F(PinnedTest, IsFoundOrGoneButNeverBetween) {
  for (int i = 0; i < 200; ++i) {
    auto tensor = NewPinned(nullptr, pool_, TENON_DT_FLOAT, {16});
    ASSERT_TRUE(tensor.ok());
    const void* const data = tensor->data();
    std::thread finder([&] { (void)IsKnown(data, 64); });
    *tensor = Tensor();
    finder.join();
    EXPECT_FALSE(IsKnown(data, 64));
  }
}

}  // namespace
}  // namespace tenon::exec::pinned_test
