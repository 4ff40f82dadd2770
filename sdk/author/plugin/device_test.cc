// SPDX-License-Identifier: Apache-2.0
// The table that tenon/sdk/device/device.h makes, called as a host calls it: what is wrong is refused before the driver
// is called, what is right gets there. Covers synchronous devices and devices with queues.
#include "tenon/sdk/device/device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tenon/testing/host.h"

namespace tenon::sdk::device_test {
namespace {

using testing::Text;

// What a driver was asked, in order.
std::vector<std::string> asked;
std::vector<std::string> Asked() { return std::exchange(asked, {}); }

struct Device : Handled<Device, tenon_device> {
  ~Device() { asked.emplace_back("~Device"); }
  static std::string_view name() { return "NPU:0"; }
};
struct Queue : Handled<Queue, tenon_queue> {
  explicit Queue(std::shared_ptr<Device> of) : device_(std::move(of)) {}
  ~Queue() { asked.emplace_back("~Queue"); }
  Device& device() const { return *device_; }

 private:
  const std::shared_ptr<Device> device_;
};
struct Timeline : Handled<Timeline, tenon_semaphore> {
  explicit Timeline(uint64_t initial) : value(initial) {}
  uint64_t value;
  Outcome failure;
};

// A device with queues. Its memory are the 64 bytes at `block`; work is done when it is submitted.
alignas(64) char block[64];
struct Driver {
  static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
  static constexpr int32_t kPriority = 7;
  static constexpr std::string_view kMemoryKinds[] = {"device", "pinned", "far"};
  static constexpr uint64_t kMostAlignment = 64;
  using Device = device_test::Device;
  using Queue = device_test::Queue;
  using Timeline = device_test::Timeline;
  struct Place {
    char* address = nullptr;
    bool on_host = false;
  };

  static Outcome Count(tenon_plugin_self*, uint32_t* out_count) {
    *out_count = 1;
    return {};
  }
  static tenon_status* Open(tenon_plugin_self*, uint32_t index, std::shared_ptr<Device>* out_device) {
    if (index != 0) return Failure(TENON_NOT_FOUND, "device ", index);
    *out_device = std::make_shared<Device>();
    return nullptr;
  }
  static void Close(Device&) { asked.emplace_back("Close"); }
  static void Properties(Device&, tenon_device_properties* out) {
    out->name = TENON_SPAN("a test");
    out->flops = 5;
    out->compute_queues = 3;
  }
  static void MemoryKind(Device&, uint32_t kind, tenon_memory_kind* out) { out->alignment = 64 << kind; }
  static Outcome Allocate(Device&, uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue, Memory* out) {
    asked.push_back(Concat("Allocate ", kind, " ", bytes, " ", alignment, queue == nullptr ? "" : " queue"));
    if (bytes > 64) sdk::Fail(TENON_RESOURCE_EXHAUSTED, "no ", bytes, " bytes");  // as kernels do
    *out = {block, 16};
    return {};
  }
  static void Free(Device&, uint32_t, Memory memory, uint64_t bytes, Queue*) {
    asked.push_back(Concat("Free ", AddressOf(memory) - block, " ", bytes));
    if (bytes == 13) throw std::runtime_error("thirteen");
  }
  static bool Find(Device&, Memory memory, uint64_t bytes, Place* out) {
    *out = {AddressOf(memory), false};
    return out->address >= block && out->address + bytes <= block + sizeof block;
  }
  static std::string FindHost(Queue&, Memory memory, uint64_t, Place* out) {
    *out = {AddressOf(memory), true};
    return out->address >= block && out->address < block + sizeof block ? "memory of NPU:0" : "";
  }

