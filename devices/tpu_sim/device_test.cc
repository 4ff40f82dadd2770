// SPDX-License-Identifier: Apache-2.0
// The driver through its table: memory, queues, timelines, faults, simulated time. Covers E2, H8, R4.
#include <setjmp.h>
#include <signal.h>

#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "tests/device/tested.h"

namespace tenon::device_test::device_test {
namespace {

std::string LoadText(const Settings& settings) {
  tenon_plugin_self* self = nullptr;
  const std::string text = Text(Tested().Load(settings, &self));
  if (self != nullptr) Tested().descriptor()->unload(self);
  return text;
}

TEST(Options, ThatAreUnknownOrOutOfRangeAreRefusedByName) {
  EXPECT_EQ(LoadText({{"row", "4"}}), "INVALID_ARGUMENT: unknown option 'row'");
  EXPECT_EQ(LoadText({{"rows", "0"}}), "INVALID_ARGUMENT: option rows is '0'; it may be a whole number from 1 to 4096");
  EXPECT_EQ(LoadText({{"clock", "fast"}}),
            "INVALID_ARGUMENT: option clock is 'fast'; it may be a number from 1.000000 on");
  EXPECT_EQ(LoadText({{"guard", "perhaps"}}), "INVALID_ARGUMENT: option guard is 'perhaps'; it may be true or false");
  EXPECT_EQ(LoadText({{"precision", "half"}}),
            "INVALID_ARGUMENT: option precision is 'half'; it may be policy, exact or bfloat16");
  EXPECT_EQ(LoadText({{"fail_late", "MatMul"}}),
            "INVALID_ARGUMENT: option fail_late is 'MatMul'; it may be NAME:NUMBER, such as MatMul:2");
}

TEST(Options, StandInTheDescriptorWithDefaultsThatLoad) {
  Settings all;
  for (uint64_t i = 0; i < Tested().descriptor()->option_count; ++i) {
    const tenon_option_declaration& o = Tested().descriptor()->options[i];
    all.emplace_back(std::string(o.key.data, o.key.size), std::string(o.default_value.data, o.default_value.size));
    EXPECT_GT(o.text.size, 0u);
  }
  EXPECT_EQ(all.size(), 23u);
  EXPECT_EQ(LoadText(all), "");
}

TEST(Driver, HasNoDeviceUnlessItIsAskedForOne) {
  const Plugin plugin{{"devices", "0"}};
  tenon_plugin_self* self = nullptr;
  EXPECT_EQ(Text(Tested().Load(Settings(), &self)), "");
  for (tenon_plugin_self* each : {plugin.self, self}) {
    uint32_t count = 9;
    EXPECT_EQ(Text(plugin.driver->count(each, &count)),
              "NOT_FOUND: no simulated device was asked for: set the option tenon.tpu_sim.devices");
    EXPECT_EQ(count, 0u);
  }
  Tested().descriptor()->unload(self);
}

TEST(Devices, AreAsManyAsAskedFor) {
  const Plugin plugin{{"devices", "3"}};
  uint32_t count = 0;
  EXPECT_EQ(Text(plugin.driver->count(plugin.self, &count)), "");
  EXPECT_EQ(count, 3u);
  tenon_device* device = nullptr;
  EXPECT_EQ(Text(plugin.driver->open(plugin.self, 3, &device)),
            "NOT_FOUND: TPU device 3; there are 3 (option devices)");
  EXPECT_EQ(device, nullptr);
}

TEST(Devices, SayWhatTheyAre) {
  const Plugin plugin{{"memory_bytes", "1048576"}, {"rows", "256"}, {"columns", "256"}, {"precision", "bfloat16"},
                       {"cores", "2"}, {"launch_cycles", "1400"}};
  Device device(plugin, 0);
  tenon_device_properties p = {};
  p.struct_size = sizeof p;
  EXPECT_EQ(Text(plugin.driver->properties(device.device, &p)), "");
  EXPECT_EQ(p.synchronous, 0u);
  EXPECT_EQ(p.memory_kind_count, 2u);
  EXPECT_EQ(p.bytes_per_second, 350e9);
  EXPECT_EQ(p.link_bytes_per_second, 16e9);
  EXPECT_EQ(p.peer_bytes_per_second, 62.5e9);
  EXPECT_DOUBLE_EQ(p.copy_seconds, 1e-6);
  EXPECT_DOUBLE_EQ(p.launch_seconds, 2e-6);
  EXPECT_EQ(p.compute_queues, 2u);
  EXPECT_NEAR(p.flops, 91.75e12, 0.01e12);
  tenon_memory_kind kind = {};
  kind.struct_size = sizeof kind;
  EXPECT_EQ(Text(plugin.driver->memory_kind(device.device, 0, &kind)), "");
  EXPECT_EQ(kind.flags, 0u);
  EXPECT_EQ(kind.total_bytes, 1048576u);
  EXPECT_EQ(Text(plugin.driver->memory_kind(device.device, 1, &kind)), "");
  EXPECT_EQ(kind.flags, TENON_MEMORY_HOST_VISIBLE);
  EXPECT_EQ(Text(plugin.driver->memory_kind(device.device, 2, &kind)),
            "NOT_FOUND: memory kind 2; there are 0 (device) and 1 (staging)");
}

// ---- Memory ----

TEST(Memory, OfTheDeviceRunsOutWithOneClearStatus) {
  const Plugin plugin{{"memory_bytes", "65536"}};
  Device device(plugin, 0);
  void* all = device.Memory(65536);
  void* more = &all;
  EXPECT_EQ(Text(plugin.driver->allocate(device.device, 0, 1, 64, nullptr, &more)),
            "RESOURCE_EXHAUSTED: TPU:0 has no 1 bytes of device memory: 65536 of 65536 are in use, the largest free "
            "block has 0");
  EXPECT_EQ(more, nullptr);
  plugin.driver->free(device.device, 0, all, 65536, nullptr);
  EXPECT_EQ(device.Memory(65536), all);
}

TEST(Memory, BlocksThatWereFreedJoinAgain) {
  const Plugin plugin{{"memory_bytes", "65536"}};
  Device device(plugin, 0);
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(device.Memory(1024));
  for (int i : {1, 3, 2, 0}) plugin.driver->free(device.device, 0, blocks[i], 1024, nullptr);
  EXPECT_EQ(device.Memory(4096), blocks[0]);
  for (int i = 63; i >= 4; --i) plugin.driver->free(device.device, 0, blocks[i], 1024, nullptr);
  EXPECT_EQ(device.Memory(60 * 1024), blocks[4]);
}

TEST(Memory, FreedInQueueOrderGoesToTheSameQueueBefore) {
  const Plugin plugin{{"memory_bytes", "65536"}};
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* gate = device.Semaphore();
  void* all = device.Memory(65536);
  EXPECT_EQ(device.Barrier(queue, {{{gate, 1}}}), "");
  plugin.driver->free(device.device, 0, all, 65536, queue);  // stands behind the gate
  void* other = nullptr;
  EXPECT_NE(Text(plugin.driver->allocate(device.device, 0, 4096, 64, nullptr, &other)), "");
  void* same = nullptr;
  EXPECT_EQ(Text(plugin.driver->allocate(device.device, 0, 65536, 64, queue, &same)), "");
  EXPECT_EQ(same, all);
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(device.Finish(queue), "");
  EXPECT_NE(Text(plugin.driver->allocate(device.device, 0, 4096, 64, nullptr, &other)), "");  // it is in use again
}

sigjmp_buf fault_jump;

// Whether reading the byte faults.
bool Faults(const void* data) {
  struct sigaction action = {}, before_segv = {}, before_bus = {};
  action.sa_handler = [](int) { siglongjmp(fault_jump, 1); };
  sigaction(SIGSEGV, &action, &before_segv);
  sigaction(SIGBUS, &action, &before_bus);
  volatile bool faulted = true;  // keeps its place across the jump
  if (sigsetjmp(fault_jump, 1) == 0) {
    (void)*static_cast<const volatile char*>(data);
    faulted = false;
  }
  sigaction(SIGSEGV, &before_segv, nullptr);
  sigaction(SIGBUS, &before_bus, nullptr);
  return faulted;
}

TEST(Memory, OfTheDeviceFaultsUnderTheHostWhereItIsGuarded) {
  const Plugin plugin{{"guard", "true"}};
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  void* data = device.Memory(4096);
  EXPECT_TRUE(Faults(data));
  EXPECT_EQ(device.Fill(queue, data, 4096, 7), "");
  EXPECT_EQ(device.Download<uint8_t>(queue, data, 4096), std::vector<uint8_t>(4096, 7));
  EXPECT_TRUE(Faults(data));
  EXPECT_FALSE(Faults(device.Memory(16, 1)));  // staging
}

TEST(Memory, OfTheDeviceDoesNotFaultWithoutTheGuard) {
  const Plugin plugin{{"guard", "false"}};
  Device device(plugin, 0);
  EXPECT_FALSE(Faults(device.Memory(4096)));
}

TEST(Memory, OfStagingIsMappedAndThatOfTheDeviceIsNot) {
  const Plugin plugin{{"staging_bytes", "4096"}};
  Device device(plugin, 0);
  void* staging = device.Memory(100, 1);
  void* address = nullptr;
  EXPECT_EQ(Text(plugin.driver->map(device.device, 1, staging, 100, &address)), "");
  EXPECT_EQ(address, staging);
  EXPECT_EQ(Text(plugin.driver->map(device.device, 0, device.Memory(100), 100, &address)),
            "UNIMPLEMENTED: TPU:0: the host cannot map device memory; copy it");
  EXPECT_EQ(Text(plugin.driver->allocate(device.device, 1, 8192, 64, nullptr, &address)),
            "RESOURCE_EXHAUSTED: TPU:0 has no 8192 bytes of staging memory: 256 of 4096 are in use");
}

// ---- Queues ----

TEST(Queue, RefusesAddressesThatAreNotWhereTheySay) {
  const Plugin plugin{{"devices", "2"}};
  Device device(plugin, 0), other(plugin, 1);
  tenon_queue* queue = device.Queue();
  char* data = static_cast<char*>(device.Memory(256));
  char host[512];
  EXPECT_EQ(device.CopyWithin(queue, host, data, 4),
            "INVALID_ARGUMENT: TPU:0: the source of a copy of 4 bytes is not in a living block of its memory");
  EXPECT_EQ(device.CopyWithin(queue, data, data + 200, 57),
            "INVALID_ARGUMENT: TPU:0: the target of a copy of 57 bytes is not in a living block of its memory");
  EXPECT_EQ(device.Copy(queue, data, other.device, data, device.device, 4),
            "INVALID_ARGUMENT: TPU:1: the source of a copy of 4 bytes is not in a living block of its memory");
  EXPECT_EQ(device.Copy(queue, data, nullptr, host, nullptr, 4),
            "INVALID_ARGUMENT: TPU:0: the source of a copy is said to be host memory and is memory of TPU:0");
  EXPECT_EQ(device.Copy(queue, nullptr, nullptr, data, device.device, 4),
            "INVALID_ARGUMENT: TPU:0: the source of a copy is NULL");
  EXPECT_EQ(device.Copy(queue, nullptr, nullptr, data, device.device, 0), "");  // nothing is nowhere
  plugin.driver->free(device.device, 0, data, 256, nullptr);
  EXPECT_NE(device.Fill(queue, data, 4, 0), "");
  EXPECT_EQ(device.Finish(queue), "");
}

TEST(Queue, ThatIsDestroyedCancelsAllThatHasNotBegun) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* never = device.Semaphore();
  tenon_semaphore* blocked = device.Semaphore();
  tenon_semaphore* behind = device.Semaphore();
  std::string told;
  EXPECT_EQ(device.Barrier(queue, {{{never, 1}}, blocked, 1}), "");
  EXPECT_EQ(device.Fill(queue, device.Memory(8), 8, 1, {{}, behind, 1, "w/zero"}), "");
  EXPECT_EQ(device.HostCall(queue, &told), "");
  device.Destroy(queue);
  EXPECT_EQ(device.Wait(blocked, 1), "CANCELLED: queue 0 of TPU:0 was destroyed before barrier began");
  EXPECT_EQ(device.Wait(behind, 1), "CANCELLED: queue 0 of TPU:0 was destroyed before fill 'w/zero' began");
  EXPECT_EQ(told, "CANCELLED: queue 0 of TPU:0 was destroyed before host call began");
  const auto profile = device.Profile();
  ASSERT_EQ(profile.size(), 1u);
  EXPECT_EQ(profile[0].code, TENON_CANCELLED);
  EXPECT_EQ(profile[0].begin_tick, profile[0].end_tick);
}

// ---- Semaphores ----

constexpr char kAborted[] = "ABORTED: the step was aborted";

tenon_status* Aborted() { return Host()->status_new(TENON_ABORTED, Span("the step was aborted")); }

TEST(Semaphore, ThatTheHostFailsLetsGoWhatWaits) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* waiting = device.Queue();
  tenon_queue* own = device.Queue();
  tenon_semaphore* gate = device.Semaphore();
  tenon_semaphore* never = device.Semaphore();
  tenon_semaphore* s = device.Semaphore();
  void* data = device.Memory(8);
  device.Upload<uint8_t>(own, std::vector<uint8_t>(8, 5), data);
  EXPECT_EQ(device.Fill(waiting, data, 8, 1, {{{gate, 1}}, s, 1}), "");  // waits for what fails
  EXPECT_EQ(device.Fill(own, data, 8, 2, {{{never, 1}}, gate, 1}), "");  // belongs to what fails, and waits for another
  plugin.driver->semaphore_fail(gate, Aborted());
  EXPECT_EQ(device.Wait(s, 1), kAborted);
  EXPECT_EQ(device.Finish(waiting), "");
  EXPECT_EQ(device.Finish(own), "");
  EXPECT_EQ(device.Download<uint8_t>(own, data, 8), std::vector<uint8_t>(8, 5));
}

