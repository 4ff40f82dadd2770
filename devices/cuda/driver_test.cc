// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.cuda against the rules of a real driver, as far as the emulated one has learnt them
// (emulation/driver.cc): what waits for an idle GPU, channels that streams share, pools, errors after which a GPU is
// lost, code for GPUs that are newer than the plugin.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <thread>

#include "emulation/driver_controls.h"
#include "tenon/ext/draft/capture.h"
#include "tests/device/tested.h"

namespace tenon::device_test {

const Settings kBenchSettings = {{"devices", "1"}, {"cache", "off"}};

namespace {

EmulatedDriverControls& Controls() {
  static EmulatedDriverControls* const controls = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* const get = driver == nullptr
                          ? nullptr
                          : reinterpret_cast<EmulatedDriverControls* (*)()>(dlsym(driver, "tenon_emulated_driver"));
    if (get == nullptr) {
      ADD_FAILURE() << "libcuda.so.1 is not the emulated driver: its folder belongs on LD_LIBRARY_PATH";
      std::abort();  // NOLINT: nothing can be tested
    }
    return get();
  }();
  return *controls;
}

// Whether `call` ends; one that does not ends with the process.
template <class Call>
bool Ends(Call call) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  std::thread([call = std::move(call), done]() mutable {
    call();
    done->store(true);
  }).detach();
  for (int turn = 0; turn < 120'000 && !done->load(); ++turn) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return done->load();
}
#define EXPECT_ENDS(...)                                                        \
  if (!Ends([&] { __VA_ARGS__; })) {                                            \
    ADD_FAILURE() << "this waits for ever: " #__VA_ARGS__;                      \
    std::_Exit(1); /* what waits holds locks, and the test's own variables */ \
  }

// ---- Waiting for an idle GPU ----

// A queue waits for a point that is signalled below; nothing before that may wait until the GPU is idle.
TEST(CudaDriver, PinnedMemoryGoesBackWhileAQueueWaits) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* const blocked = device.Queue();
  tenon_queue* const queue = device.Queue();
  tenon_semaphore* const gate = device.Semaphore();
  tenon_semaphore* const later = device.Semaphore();
  void* const pinned = device.Memory(1 << 20, 1);
  void* const data = device.Memory(1 << 20);
  EXPECT_EQ(device.Barrier(blocked, {{{gate, 1}}}), "");
  const uint64_t before = Controls().waits_for_idle;
  // Freed by the thread that also calls back what waits.
  plugin.driver->free(device.device, 1, pinned, 1 << 20, queue);
  EXPECT_EQ(device.Fill(queue, data, 256, 1, {{}, later, 1}), "");
  std::string called;
  EXPECT_EQ(device.HostCall(queue, &called, {{}, later, 2}), "");
  EXPECT_ENDS(EXPECT_EQ(device.Wait(later, 2), ""));
  EXPECT_EQ(Controls().waits_for_idle, before);
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(device.Finish(blocked), "");
}

TEST(CudaDriver, PageableMemoryIsCopiedWhileAQueueWaits) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* const blocked = device.Queue();
  tenon_queue* const queue = device.Queue();
  tenon_semaphore* const gate = device.Semaphore();
  tenon_semaphore* const done = device.Semaphore();
  std::vector<char> host(5 << 20, 7), back(host.size());
  char* const data = static_cast<char*>(device.Memory(host.size()));
  EXPECT_EQ(device.Barrier(blocked, {{{gate, 1}}}), "");
  EXPECT_ENDS(EXPECT_EQ(device.Copy(queue, host.data(), nullptr, data, device.device, host.size()), "");
              EXPECT_EQ(device.Copy(queue, data, device.device, back.data(), nullptr, host.size(), {{}, done, 1}), "");
              EXPECT_EQ(device.Wait(done, 1), ""));
  EXPECT_EQ(back, host);
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(device.Finish(blocked), "");
}