  static void MakeQueue(Device& device, int32_t, std::shared_ptr<Queue>* out) {
    *out = std::make_shared<Queue>(device.shared_from_this());
  }
  static void CloseQueue(Queue&) { asked.emplace_back("CloseQueue"); }
  static bool Knows(const Queue&, const Timeline& timeline) { return timeline.value < 100; }
  static void Copy(Queue&, const Place& target, const Place& source, uint64_t bytes,
                   const tenon_submission& submission) {
    asked.push_back(Concat("Copy ", bytes, source.on_host ? " host" : "", " signal ", submission.signal));
    if (bytes != 0) std::memcpy(target.address, source.address, bytes);
  }
  static void Fill(Queue&, const Place&, uint64_t bytes, std::span<const char> pattern, const tenon_submission&) {
    asked.push_back(Concat("Fill ", bytes, " of ", pattern.size()));
  }
  static void Barrier(Queue&, const tenon_submission& submission) {
    asked.push_back(Concat("Barrier ", submission.wait_count, " ", ToText(submission.label)));
  }
  static void CallHost(Queue&, HostCall call, const tenon_submission&) { call(Fault(TENON_ABORTED, "so it is")); }

  static void MakeTimeline(Device&, uint64_t initial, std::shared_ptr<Timeline>* out) {
    *out = std::make_shared<Timeline>(initial);
  }
  static void CloseTimeline(Timeline& timeline) { asked.push_back(DestroyedAt(timeline.value).message); }
  static Outcome Query(Timeline& timeline, uint64_t* out_value) {
    *out_value = timeline.value;
    return timeline.failure;
  }
  static Outcome Signal(Timeline& timeline, uint64_t value) {
    if (value <= timeline.value) return NotAbove(timeline.value, value);
    timeline.value = value;
    return {};
  }
  static void Fail(Timeline& timeline, const Outcome& why) { timeline.failure = why; }
  static Outcome Wait(Timeline&, uint64_t value, Deadline deadline) {
    asked.push_back(Concat("Wait ", value, deadline == Deadline::max() ? " for ever" : ""));
    return {};
  }
  static void Notify(Timeline& timeline, uint64_t, HostCall call) { call(timeline.failure); }
};
constexpr const tenon_device_driver& kTable = kDeviceTable<Driver>;

// A synchronous device: what is not here is not in the table.
struct Plain {
  static constexpr tenon_span kDeviceType = TENON_SPAN("PLAIN");
  static constexpr int32_t kPriority = 0;
  static constexpr std::string_view kMemoryKinds[] = {"host"};
  static constexpr uint64_t kMostAlignment = 64;
  using Device = device_test::Device;
  static void Count(tenon_plugin_self*, uint32_t* out_count) { *out_count = 1; }
  static void Open(tenon_plugin_self*, uint32_t, std::shared_ptr<Device>*) {}  // makes nothing
  static void Properties(Device&, tenon_device_properties*) {}
  static void MemoryKind(Device&, uint32_t, tenon_memory_kind*) {}
  static void Allocate(Device&, uint32_t, uint64_t, uint64_t, Memory* out) { out->handle = block; }
  static void Free(Device&, uint32_t, Memory, uint64_t) {}
  static void Map(Device&, uint32_t, Memory memory, uint64_t, void** out_address) { *out_address = AddressOf(memory); }
};
constexpr const tenon_device_driver& kPlainTable = kDeviceTable<Plain>;

class DeviceTable : public ::testing::Test {
 protected:
  void SetUp() override {
    Asked();
    ASSERT_EQ(Text(kTable.open(nullptr, 0, &device)), "");
    ASSERT_EQ(Text(kTable.queue_create(device, 0, &queue)), "");
    ASSERT_EQ(Text(kTable.semaphore_create(device, 3, &semaphore)), "");
  }
  void TearDown() override {
    kTable.semaphore_destroy(semaphore);
    kTable.queue_destroy(queue);
    kTable.close(device);
    EXPECT_EQ(testing::live_statuses, 0);
    EXPECT_TRUE(testing::TakeLog().empty());
  }
  std::string Barrier(const tenon_submission* submission) const {
    return Text(kTable.queue_barrier(queue, submission));
  }
  std::string Copy(const void* source, tenon_device* from, void* target, tenon_device* to, uint64_t bytes) const {
    const tenon_copy_args args = {TENON_HEAD(tenon_copy_args), source, target, bytes, from, to};
    return Text(kTable.queue_copy(queue, &args, &plain));
  }
  std::string Fill(const void* pattern, uint64_t pattern_bytes, void* target = block, uint64_t bytes = 32) const {
    const tenon_fill_args args = {TENON_HEAD(tenon_fill_args), target, bytes, pattern, pattern_bytes};
    return Text(kTable.queue_fill(queue, &args, &plain));
  }