// What a notification told.
struct Told {
  std::vector<std::string> texts = {};
  std::promise<void> done = {};
  static void Take(void* argument, tenon_status* status) {
    auto& told = *static_cast<Told*>(argument);
    told.texts.push_back(Text(status));
    told.done.set_value();
  }
};

// ---- Faults ----

TEST(Faults, OutOfMemoryComesAfterSoManyAllocationsOnThatDeviceOnly) {
  const Plugin plugin{{"devices", "2"}, {"fault_device", "1"}, {"fail_allocation_after", "2"}};
  Device one(plugin, 0), two(plugin, 1);
  two.Memory(8);
  two.Memory(8, 1);
  void* data = nullptr;
  EXPECT_EQ(Text(plugin.driver->allocate(two.device, 0, 8, 64, nullptr, &data)),
            "RESOURCE_EXHAUSTED: TPU:1 has no 8 bytes of device memory (option fail_allocation_after=2)");
  for (int i = 0; i < 5; ++i) one.Memory(8);
}

constexpr char kLateCopy[] = "INTERNAL: copy 'second' failed on TPU:0 (option fail_late=copy:2)";

TEST(Faults, LateFailureFailsItsTimelineAndWhatWaitsForIt) {
  const Plugin plugin{{"fail_late", "copy:2"}, {"devices", "2"}};
  Device device(plugin, 0), other(plugin, 1);
  tenon_queue* queue = device.Queue();
  tenon_queue* dependent = device.Queue();
  tenon_queue* elsewhere = other.Queue();
  tenon_semaphore* s = device.Semaphore();
  tenon_semaphore* d = device.Semaphore();
  tenon_semaphore* t = other.Semaphore();
  tenon_semaphore* innocent = device.Semaphore();
  char* data = static_cast<char*>(device.Memory(64));
  std::string told, told_of_none;
  EXPECT_EQ(device.Fill(queue, data, 64, 1), "");
  EXPECT_EQ(device.CopyWithin(queue, data, data + 8, 8, {{}, s, 1, "first"}), "");
  EXPECT_EQ(device.CopyWithin(queue, data, data + 8, 8, {{}, s, 0, "second"}), "");  // fails
  EXPECT_EQ(device.Fill(queue, data, 64, 2, {{}, s, 2, "third"}), "");               // is not run
  EXPECT_EQ(device.Fill(queue, data + 32, 8, 3, {{}, innocent, 1}), "");             // another timeline
  EXPECT_EQ(device.HostCall(queue, &told, {{}, s, 3}), "");
  EXPECT_EQ(device.HostCall(queue, &told_of_none), "");
  EXPECT_EQ(device.Barrier(dependent, {{{s, 2}}, d, 4}), "");
  EXPECT_EQ(other.Barrier(elsewhere, {{{d, 4}}, t, 1}), "");
  EXPECT_EQ(device.Wait(s, 1), "");
  EXPECT_EQ(device.Wait(s, 2), kLateCopy);
  EXPECT_EQ(device.Wait(s, 2), kLateCopy);  // as often as one asks
  EXPECT_EQ(device.Wait(s, 3), kLateCopy);
  EXPECT_EQ(device.Wait(d, 4), kLateCopy);
  EXPECT_EQ(other.Wait(t, 1), kLateCopy);  // across two queues and a device
  EXPECT_EQ(device.Wait(innocent, 1), "");
  uint64_t value = 9;
  EXPECT_EQ(Text(plugin.driver->semaphore_query(s, &value)), kLateCopy);
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(device.Finish(queue), "");
  EXPECT_EQ(told, kLateCopy);
  EXPECT_EQ(told_of_none, "");
  std::vector<uint8_t> expected(64, 1);
  std::fill_n(expected.begin() + 32, 8, 3);
  EXPECT_EQ(device.Download<uint8_t>(queue, data, 64), expected);
}

