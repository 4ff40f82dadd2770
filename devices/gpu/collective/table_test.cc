// SPDX-License-Identifier: Apache-2.0
// The capability tenon.collective/1 over an emulated library: sums, gathers and broadcasts between GPUs on the caller's
// queues, and what is refused.
#include "tenon/ext/draft/collective.h"

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr char kLibrary[] = TENON_TEST_BUILD_DIR "/tests/plugins/libtenon_emulated_nccl.so";
constexpr int kMembers = 3;

const tenon_collective& Table() { return *Tested().Capability<tenon_collective>(TENON_CAPABILITY_COLLECTIVE); }

// A group on all devices, and a queue, a timeline and 64 floats of memory of each. Device memory is the host's here.
class CollectiveTable : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Text(Table().make_token(plugin_.self, token_, &token_size_)), "");
    for (uint32_t i = 0; i < kMembers; ++i) {
      const tenon_device_driver& d = *plugin_.driver;
      ASSERT_EQ(Text(d.open(plugin_.self, i, &devices_[i])), "");
      ASSERT_EQ(Text(d.queue_create(devices_[i], 0, &queues_[i])), "");
      ASSERT_EQ(Text(d.semaphore_create(devices_[i], 0, &timelines_[i])), "");
      void* data = nullptr;
      ASSERT_EQ(Text(d.allocate(devices_[i], 0, 64 * sizeof(float), 0, nullptr, &data)), "");
      memory_[i] = static_cast<float*>(data);
      places_[i] = {devices_[i], static_cast<int32_t>(i), 0};
    }
    ASSERT_EQ(Text(Table().join(plugin_.self, {token_, token_size_}, places_, kMembers, kMembers, After(kPatience),
                                communicators_)),
              "");
  }
  void TearDown() override {
    for (int i = 0; i < kMembers; ++i) {
      Table().leave(communicators_[i]);
      plugin_.driver->queue_destroy(queues_[i]);
      plugin_.driver->semaphore_destroy(timelines_[i]);
      plugin_.driver->free(devices_[i], 0, memory_[i], 64 * sizeof(float), nullptr);
      plugin_.driver->close(devices_[i]);
    }
  }
  // A call of each: reads at `from`, writes at `to`, tells `point`.
  std::vector<tenon_collective_call> Calls(int from, int to, uint64_t point) {
    std::vector<tenon_collective_call> calls;
    for (int i = 0; i < kMembers; ++i) {
      submissions_[i] = {TENON_HEAD(tenon_submission), nullptr, 0, timelines_[i], point, Span("collective")};
      calls.push_back({communicators_[i], queues_[i], memory_[i] + from, memory_[i] + to, &submissions_[i]});
    }
    return calls;
  }
  void Await(uint64_t point) {
    for (tenon_semaphore* timeline : timelines_)
      ASSERT_EQ(Text(plugin_.driver->semaphore_wait(timeline, point, After(kPatience))), "");
  }

  Plugin plugin_{{"devices", std::to_string(kMembers)}, {"collectives", kLibrary}};
  char token_[256] = {};
  uint64_t token_size_ = 0;
  tenon_device* devices_[kMembers] = {};
  tenon_queue* queues_[kMembers] = {};
  tenon_semaphore* timelines_[kMembers] = {};
  float* memory_[kMembers] = {};
  tenon_collective_place places_[kMembers] = {};
  tenon_communicator* communicators_[kMembers] = {};
  tenon_submission submissions_[kMembers] = {};
};

TEST_F(CollectiveTable, ReducesGathersAndBroadcastsInTheOrderOfItsQueues) {
  for (int i = 0; i < kMembers; ++i)
    memory_[i][0] = static_cast<float>(i + 1), memory_[i][1] = static_cast<float>(10 - i);
  auto calls = Calls(0, 2, 1);
  ASSERT_EQ(Text(Table().all_reduce(plugin_.self, calls.data(), kMembers, 2, TENON_DT_FLOAT, TENON_REDUCE_SUM)), "");
  calls = Calls(0, 4, 2);
  ASSERT_EQ(Text(Table().all_reduce(plugin_.self, calls.data(), kMembers, 2, TENON_DT_FLOAT, TENON_REDUCE_MIN)), "");
  calls = Calls(0, 8, 3);
  ASSERT_EQ(Text(Table().all_gather(plugin_.self, calls.data(), kMembers, 2, TENON_DT_FLOAT)), "");
  calls = Calls(1, 20, 4);
  ASSERT_EQ(Text(Table().broadcast(plugin_.self, calls.data(), kMembers, 1, TENON_DT_FLOAT, 1)), "");
  Await(4);
  for (const float* memory : memory_) {
    EXPECT_EQ(std::vector<float>(memory + 2, memory + 6), (std::vector<float>{6, 27, 1, 8}));
    EXPECT_EQ(std::vector<float>(memory + 8, memory + 14), (std::vector<float>{1, 10, 2, 9, 3, 8}));
    EXPECT_EQ(memory[20], 9);
  }
}

TEST_F(CollectiveTable, RefusesWhatCanNeverBe) {
  tenon_communicator* none[kMembers] = {};
  const tenon_span token = {token_, token_size_};
  EXPECT_NE(Text(Table().join(plugin_.self, token, places_, 1, kMembers, After(kPatience), none))
                .find("UNIMPLEMENTED: 1 of 3 members"),
            std::string::npos);
  const tenon_collective_place twice[2] = {places_[0], {devices_[0], 1, 0}};
  EXPECT_NE(Text(Table().join(plugin_.self, token, twice, 2, 2, After(kPatience), none)).find("both on GPU:0"),
            std::string::npos);
  const tenon_collective_place ranks[2] = {places_[0], {devices_[1], 0, 0}};
  EXPECT_NE(Text(Table().join(plugin_.self, token, ranks, 2, 2, After(kPatience), none)).find("rank 0 of 2"),
            std::string::npos);
  auto calls = Calls(0, 2, 1);
  EXPECT_NE(Text(Table().all_reduce(plugin_.self, calls.data(), kMembers, 2, TENON_DT_STRING, TENON_REDUCE_SUM))
                .find("dtype string"),
            std::string::npos);
  calls[0].queue = queues_[1];
  EXPECT_NE(Text(Table().all_reduce(plugin_.self, calls.data(), kMembers, 2, TENON_DT_FLOAT, TENON_REDUCE_SUM))
                .find("INVALID_ARGUMENT"),
            std::string::npos);
}

TEST(CollectiveTableWithoutALibrary, SaysWhatIsMissing) {
  Plugin plugin{{"devices", "1"}, {"collectives", "off"}};
  char token[256];
  uint64_t size = 0;
  EXPECT_EQ(Text(Table().make_token(plugin.self, token, &size)), "UNIMPLEMENTED: the option collectives is off");
}

}  // namespace
}  // namespace tenon::device_test