  static constexpr tenon_submission plain = {TENON_HEAD(tenon_submission), nullptr, 0, nullptr, 0, {}};
  tenon_device* device = nullptr;
  tenon_queue* queue = nullptr;
  tenon_semaphore* semaphore = nullptr;
};

TEST(DeviceTables, HaveTheSlotsThatTheDriverHas) {
  EXPECT_EQ(kTable.struct_size, sizeof(tenon_device_driver));
  EXPECT_EQ(kTable.must_understand, 0u);
  EXPECT_EQ(ToText(kTable.device_type), "NPU");
  EXPECT_EQ(kTable.priority, 7);
  EXPECT_EQ(kTable.map, nullptr);
  EXPECT_EQ(kTable.unmap, nullptr);
  EXPECT_EQ(kTable.get_extension, nullptr);
  EXPECT_NE(kTable.queue_fill, nullptr);
  EXPECT_NE(kTable.semaphore_signal, nullptr);
  EXPECT_NE(kTable.semaphore_notify, nullptr);
  EXPECT_NE(kPlainTable.map, nullptr);
  EXPECT_NE(kPlainTable.unmap, nullptr);
  EXPECT_EQ(kPlainTable.queue_create, nullptr);
  EXPECT_EQ(kPlainTable.semaphore_wait, nullptr);
}

TEST(DeviceTables, RefuseWhatADriverDoesNotMake) {
  tenon_device* device = nullptr;
  EXPECT_EQ(Text(kPlainTable.open(nullptr, 0, &device)), "INTERNAL: the driver has made nothing for out_device");
  EXPECT_EQ(Text(kTable.open(nullptr, 2, &device)), "NOT_FOUND: device 2");
  EXPECT_EQ(device, nullptr);
}

TEST_F(DeviceTable, RefusesObjectsThatAreNull) {
  EXPECT_EQ(Text(kTable.count(nullptr, nullptr)), "INVALID_ARGUMENT: out_count is NULL");
  EXPECT_EQ(Text(kTable.open(nullptr, 0, nullptr)), "INVALID_ARGUMENT: out_device is NULL");
  tenon_device_properties properties = {};
  properties.struct_size = sizeof properties;
  tenon_memory_kind kind = {};
  kind.struct_size = sizeof kind;
  void* data = block;
  for (const std::string& text :
       {Text(kTable.properties(nullptr, &properties)), Text(kTable.memory_kind(nullptr, 0, &kind)),
        Text(kTable.allocate(nullptr, 0, 1, 1, nullptr, &data)), Text(kTable.queue_create(nullptr, 0, &queue)),
        Text(kTable.semaphore_create(nullptr, 0, &semaphore)), Text(kPlainTable.map(nullptr, 0, block, 1, &data))}) {
    EXPECT_EQ(text, "INVALID_ARGUMENT: the device is NULL");
  }
  EXPECT_EQ(Text(kTable.allocate(device, 0, 1, 1, nullptr, nullptr)), "INVALID_ARGUMENT: out_data is NULL");
  EXPECT_EQ(Text(kTable.queue_create(device, 0, nullptr)), "INVALID_ARGUMENT: out_queue is NULL");
  EXPECT_EQ(Text(kTable.semaphore_create(device, 0, nullptr)), "INVALID_ARGUMENT: out_semaphore is NULL");
  EXPECT_EQ(Text(kTable.queue_barrier(nullptr, &plain)), "INVALID_ARGUMENT: the queue is NULL");
  EXPECT_EQ(Text(kTable.queue_host_call(queue, nullptr, nullptr, &plain)),
            "INVALID_ARGUMENT: the function to call is NULL");
  uint64_t value = 0;
  EXPECT_EQ(Text(kTable.semaphore_query(semaphore, nullptr)), "INVALID_ARGUMENT: out_value is NULL");
  for (const std::string& text :
       {Text(kTable.semaphore_query(nullptr, &value)), Text(kTable.semaphore_signal(nullptr, 1)),
        Text(kTable.semaphore_wait(nullptr, 1, 0))}) {
    EXPECT_EQ(text, "INVALID_ARGUMENT: the semaphore is NULL");
  }
  EXPECT_EQ(Text(kTable.semaphore_notify(semaphore, 1, nullptr, nullptr)),
            "INVALID_ARGUMENT: the function to call is NULL");
  // Nothing is given back for nothing.
  kTable.close(nullptr);
  kTable.queue_destroy(nullptr);
  kTable.semaphore_destroy(nullptr);
  kTable.free(device, 0, nullptr, 1, nullptr);
  EXPECT_EQ(Asked(), std::vector<std::string>());
}

TEST_F(DeviceTable, FillsNoMoreOfAStructThanTheCallerKnows) {
  tenon_device_properties properties = {};
  EXPECT_EQ(Text(kTable.properties(device, &properties)),
            "INVALID_ARGUMENT: out_properties is missing or has no struct_size");
  properties.struct_size = offsetof(tenon_device_properties, compute_queues);
  properties.compute_queues = 99;
  EXPECT_EQ(Text(kTable.properties(device, &properties)), "");
  EXPECT_EQ(properties.struct_size, offsetof(tenon_device_properties, compute_queues));
  EXPECT_EQ(properties.flops, 5);
  EXPECT_EQ(properties.memory_kind_count, 3u);
  EXPECT_EQ(properties.synchronous, 0u);
  EXPECT_EQ(properties.compute_queues, 99u);
  properties.struct_size = sizeof properties + 8;  // of a later host
  EXPECT_EQ(Text(kTable.properties(device, &properties)), "");
  EXPECT_EQ(properties.compute_queues, 3u);
  tenon_memory_kind kind = {};
  kind.struct_size = sizeof kind;
  EXPECT_EQ(Text(kTable.memory_kind(device, 1, &kind)), "");
  EXPECT_EQ(ToText(kind.name), "pinned");
  EXPECT_EQ(kind.alignment, 128u);
}

TEST_F(DeviceTable, RefusesMemoryThatCannotBe) {
  void* data = &data;
  const char kinds[] = "NOT_FOUND: memory kind 3; there are 0 (device), 1 (pinned) and 2 (far)";
  tenon_memory_kind kind = {};
  EXPECT_EQ(Text(kTable.memory_kind(device, 3, &kind)), kinds);
  EXPECT_EQ(Text(kTable.allocate(device, 3, 8, 8, nullptr, &data)), kinds);
  EXPECT_EQ(data, nullptr);
  EXPECT_EQ(Text(kTable.allocate(device, 0, 8, 3, nullptr, &data)),
            "INVALID_ARGUMENT: alignment 3 is not a power of two up to 64");
  EXPECT_EQ(Text(kTable.allocate(device, 0, 8, 128, nullptr, &data)),
            "INVALID_ARGUMENT: alignment 128 is not a power of two up to 64");
  EXPECT_EQ(Asked(), std::vector<std::string>());
  EXPECT_EQ(Text(kPlainTable.map(device, 1, block, 8, &data)), "NOT_FOUND: memory kind 1; there is 0 (host)");
}

TEST_F(DeviceTable, NamesMemoryByAddress) {
  void* data = nullptr;
  EXPECT_EQ(Text(kTable.allocate(device, 2, 8, 64, queue, &data)), "");
  EXPECT_EQ(data, block + 16);  // handle and offset
  kTable.free(device, 2, data, 8, nullptr);
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Allocate 2 8 64 queue", "Free 16 8"}));
}

TEST_F(DeviceTable, MakesAStatusOfWhatIsThrown) {
  void* data = nullptr;
  EXPECT_EQ(Text(kTable.allocate(device, 0, 65, 0, nullptr, &data)), "RESOURCE_EXHAUSTED: no 65 bytes");
  kTable.free(device, 0, block, 13, nullptr);  // which cannot say so
  EXPECT_EQ(testing::TakeLog(), std::vector<std::string>{"thirteen"});
}

TEST_F(DeviceTable, TakesStructsThatAreShorterAndRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Barrier(nullptr), "INVALID_ARGUMENT: a submission is missing or has no struct_size");
  tenon_submission submission = plain;
  submission.struct_size = 4;
  EXPECT_EQ(Barrier(&submission), "INVALID_ARGUMENT: a submission is missing or has no struct_size");
  submission.struct_size = sizeof submission;
  submission.must_understand = 2;
  EXPECT_EQ(Barrier(&submission), "UNIMPLEMENTED: a submission with a feature that this plugin does not know");
  tenon_copy_args copy = {TENON_HEAD(tenon_copy_args), nullptr, nullptr, 0, nullptr, nullptr};
  copy.must_understand = 1;
  EXPECT_EQ(Text(kTable.queue_copy(queue, &copy, &plain)),
            "UNIMPLEMENTED: a copy with a feature that this plugin does not know");
  EXPECT_EQ(Text(kTable.queue_copy(queue, nullptr, &plain)),
            "INVALID_ARGUMENT: a copy is missing or has no struct_size");
  tenon_fill_args fill = {TENON_HEAD(tenon_fill_args), nullptr, 0, nullptr, 0};
  fill.must_understand = 1;
  EXPECT_EQ(Text(kTable.queue_fill(queue, &fill, &plain)),
            "UNIMPLEMENTED: a fill with a feature that this plugin does not know");
  EXPECT_EQ(Asked(), std::vector<std::string>());