TEST(Faults, LateFailureIsOfANodeWhereItsLabelIsNamed) {
  const Plugin plugin{{"fail_late", "layer/w:1"}};
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* s = device.Semaphore();
  void* data = device.Memory(8);
  EXPECT_EQ(device.Fill(queue, data, 8, 1, {{}, s, 1, "layer/b"}), "");
  EXPECT_EQ(device.Fill(queue, data, 8, 1, {{}, s, 2, "layer/w"}), "");
  EXPECT_EQ(device.Wait(s, 1), "");
  EXPECT_EQ(device.Wait(s, 2), "INTERNAL: fill 'layer/w' failed on TPU:0 (option fail_late=layer/w:1)");
}

constexpr char kLost[] = "UNAVAILABLE: TPU:0 is lost (option lose_device_after=2)";

TEST(Faults, LostDeviceFailsEverythingAndLeavesTheOtherAlone) {
  const Plugin plugin{{"devices", "2"}, {"lose_device_after", "2"}};
  Device device(plugin, 0), other(plugin, 1);
  tenon_queue* queue = device.Queue();
  tenon_queue* second = device.Queue();
  tenon_queue* elsewhere = other.Queue();
  tenon_semaphore* s = device.Semaphore();
  tenon_semaphore* t = other.Semaphore();
  tenon_semaphore* u = other.Semaphore();
  tenon_semaphore* never = device.Semaphore();
  Told told;
  std::string called;
  void* data = device.Memory(8);
  void* there = other.Memory(8);
  EXPECT_EQ(device.Barrier(second, {{{never, 1}}, t, 9}), "");
  EXPECT_EQ(Text(plugin.driver->semaphore_notify(never, 1, Told::Take, &told)), "");
  EXPECT_EQ(device.HostCall(second, &called), "");
  EXPECT_EQ(device.Fill(queue, data, 8, 1), "");
  EXPECT_EQ(device.Fill(queue, data, 8, 2, {{}, s, 1}), "");
  EXPECT_EQ(device.Wait(s, 1), "");
  EXPECT_EQ(device.Fill(queue, data, 8, 3, {{}, u, 1}), "");
  EXPECT_EQ(other.Wait(u, 1), kLost);  // the other device's timeline, which this one was to move
  EXPECT_EQ(other.Wait(t, 9), kLost);  // what waited is let go
  EXPECT_EQ(device.Wait(s, 2), kLost);
  EXPECT_EQ(device.Wait(s, 1), kLost);
  told.done.get_future().wait();
  EXPECT_EQ(told.texts, std::vector<std::string>{kLost});
  uint64_t value = 0;
  EXPECT_EQ(Text(plugin.driver->semaphore_query(s, &value)), kLost);
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(never, 1)), kLost);
  EXPECT_EQ(device.Fill(queue, data, 8, 1), kLost);
  EXPECT_EQ(device.Barrier(second, {}), kLost);
  void* more = nullptr;
  EXPECT_EQ(Text(plugin.driver->allocate(device.device, 0, 8, 64, nullptr, &more)), kLost);
  tenon_queue* none = nullptr;
  EXPECT_EQ(Text(plugin.driver->queue_create(device.device, 0, &none)), kLost);
  tenon_semaphore* no_semaphore = nullptr;
  EXPECT_EQ(Text(plugin.driver->semaphore_create(device.device, 0, &no_semaphore)), kLost);
  // A queue still says when it has got past what it had.
  std::string past;
  EXPECT_EQ(device.HostCall(second, &past), "");
  device.Destroy(second);
  EXPECT_EQ(called, kLost);
  EXPECT_EQ(past, kLost);
  // The other one works, but not with memory that is gone.
  tenon_semaphore* v = other.Semaphore();
  EXPECT_EQ(other.Fill(elsewhere, there, 8, 1), "");
  EXPECT_EQ(other.Finish(elsewhere), "");
  EXPECT_EQ(other.Copy(elsewhere, data, device.device, there, other.device, 8, {{}, v, 1}), "");
  EXPECT_EQ(other.Wait(v, 1), "UNAVAILABLE: copy on TPU:1: TPU:0 is lost (option lose_device_after=2)");
  EXPECT_EQ(other.Download<uint8_t>(elsewhere, there, 8), std::vector<uint8_t>(8, 1));
}

