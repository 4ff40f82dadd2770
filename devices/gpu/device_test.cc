// SPDX-License-Identifier: Apache-2.0
// What is the GPU plugins' own of queues and timelines: failures that streams cannot be told of, late faults of
// kernels, a lost GPU, memory limits, captured graphs. What every device has to do is in tenon/testing/device_suite.h.
#include "tenon/ext/draft/capture.h"
#include "tenon/ext/draft/native_handle.h"
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

TEST(Driver, HasNoDeviceUnlessItIsAskedForOne) {
  const Plugin plugin{{"devices", "0"}};
  uint32_t count = 9;
  EXPECT_EQ(Text(plugin.driver->count(plugin.self, &count)), "NOT_FOUND: the option tenon.gpu_emulated.devices is 0");
  EXPECT_EQ(count, 0u);
}

TEST(Memory, IsRefusedBeyondTheLimitAndGivenAgain) {
  const Plugin plugin{{"memory_limit", "65536"}};
  Device device(plugin, 0);
  void* all = device.Memory(65536);
  void* more = &all;
  const std::string text = Text(plugin.driver->allocate(device.device, 0, 1, 64, nullptr, &more));
  EXPECT_TRUE(text.starts_with("RESOURCE_EXHAUSTED: GPU:0 has no 1 bytes of device memory: 65536 of ")) << text;
  EXPECT_TRUE(text.ends_with("are in use, the option memory_limit is 65536")) << text;
  EXPECT_EQ(more, nullptr);
  plugin.driver->free(device.device, 0, all, 65536, device.Queue());
  EXPECT_NE(device.Memory(65536), nullptr);
}

// Of each piece of memory and each stream that a queue needs: who asks is told, and may ask again.
TEST(Memory, ThatIsRefusedOnceIsSaidAndLosesNothing) {
  int refusals = 0;
  for (int refused = 1; refused < 16; ++refused) {  // the first is what a device needs to be opened
    const Plugin plugin{{"devices", "1"}, {"refuse_allocation", std::to_string(refused)}};
    Device device(plugin, 0);
    const auto twice = [&](const auto& call) {
      std::string text = call();
      if (text.empty()) return;
      EXPECT_TRUE(text.starts_with("RESOURCE_EXHAUSTED: ") &&
                  text.find("no memory (option refuse_allocation=") != std::string::npos)
          << text;
      ++refusals;
      EXPECT_EQ(call(), "");
    };
    tenon_queue* queue = nullptr;
    tenon_semaphore* done = nullptr;
    void *data = nullptr, *pinned = nullptr;
    twice([&] { return Text(plugin.driver->queue_create(device.device, 0, &queue)); });
    twice([&] { return Text(plugin.driver->semaphore_create(device.device, 0, &done)); });
    twice([&] { return Text(plugin.driver->allocate(device.device, 0, 3 << 20, 64, nullptr, &data)); });
    twice([&] { return Text(plugin.driver->allocate(device.device, 1, 3 << 20, 64, nullptr, &pinned)); });
    std::vector<char> host(3 << 20, 5), back(host.size());
    twice([&] { return device.Copy(queue, host.data(), nullptr, data, device.device, host.size()); });
    twice([&] { return device.Copy(queue, data, device.device, back.data(), nullptr, host.size(), {{}, done, 1}); });
    EXPECT_EQ(device.Wait(done, 1), "");
    EXPECT_EQ(back, host);
    plugin.driver->queue_destroy(queue);
    plugin.driver->semaphore_destroy(done);
  }
  EXPECT_GE(refusals, 6);
}

TEST(Queue, RefusesAddressesThatAreNotWhereTheySay) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  char* data = static_cast<char*>(device.Memory(256));
  char host[512];
  EXPECT_EQ(device.CopyWithin(queue, host, data, 4),
            "INVALID_ARGUMENT: GPU:0: the source of a copy of 4 bytes is not in a living block of its memory");
  EXPECT_EQ(device.CopyWithin(queue, data, data + 200, 57),
            "INVALID_ARGUMENT: GPU:0: the target of a copy of 57 bytes is not in a living block of its memory");
  EXPECT_EQ(device.Copy(queue, data, nullptr, host, nullptr, 4),
            "INVALID_ARGUMENT: GPU:0: the source of a copy is said to be host memory and is the device's");
  EXPECT_EQ(device.Copy(queue, nullptr, nullptr, data, device.device, 4),
            "INVALID_ARGUMENT: GPU:0: the source of a copy is NULL");
}