  // An older host's, without a label: what stands behind is not read. Under a sanitizer that is seen.
  constexpr size_t kOld = offsetof(tenon_submission, label);
  const std::unique_ptr<tenon_submission, void (*)(void*)> old(static_cast<tenon_submission*>(std::malloc(kOld)),
                                                               std::free);
  std::memcpy(old.get(), &plain, kOld);
  old->struct_size = kOld;
  EXPECT_EQ(Barrier(old.get()), "");
  submission = plain;
  submission.label = TENON_SPAN("node");
  EXPECT_EQ(Barrier(&submission), "");
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Barrier 0 ", "Barrier 0 node"}));
}

TEST_F(DeviceTable, RefusesPointsThatAreNotTheDrivers) {
  tenon_semaphore* foreign = nullptr;
  ASSERT_EQ(Text(kTable.semaphore_create(device, 100, &foreign)), "");
  tenon_timeline_point points[] = {{semaphore, 1}, {nullptr, 1}};
  tenon_submission submission = plain;
  submission.wait_count = 2;
  EXPECT_EQ(Barrier(&submission), "INVALID_ARGUMENT: the list of what a submission waits for is NULL");
  submission.waits = points;
  EXPECT_EQ(Barrier(&submission), "INVALID_ARGUMENT: wait 1 has no semaphore");
  points[1].semaphore = foreign;
  EXPECT_EQ(Barrier(&submission), "INVALID_ARGUMENT: wait 1 is for a semaphore of another driver");
  submission.wait_count = 1;
  submission.signal = 5;
  EXPECT_EQ(Barrier(&submission), "INVALID_ARGUMENT: a signal of 5 without a timeline");
  EXPECT_EQ(Asked(), std::vector<std::string>());
  submission.timeline = semaphore;
  EXPECT_EQ(Barrier(&submission), "");
  EXPECT_EQ(Asked(), std::vector<std::string>{"Barrier 1 "});
  kTable.semaphore_destroy(foreign);
}

TEST_F(DeviceTable, RefusesPatternsOfOtherSizes) {
  const char pattern[32] = {};
  for (const uint64_t size : {0u, 3u, 5u, 12u, 17u, 32u}) {
    EXPECT_EQ(Fill(pattern, size),
              Concat("INVALID_ARGUMENT: a pattern of ", size, " bytes; it may have 1, 2, 4, 8 or 16"));
  }
  EXPECT_EQ(Fill(nullptr, 4), "INVALID_ARGUMENT: the pattern of a fill is NULL");
  EXPECT_EQ(Fill(pattern, 4, block + 40, 32),
            "INVALID_ARGUMENT: NPU:0: the target of a fill of 32 bytes is not in a living block of its memory");
  EXPECT_EQ(Asked(), std::vector<std::string>());
  EXPECT_EQ(Fill(pattern, 16), "");
  EXPECT_EQ(Fill(pattern, 1, nullptr, 0), "");
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Fill 32 of 16", "Fill 0 of 1"}));
}

TEST_F(DeviceTable, RefusesCopiesOfMemoryThatIsElsewhere) {
  char host[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(Copy(nullptr, nullptr, block, device, 4), "INVALID_ARGUMENT: NPU:0: the source of a copy is NULL");
  EXPECT_EQ(Copy(host, nullptr, nullptr, device, 4), "INVALID_ARGUMENT: NPU:0: the target of a copy is NULL");
  EXPECT_EQ(Copy(block, nullptr, host, nullptr, 4),
            "INVALID_ARGUMENT: NPU:0: the source of a copy is said to be host memory and is memory of NPU:0");
  EXPECT_EQ(Copy(host, device, block, device, 4),
            "INVALID_ARGUMENT: NPU:0: the source of a copy of 4 bytes is not in a living block of its memory");
  EXPECT_EQ(Copy(host, nullptr, block + 60, device, 8),
            "INVALID_ARGUMENT: NPU:0: the target of a copy of 8 bytes is not in a living block of its memory");
  EXPECT_EQ(Asked(), std::vector<std::string>());
  EXPECT_EQ(Copy(host, nullptr, block + 8, device, 8), "");
  EXPECT_EQ(block[9], 2);
  EXPECT_EQ(Copy(nullptr, nullptr, nullptr, device, 0), "");  // nothing is nowhere
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Copy 8 host signal 0", "Copy 0 signal 0"}));
}

TEST_F(DeviceTable, TellsWhatTimelinesCameTo) {
  std::string told;
  const tenon_notify_function tell = [](void* argument, tenon_status* status) {
    *static_cast<std::string*>(argument) = Text(status);
  };
  uint64_t value = 0;
  EXPECT_EQ(Text(kTable.semaphore_query(semaphore, &value)), "");
  EXPECT_EQ(value, 3u);
  EXPECT_EQ(Text(kTable.semaphore_signal(semaphore, 2)),
            "INVALID_ARGUMENT: signal of 2 on a semaphore that has reached 3");
  EXPECT_EQ(Text(kTable.queue_host_call(queue, tell, &told, &plain)), "");
  EXPECT_EQ(told, "ABORTED: so it is");
  EXPECT_EQ(Text(kTable.semaphore_notify(semaphore, 1, tell, &told)), "");
  EXPECT_EQ(told, "");
  kTable.semaphore_fail(semaphore, nullptr);
  EXPECT_EQ(Text(kTable.semaphore_query(semaphore, &value)),
            "UNKNOWN: the host failed the timeline without saying why");
  kTable.semaphore_fail(semaphore, Failure(TENON_ABORTED, "enough"));
  EXPECT_EQ(Text(kTable.semaphore_query(semaphore, &value)), "ABORTED: enough");
  EXPECT_EQ(Text(kTable.semaphore_wait(semaphore, 9, UINT64_MAX)), "");
  EXPECT_EQ(Text(kTable.semaphore_wait(semaphore, 9, 1)), "");
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Wait 9 for ever", "Wait 9"}));
  kTable.semaphore_fail(nullptr, Failure(TENON_ABORTED, "released all the same"));
  EXPECT_EQ(testing::TakeLog(), std::vector<std::string>{"the semaphore is NULL"});
}

TEST_F(DeviceTable, EndsWhatTheHostGivesBackAndKeepsWhatIsShared) {
  const std::shared_ptr<Queue> shared = Queue::Of(queue)->shared_from_this();
  kTable.semaphore_destroy(std::exchange(semaphore, nullptr));
  kTable.close(std::exchange(device, nullptr));  // the queue has it
  kTable.queue_destroy(std::exchange(queue, nullptr));
  EXPECT_EQ(Asked(), (std::vector<std::string>{"the semaphore was destroyed at 3", "Close", "CloseQueue"}));
  EXPECT_EQ(shared->device().name(), "NPU:0");
}

}  // namespace
}  // namespace tenon::sdk::device_test

const tenon_host* tenon_plugin_host = tenon::testing::Host();