TEST(Faults, DelayedCompletionsAreStallsOfSimulatedTime) {
  const Plugin plugin{{"delay_completion_us", "100"}, {"clock", "1e9"}};
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  EXPECT_EQ(device.Fill(queue, device.Memory(8), 8, 1), "");
  EXPECT_EQ(device.Finish(queue), "");
  const auto profile = device.Profile();
  ASSERT_EQ(profile.size(), 1u);
  EXPECT_STREQ(profile[0].detail, "load 1, stall 100000");
}

std::vector<uint64_t> Durations(const char* seed) {
  const Plugin plugin{{"delay_completion_us", "50"}, {"seed", seed}};
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  void* data = device.Memory(8);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(device.Fill(queue, data, 8, 1), "");
  EXPECT_EQ(device.Finish(queue), "");
  std::vector<uint64_t> durations;
  for (const tenon_profile_span& span : device.Profile()) durations.push_back(span.end_tick - span.begin_tick);
  return durations;
}

TEST(Faults, RandomDelaysRepeatWithTheirSeed) {
  EXPECT_EQ(Durations("7"), Durations("7"));
  EXPECT_NE(Durations("7"), Durations("8"));
}

TEST(Faults, ADelayEndsWhenTheQueueIsDestroyed) {
  const Plugin plugin{{"delay_completion_us", "60000000"}};  // a minute, which no test waits for
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* s = device.Semaphore();
  tenon_semaphore* begun = device.Semaphore();
  void* data = device.Memory(8);
  EXPECT_EQ(device.Barrier(queue, {{}, begun, 1}), "");
  EXPECT_EQ(device.Fill(queue, data, 8, 1, {{}, s, 1}), "");
  EXPECT_EQ(device.Wait(begun, 1), "");
  EXPECT_EQ(device.Wait(s, 1, 0), "DEADLINE_EXCEEDED: a semaphore was to reach 1 and is at 0");
  device.Destroy(queue);
  const std::string ended = device.Wait(s, 1);  // it had begun, or had not
  EXPECT_TRUE(ended == "" || ended == "CANCELLED: queue 0 of TPU:0 was destroyed before fill began") << ended;
}