TEST(Queue, ThatIsDestroyedEndsWhatItWaitsFor) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* never = device.Semaphore();
  tenon_semaphore* blocked = device.Semaphore();
  std::string told;
  EXPECT_EQ(device.Barrier(queue, {{{never, 1}}, blocked, 1}), "");
  EXPECT_EQ(device.HostCall(queue, &told, {{}, blocked, 2}), "");
  device.Destroy(queue);
  const char* const text = "CANCELLED: a queue of GPU:0 was destroyed while its work waited for point 1";
  EXPECT_EQ(device.Wait(blocked, 1), text);
  EXPECT_EQ(told, text);
}

TEST(Faults, OfDataAreSaidOfTheNodeAndOfItsTimelineAlone) {
  Bench bench;
  const auto divide = [](int32_t divisor) {
    return DeviceCase{"FloorDiv", {}, {Ints({4, 6, 9}), Ints({2, divisor, 3})}, {{TENON_DT_INT32, {3}}}};
  };
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice(divide(0), &out),
            "INVALID_ARGUMENT: node 'node' (FloorDiv) on GPU:0: Integer division by zero (element 1)");
  EXPECT_EQ(bench.OnDevice(divide(2), &out), "");
  EXPECT_EQ(Values<int32_t>(out[0]), (std::vector<int32_t>{2, 3, 3}));
}

TEST(Faults, LostGpuFailsEverythingAndLeavesTheOtherAlone) {
  const Plugin plugin{{"devices", "2"}, {"lose_after", "40"}};
  Device device(plugin, 0), other(plugin, 1);
  tenon_queue* queue = device.Queue();
  tenon_queue* second = device.Queue();
  tenon_queue* elsewhere = other.Queue();
  tenon_semaphore* never = device.Semaphore();
  tenon_semaphore* t = other.Semaphore();
  void* data = device.Memory(8);
  std::string called, lost;
  EXPECT_EQ(device.Barrier(second, {{{never, 1}}, t, 9}), "");
  EXPECT_EQ(device.HostCall(second, &called), "");
  for (int i = 0; i < 100 && lost.empty(); ++i) lost = device.Fill(queue, data, 8, 1);
  EXPECT_EQ(lost, "UNAVAILABLE: GPU:0 (Emulated GPU) is lost: it is lost (option lose_after=40)");
  EXPECT_EQ(device.Wait(never, 1), lost);
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(never, 1)), lost);
  EXPECT_EQ(device.Barrier(second, {}), lost);
  void* more = nullptr;
  EXPECT_EQ(Text(plugin.driver->allocate(device.device, 0, 8, 64, nullptr, &more)), lost);
  // A queue still says when it has got past what it had.
  std::string past;
  EXPECT_EQ(device.HostCall(second, &past), "");
  device.Destroy(second);
  EXPECT_EQ(called, lost);
  EXPECT_EQ(past, lost);
  void* there = other.Memory(8);
  EXPECT_EQ(other.Fill(elsewhere, there, 8, 1), "");
  EXPECT_EQ(other.Download<uint8_t>(elsewhere, there, 8), std::vector<uint8_t>(8, 1));
}

// What was given to streams for the host to do is nobody's any more: no driver calls it, and it holds nothing.
TEST(Faults, PageableCopiesOfALostGpuAreGivenUp) {
  for (int after = 10; after < 90; after += 3) {
    const Plugin plugin{{"devices", "1"}, {"lose_after", std::to_string(after)}};
    Device device(plugin, 0);
    tenon_queue* const queue = device.Queue();
    char* const data = static_cast<char*>(device.Memory(3 << 20));
    std::string lost;
    for (int i = 0; i < 40 && lost.empty(); ++i) {
      const size_t bytes = i % 3 == 0 ? 1000 : 3 << 20;
      const auto host = std::make_unique<std::vector<char>>(bytes);
      lost = device.Copy(queue, host->data(), nullptr, data, device.device, bytes);
      if (lost.empty()) lost = device.Copy(queue, data, device.device, host->data(), nullptr, bytes);
      if (lost.empty()) lost = device.Finish(queue);
    }
    EXPECT_EQ(lost, "UNAVAILABLE: GPU:0 (Emulated GPU) is lost: it is lost (option lose_after=" +
                        std::to_string(after) + ")");
  }
}