// The host fills a buffer while the GPU copies another, and empties one while it fills another.
TEST(CudaDriver, PageableMemoryIsCopiedByHostAndGpuAtOnce) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* const queue = device.Queue();
  tenon_semaphore* const done = device.Semaphore();
  std::vector<char> host(7 << 20), back(host.size());
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<char>(i * 7 + (i >> 12));
  char* const data = static_cast<char*>(device.Memory(host.size()));
  const auto reaches = [](uint64_t calls) {
    for (int turn = 0; turn < 60'000 && Controls().host_calls < calls; ++turn)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Controls().host_calls >= calls;
  };
  const uint64_t before = Controls().host_calls;
  Controls().holds_copies = true;
  EXPECT_EQ(device.Copy(queue, host.data(), nullptr, data, device.device, host.size()), "");
  EXPECT_TRUE(reaches(before + 2)) << "there is one buffer, or host and GPU take turns";
  Controls().holds_copies = false;
  EXPECT_EQ(device.Copy(queue, data, device.device, back.data(), nullptr, host.size(), {{}, done, 1}), "");
  EXPECT_EQ(device.Wait(done, 1), "");
  EXPECT_EQ(back, host);
  // Of all sizes about the buffers', mixed, in the order of the queue.
  uint64_t point = 1;
  for (const size_t size : {size_t{1}, size_t{65536}, size_t{65537}, size_t{1} << 20, (size_t{1} << 20) + 1,
                            size_t{4} << 20, (size_t{6} << 20) + 5}) {
    for (size_t i = 0; i < size; ++i) host[i] = static_cast<char>(host[i] + 1);
    std::fill(back.begin(), back.end(), 0);
    EXPECT_EQ(device.Copy(queue, host.data(), nullptr, data, device.device, size), "");
    EXPECT_EQ(device.Copy(queue, data, device.device, back.data(), nullptr, size), "");
    EXPECT_EQ(device.Copy(queue, back.data(), nullptr, data, device.device, size), "") << "what was made just now";
    EXPECT_EQ(device.Copy(queue, data, device.device, back.data(), nullptr, size, {{}, done, ++point}), "");
    EXPECT_EQ(device.Wait(done, point), "");
    EXPECT_TRUE(std::equal(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(size), back.begin())) << size;
  }
}

// As many timelines as there are records, and more, have others' memory; those that are given back serve again.
TEST(CudaDriver, PinnedMemoryThatWasFreedServesAgain) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* const queue = device.Queue();
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> all;
    for (uint64_t bytes : {1u, 300u, 5000u, 70'000u, 1u << 20, 3u << 20}) {
      for (int i = 0; i < 8; ++i) {
        all.push_back(device.Memory(bytes, 1));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back()) % 256, 0u);
        std::memset(all.back(), round, bytes);
      }
    }
    const uint64_t before = Controls().waits_for_idle;
    for (void* each : all) plugin.driver->free(device.device, 1, each, 0, nullptr);
    EXPECT_EQ(device.Finish(queue), "");
    void* const again = device.Memory(3u << 20, 1);
    EXPECT_EQ(Controls().waits_for_idle, before);
    plugin.driver->free(device.device, 1, again, 0, queue);
    EXPECT_EQ(device.Finish(queue), "");
  }
}

// ---- Channels ----

// As many queues as a large session has: each but the last waits for what the last one does.
TEST(CudaDriver, QueuesThatWaitHoldUpNoOther) {
  const Plugin plugin;
  Device device(plugin, 0);
  EXPECT_GE(Controls().channels, 32);
  tenon_semaphore* const gate = device.Semaphore();
  std::vector<tenon_queue*> queues;
  for (int i = 0; i < 20; ++i) queues.push_back(device.Queue());
  tenon_queue* const last = device.Queue();
  for (tenon_queue* queue : queues) EXPECT_EQ(device.Barrier(queue, {{{gate, 1}}}), "");
  void* const data = device.Memory(256);
  EXPECT_EQ(device.Fill(last, data, 256, 1, {{}, gate, 1}), "");
  EXPECT_ENDS(EXPECT_EQ(device.Wait(gate, 1), "");
              for (tenon_queue* queue : queues) EXPECT_EQ(device.Finish(queue), ""));
}

// ---- Captures ----

// A thread that captures may not wait: one that has given its capture up may.
TEST(CudaDriver, CapturesThatAreGivenUpEnd) {
  const Plugin plugin;
  Device device(plugin, 0);
  const auto* capture = static_cast<const tenon_graph_capture*>(
      plugin.driver->get_extension(device.device, Span(TENON_EXTENSION_GRAPH_CAPTURE)));
  ASSERT_NE(capture, nullptr);
  tenon_queue* const queue = device.Queue();
  void* const data = device.Memory(256);
  for (int i = 0; i < 3; ++i) {
    tenon_queue* kept = nullptr;
    ASSERT_EQ(Text(capture->begin(queue, &kept)), "");
    EXPECT_EQ(device.Fill(kept, data, 256, 1), "");
    plugin.driver->queue_destroy(kept);
    EXPECT_EQ(device.Finish(device.Queue()), "");
    EXPECT_NE(device.Memory(5 << 20, 1), nullptr);
  }
}

// ---- A lost GPU ----

TEST(CudaDriver, ErrorsThatStayLoseTheGpu) {
  for (const CUresult error : {CUDA_ERROR_CONTAINED, CUDA_ERROR_TENSOR_MEMORY_LEAK, CUDA_ERROR_MPS_CLIENT_TERMINATED,
                               CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_UNKNOWN}) {
    const Plugin plugin;
    Device device(plugin, 0);
    tenon_queue* const queue = device.Queue();
    void* const data = device.Memory(8);
    EXPECT_EQ(device.Fill(queue, data, 8, 1), "");
    EXPECT_EQ(device.Finish(queue), "");
    Controls().lost_as = error;
    Controls().is_lost = true;
    const std::string lost = device.Fill(queue, data, 8, 2);
    EXPECT_TRUE(lost.starts_with("UNAVAILABLE: GPU:0 (Emulated NVIDIA GPU) is lost: ")) << error << ": " << lost;
    EXPECT_EQ(device.Barrier(queue, {}), lost);
    Controls().is_lost = false;
    // For good: the driver's next answers do not matter.
    EXPECT_EQ(device.Fill(queue, data, 8, 3), lost);
  }
  Controls().lost_as = CUDA_ERROR_ILLEGAL_ADDRESS;
}