// ---- Simulated time ----

TEST(SimulatedTime, OfCopiesIsTheModels) {
  const Plugin plugin{{"clock", "1e9"},
                      {"bandwidth", "100e9"},
                      {"host_bandwidth", "10e9"},
                      {"interconnect_bandwidth", "50e9"},
                      {"devices", "2"}};
  Device device(plugin, 0), other(plugin, 1);
  tenon_queue* queue = device.Queue();
  char* data = static_cast<char*>(device.Memory(20000));
  std::vector<char> host(10000);
  EXPECT_EQ(device.Fill(queue, data, 10000, 1), "");                                         // 100 bytes a cycle
  EXPECT_EQ(device.CopyWithin(queue, data, data + 10000, 10000), "");                        // read and written
  EXPECT_EQ(device.Copy(queue, data, device.device, host.data(), nullptr, 10000), "");  // 10 bytes a cycle after 700
  EXPECT_EQ(device.Copy(queue, data, device.device, other.Memory(10000), other.device, 10000, {{}, nullptr, 0, "edge"}),
            "");  // 50
  EXPECT_EQ(device.Finish(queue), "");
  const auto profile = device.Profile();
  ASSERT_EQ(profile.size(), 4u);
  const char* expected[] = {"load 100", "load 200", "load 1700", "load 900"};
  uint64_t at = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(profile[i].begin_tick, at);
    EXPECT_STREQ(profile[i].detail, expected[i]);
    EXPECT_EQ(profile[i].number, i);
    EXPECT_GE(profile[i].end_ns, profile[i].begin_ns);
    at = profile[i].end_tick;
  }
  EXPECT_EQ(at, 2900u);
  EXPECT_STREQ(profile[0].name, "fill");
  EXPECT_STREQ(profile[0].kind, "fill");
  EXPECT_STREQ(profile[3].name, "edge");
  EXPECT_STREQ(profile[3].kind, "copy");
  EXPECT_EQ(device.profile->ticks_per_second(device.device), 1e9);
}