TEST(NativeHandles, AreTheVendorsAndOneOfEachQueue) {
  const Plugin plugin;
  Device device(plugin, 0);
  const auto* native = static_cast<const tenon_native_handle*>(
      plugin.driver->get_extension(device.device, Span(TENON_EXTENSION_NATIVE_HANDLE)));
  ASSERT_NE(native, nullptr);
  EXPECT_NE(native->vendor(device.device).size, 0u);
  EXPECT_EQ(native->ordinal(device.device), 0);
  tenon_queue* first = device.Queue();
  tenon_queue* second = device.Queue();
  EXPECT_NE(native->stream(first), nullptr);
  EXPECT_NE(native->stream(first), native->stream(second));
  EXPECT_EQ(plugin.driver->get_extension(device.device, Span("tenon.nothing/1")), nullptr);
}

// A graph of two kernels, run again with other data; faults are those of the launch's timeline.
TEST(Capture, KeepsKernelsAndLaunchesThemAgainWithWhatStandsThereThen) {
  Bench bench;
  const tenon_device_driver& driver = *bench.device.driver;
  const auto* capture = static_cast<const tenon_graph_capture*>(
      driver.get_extension(bench.device.device, Span(TENON_EXTENSION_GRAPH_CAPTURE)));
  ASSERT_NE(capture, nullptr);
  const tenon_kernel_registration* kernel =
      FindKernel(bench.tested, {"FloorDiv", {{"T", Type{TENON_DT_INT32}}}, {}, {}});
  ASSERT_NE(kernel, nullptr);
  EXPECT_NE(kernel->traits & TENON_KERNEL_CAPTURE_SAFE, 0u);
  const tenon_node node = {
      "FloorDiv", {{"T", Type{TENON_DT_INT32}}}, {TENON_DT_INT32, TENON_DT_INT32}, {TENON_DT_INT32}};
  const tenon_create_args create = {TENON_HEAD(tenon_create_args), NodeServices(), &node, nullptr, nullptr,
                                    bench.device.device,           nullptr};
  tenon_kernel* object = nullptr;
  ASSERT_EQ(Text(kernel->create(&create, &object)), "");
  std::vector<int64_t> dims = {3};
  void* const a = bench.device.Memory(12);
  void* const b = bench.device.Memory(12);
  tenon_tensor_view x = ViewOf(TENON_DT_INT32, dims, a), y = ViewOf(TENON_DT_INT32, dims, b), out = x;
  const tenon_tensor_view* inputs[] = {&x, &y};
  tenon_tensor_view* outputs[] = {&out};
  tenon_prepare_args prepare = {TENON_HEAD(tenon_prepare_args),
                                inputs,
                                inputs,
                                2,
                                1,
                                TENON_PRECISION_STRICT,
                                1,
                                bench.device.device,
                                nullptr,
                                0,
                                nullptr,
                                nullptr,
                                nullptr};
  ASSERT_EQ(Text(kernel->prepare(object, &prepare)), "");
  tenon_queue* keeping = nullptr;
  ASSERT_EQ(Text(capture->begin(bench.queue, &keeping)), "");
  tenon_frame frame = {};
  frame.struct_size = sizeof frame;
  frame.inputs = inputs;
  frame.outputs = outputs;
  frame.input_count = 2;
  frame.output_count = 1;
  frame.device = bench.device.device;
  frame.queue = keeping;
  frame.services = FrameServices();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Text(kernel->run(object, prepare.out_prepared, &frame)), "");  // x = x / y / y
  tenon_captured_graph* graph = nullptr;
  uint64_t nodes = 0;
  ASSERT_EQ(Text(capture->end(keeping, &graph, &nodes)), "");
  EXPECT_EQ(nodes, 2u);
  const auto launch = [&](const std::vector<int32_t>& left, const std::vector<int32_t>& right) {
    bench.device.Upload(bench.queue, left, a);
    bench.device.Upload(bench.queue, right, b);
    tenon_semaphore* timeline = bench.device.Semaphore();
    const Submission submission = {{}, timeline, 1};
    EXPECT_EQ(Text(capture->launch(bench.queue, graph, submission.get())), "");
    return bench.device.Wait(timeline, 1);
  };
  EXPECT_EQ(launch({100, 36, 8}, {5, 3, 2}), "");
  EXPECT_EQ(bench.device.Download<int32_t>(bench.queue, a, 3), (std::vector<int32_t>{4, 4, 2}));
  EXPECT_EQ(launch({1, 2, 3}, {1, 1, 0}),
            "INVALID_ARGUMENT: node 'node' (FloorDiv) on GPU:0: Integer division by zero (element 2)");
  EXPECT_EQ(launch({49, 25, 9}, {7, 5, 3}), "");
  EXPECT_EQ(bench.device.Download<int32_t>(bench.queue, a, 3), (std::vector<int32_t>{1, 1, 1}));
  capture->destroy(graph);
  kernel->destroy_prepared(prepare.out_prepared);
  kernel->destroy(object);
}