// ---- Memory ----

// What was freed in a queue's order is free when the queue gets there, and in pieces that are too small until the pool
// is trimmed.
TEST(CudaDriver, MemoryThatIsFreedJustNowIsThereForTheNext) {
  Controls().memory_bytes = 64 << 20;
  {
    const Plugin plugin;
    Device device(plugin, 0);
    tenon_queue* const queue = device.Queue();
    std::vector<void*> pieces;
    for (int i = 0; i < 6; ++i) pieces.push_back(device.Memory(8 << 20));
    const uint64_t trims = Controls().trims;
    for (void* piece : pieces) {
      EXPECT_EQ(device.Fill(queue, piece, 256, 1), "");
      plugin.driver->free(device.device, 0, piece, 8 << 20, queue);
    }
    void* const whole = device.Memory(40 << 20);
    EXPECT_NE(whole, nullptr);
    EXPECT_GT(Controls().trims, trims);
    // What is not there stays refused.
    void* more = nullptr;
    const std::string text = Text(plugin.driver->allocate(device.device, 0, 40 << 20, 64, nullptr, &more));
    EXPECT_TRUE(text.starts_with(
        "RESOURCE_EXHAUSTED: GPU:0 has no 41943040 bytes of device memory: 41943040 of 67108864 are in use"))
        << text;
    plugin.driver->free(device.device, 0, whole, 40 << 20, nullptr);
  }
  Controls().memory_bytes = uint64_t{4} << 30;
}

// A queue that waits for what this thread does next keeps nobody for ever.
TEST(CudaDriver, MemoryIsRefusedWhileAQueueWaits) {
  Controls().memory_bytes = 16 << 20;
  {
    const Plugin plugin;
    Device device(plugin, 0);
    tenon_queue* const queue = device.Queue();
    tenon_semaphore* const gate = device.Semaphore();
    void* const all = device.Memory(12 << 20);
    EXPECT_EQ(device.Barrier(queue, {{{gate, 1}}}), "");
    plugin.driver->free(device.device, 0, all, 12 << 20, queue);
    EXPECT_ENDS(void* more = nullptr;
                EXPECT_TRUE(Text(plugin.driver->allocate(device.device, 0, 12 << 20, 64, nullptr, &more))
                                .starts_with("RESOURCE_EXHAUSTED: ")));
    EXPECT_EQ(Text(plugin.driver->semaphore_signal(gate, 1)), "");
    EXPECT_EQ(device.Finish(queue), "");
    EXPECT_NE(device.Memory(12 << 20), nullptr);
  }
  Controls().memory_bytes = uint64_t{4} << 30;
}

// ---- Code ----

// All kernels are there before a queue may wait for anything: loading one may wait until the GPU is idle.
TEST(CudaDriver, KernelsAreLoadedBeforeAQueueWaits) {
  Bench bench;
  tenon_semaphore* const gate = bench.device.Semaphore();
  tenon_queue* const blocked = bench.device.Queue();
  EXPECT_EQ(bench.device.Barrier(blocked, {{{gate, 1}}}), "");
  std::vector<Tensor> out;
  const DeviceCase given = {"FloorDiv", {}, {Ints({4, 6, 9}), Ints({2, 2, 3})}, {{TENON_DT_INT32, {3}}}};
  EXPECT_ENDS(EXPECT_EQ(bench.OnDevice(given, &out), ""));
  EXPECT_EQ(Values<int32_t>(out[0]), (std::vector<int32_t>{2, 3, 3}));
  EXPECT_EQ(Text(bench.device.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(bench.device.Finish(blocked), "");
}

// Where the driver compiles them, not all when the first is asked for: some, and those that are needed.
TEST(CudaDriver, KernelsThatTheDriverCompilesAreLoadedWhenTheyAreAskedFor) {
  Controls().module_milliseconds = 1700;
  const uint64_t modules = Controls().modules;
  {
    Bench bench;
    std::vector<Tensor> out;
    const DeviceCase given = {"FloorDiv", {}, {Ints({4, 6, 9}), Ints({2, 2, 3})}, {{TENON_DT_INT32, {3}}}};
    EXPECT_EQ(bench.OnDevice(given, &out), "");
    EXPECT_EQ(bench.OnDevice(given, &out), "");
    EXPECT_EQ(Values<int32_t>(out[0]), (std::vector<int32_t>{2, 3, 3}));
  }
  EXPECT_LE(Controls().modules - modules, 5u);  // of 27
  Controls().module_milliseconds = 0;
}

}  // namespace
}  // namespace tenon::device_test