TEST(SimulatedTime, OverlapsQueuesThatUseDifferentUnitsAndNamesWhatTheyWaitFor) {
  const Plugin plugin{{"clock", "1e9"}, {"bandwidth", "100e9"}, {"host_bandwidth", "10e9"}};
  Device device(plugin, 0);
  tenon_queue* copies = device.Queue();
  tenon_queue* fills = device.Queue();
  tenon_semaphore* s = device.Semaphore();
  char* data = static_cast<char*>(device.Memory(20000));
  std::vector<char> host(10000);
  EXPECT_EQ(device.Fill(fills, data, 10000, 1, {{}, s, 1}), "");
  EXPECT_EQ(device.Fill(fills, data + 10000, 10000, 1, {{}, s, 2}), "");  // while the copy runs
  EXPECT_EQ(device.Barrier(copies, {{{s, 1}}}), "");                      // what it waited for is told with the copy
  EXPECT_EQ(device.Copy(copies, data, device.device, host.data(), nullptr, 10000), "");
  EXPECT_EQ(device.Finish(fills), "");
  EXPECT_EQ(device.Finish(copies), "");
  bool seen = false;
  for (const tenon_profile_span& span : device.Profile()) {
    if (span.queue == 1) continue;
    seen = true;
    EXPECT_EQ(span.begin_tick, 100u);
    EXPECT_EQ(span.end_tick, 1800u);
    EXPECT_EQ(span.waited_ticks, 100u);
    EXPECT_STREQ(span.waited_for, "queue 1 of TPU:0");
  }
  EXPECT_TRUE(seen);
}