TEST(NativeHandles, LetAQueueWaitForAnotherLibrarysStream) {
  const Plugin plugin, other;
  Device device(plugin, 0), foreign(other, 0);
  const auto* native = static_cast<const tenon_native_handle*>(
      plugin.driver->get_extension(device.device, Span(TENON_EXTENSION_NATIVE_HANDLE)));
  tenon_queue *queue = device.Queue(), *theirs = foreign.Queue();
  tenon_semaphore* gate = foreign.Semaphore();
  void* data = foreign.Memory(64);
  void* copy = device.Memory(64);
  foreign.Upload<uint8_t>(theirs, std::vector<uint8_t>(64, 1), data);
  EXPECT_EQ(foreign.Fill(theirs, data, 64, 7, Submission{{{gate, 1}}}), "");  // when we say so
  EXPECT_EQ(Text(native->wait_for(queue, native->stream(theirs))), "");
  EXPECT_EQ(device.CopyWithin(queue, data, copy, 64), "");  // their memory, which this driver has not allocated
  EXPECT_EQ(Text(other.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(device.Finish(queue), "");
  EXPECT_EQ(device.Download<uint8_t>(queue, copy, 64), std::vector<uint8_t>(64, 7));
}

// ---- The profile ----

TEST(Profile, TellsWhenWatchedWorkRanAndNothingElse) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue *queue = device.Queue(), *other = device.Queue();
  void* data = device.Memory(4096);
  EXPECT_EQ(device.Fill(queue, data, 64, 1), "");
  EXPECT_EQ(device.Finish(queue), "");
  EXPECT_TRUE(device.Profile().empty());
  ASSERT_EQ(Text(device.profile->watch(device.device, 1)), "");
  EXPECT_EQ(device.Fill(queue, data, 64, 1, Submission{{}, nullptr, 0, "filling"}), "");
  EXPECT_EQ(device.Finish(queue), "");
  EXPECT_EQ(device.CopyWithin(other, data, static_cast<char*>(data) + 64, 64,
                              Submission{{}, nullptr, 0, "start" + std::string(63, 'c')}),
            "");
  EXPECT_EQ(device.Finish(other), "");
  EXPECT_EQ(Text(device.profile->watch(device.device, 0)), "");
  EXPECT_EQ(device.Fill(queue, data, 64, 2), "");
  EXPECT_EQ(device.Finish(queue), "");

  const std::vector<tenon_profile_span> spans = device.Profile();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].name, "filling");
  EXPECT_STREQ(spans[0].kind, "fill");
  EXPECT_EQ(spans[0].queue, 0u);
  EXPECT_EQ(spans[1].name, std::string(63, 'c'));
  EXPECT_STREQ(spans[1].kind, "copy");
  EXPECT_EQ(spans[1].queue, 1u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(spans[i].number, i);
    EXPECT_LE(spans[i].begin_ns, spans[i].end_ns);
  }
  EXPECT_LE(spans[0].end_ns, spans[1].begin_ns);
}

TEST(Profile, ReadsOnFromWhereItWas) {
  const Plugin plugin;
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  void* data = device.Memory(64);
  ASSERT_EQ(Text(device.profile->watch(device.device, 1)), "");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(device.Fill(queue, data, 64, 1), "");
  EXPECT_EQ(device.Finish(queue), "");
  tenon_profile_span span = {};
  uint64_t count = 0, next = 0;
  for (uint64_t number = 0; number < 5; ++number) {
    device.profile->read(device.device, number, &span, 1, &count, &next);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(span.number, number);
    EXPECT_EQ(next, number + 1);
  }
  device.profile->read(device.device, 5, &span, 1, &count, &next);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(next, 5u);
  EXPECT_EQ(Text(device.profile->watch(device.device, 0)), "");
}

}  // namespace
}  // namespace tenon::device_test