TEST(SimulatedTime, OfOneUnitIsSharedByItsQueues) {
  const Plugin plugin{{"clock", "1e9"}, {"bandwidth", "100e9"}};
  Device device(plugin, 0);
  tenon_queue* first = device.Queue();
  tenon_queue* second = device.Queue();
  char* data = static_cast<char*>(device.Memory(20000));
  EXPECT_EQ(device.Fill(first, data, 10000, 1), "");
  EXPECT_EQ(device.Fill(second, data + 10000, 10000, 1), "");
  EXPECT_EQ(device.Finish(first), "");
  EXPECT_EQ(device.Finish(second), "");
  const auto profile = device.Profile();
  ASSERT_EQ(profile.size(), 2u);
  EXPECT_EQ(profile[1].begin_tick, 100u);
  EXPECT_STREQ(profile[1].waited_for, "the memory channel");
}

TEST(SimulatedTime, GivesAUnitToWhatArrivesFirstByItAndNotToTheFirstThread) {
  const Plugin plugin{{"clock", "1e9"}, {"bandwidth", "100e9"}, {"host_bandwidth", "10e9"}};
  Device device(plugin, 0);
  tenon_queue* first = device.Queue();
  tenon_queue* second = device.Queue();
  char* data = static_cast<char*>(device.Memory(20000));
  std::vector<char> host(10000);
  // All of the first queue's work is done before the second has any, though its fill comes 1700 cycles later.
  std::promise<void> done;
  EXPECT_EQ(device.Copy(first, host.data(), nullptr, data, device.device, 10000), "");
  EXPECT_EQ(device.Fill(first, data, 10000, 1), "");
  const tenon_submission submission = {TENON_HEAD(tenon_submission), nullptr, 0, nullptr, 0, Span("done")};
  const auto tell = [](void* argument, tenon_status*) { static_cast<std::promise<void>*>(argument)->set_value(); };
  EXPECT_EQ(Text(plugin.driver->queue_host_call(first, tell, &done, &submission)), "");
  done.get_future().wait();
  EXPECT_EQ(device.Fill(second, data + 10000, 10000, 1), "");
  EXPECT_EQ(device.Finish(second), "");
  std::map<std::string, uint64_t> begins;
  for (const tenon_profile_span& span : device.Profile())
    begins[span.name + std::to_string(span.queue)] = span.begin_tick;
  EXPECT_EQ(begins, (std::map<std::string, uint64_t>{{"copy0", 0}, {"fill0", 1700}, {"fill1", 0}}));
}

TEST(SimulatedTime, OfWhatTheHostSubmitsIsNotBeforeWhatItHasWaitedFor) {
  const Plugin plugin{{"clock", "1e9"}, {"bandwidth", "100e9"}, {"devices", "2"}};
  Device device(plugin, 0), other(plugin, 1);
  tenon_queue* first = device.Queue();
  tenon_queue* second = other.Queue();
  EXPECT_EQ(device.Fill(first, device.Memory(10000), 10000, 1), "");
  EXPECT_EQ(device.Finish(first), "");
  EXPECT_EQ(other.Fill(second, other.Memory(10000), 10000, 1), "");
  EXPECT_EQ(other.Finish(second), "");
  EXPECT_EQ(other.Profile()[0].begin_tick, 100u);
  EXPECT_STREQ(other.Profile()[0].waited_for, "the host");
}

TEST(SimulatedTime, PacesRealTimeWhereAsked) {
  const Plugin plugin{{"clock", "1e6"}, {"bandwidth", "1e6"}, {"pace", "1"}};
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  void* data = device.Memory(2000);
  EXPECT_EQ(device.Fill(queue, data, 2000, 1), "");  // 2000 cycles of a microsecond
  EXPECT_EQ(device.Finish(queue), "");
  const auto profile = device.Profile();
  // At least: how much longer it takes is the machine's affair.
  EXPECT_GE(profile[0].end_ns - profile[0].begin_ns, 2000000u);
}

TEST(Profile, KeepsTheLatestSpansAndReadsInPieces) {
  const Plugin plugin{{"log_spans", "4"}};
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  void* data = device.Memory(8);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(device.Fill(queue, data, 8, 1), "");
  EXPECT_EQ(device.Finish(queue), "");
  tenon_profile_span spans[3];
  uint64_t count = 9, next = 0;
  device.profile->read(device.device, 0, nullptr, 0, &count, &next);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(next, 10u);
  device.profile->read(device.device, 0, spans, 3, &count, &next);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(spans[0].number, 6u);
  device.profile->read(device.device, next, spans, 3, &count, &next);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(spans[0].number, 9u);
  device.profile->read(device.device, next, spans, 3, &count, &next);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(plugin.driver->get_extension(device.device, Span("tenon.profile/2")), nullptr);
}

}  // namespace
}  // namespace tenon::device_test::device_test
