// SPDX-License-Identifier: Apache-2.0
// The profile of watched GPUs by CUPTI, on emulated GPUs and an emulated CUPTI that records what they do, and by events
// without it. Covers R3.
#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "emulation/cupti_controls.h"
#include "tenon/ext/draft/capture.h"
#include "tests/device/libraries.h"

namespace tenon::device_test {
namespace {

constexpr char kOwnClock[] = TENON_TEST_BUILD_DIR "/tests/plugins/own_clock";
constexpr char kIncomplete[] = TENON_TEST_BUILD_DIR "/tests/plugins/incomplete";
constexpr char kEvents[] = "traced steps are measured by events: ";
constexpr int kKinds = 7;  // of records, that are asked for

// Of the emulated library in a folder, which the plugin opens too.
EmulatedCuptiControls& Controls(const char* folder = kLibraries) {
  void* const library = dlopen((std::string(folder) + "/" TENON_TESTED_CUPTI).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return *reinterpret_cast<EmulatedCuptiControls* (*)()>(dlsym(library, "tenon_emulated_cupti"))();
}

uint64_t Now() { return After(std::chrono::milliseconds(0)); }

// Sets a control for the time of a test.
template <class T>
class Set {
 public:
  Set(std::atomic<T>& control, T value) : control_(control), before_(control.exchange(value)) {}
  ~Set() { control_ = before_; }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  std::atomic<T>& control_;
  const T before_;
};

// A device that is watched as long as it lives, or until Unwatch.
struct Watched {
  explicit Watched(Device& watched) : handle(watched) {
    const uint64_t before = Now();
    EXPECT_EQ(Text(handle.profile->watch(handle.device, 1)), "");
    took = Now() - before;
  }
  ~Watched() { Unwatch(); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  void Unwatch() {
    if (!std::exchange(on, false)) return;
    EXPECT_EQ(Text(handle.profile->watch(handle.device, 0)), "");
  }
  Device& handle;
  uint64_t took = 0;  // nanoseconds to begin; clocks that are read one after the other then are no farther apart
  bool on = true;
};

Submission Labelled(const std::string& label) { return Submission{{}, nullptr, 0, label}; }

// How often the line was logged in this process.
std::ptrdiff_t TimesSaid(const std::string& line) {
  static std::vector<std::string> all;
  for (std::string& each : TakeLog()) all.push_back(std::move(each));
  return std::count(all.begin(), all.end(), line);
}

// A device, some memory, and a queue.
struct Scene {
  explicit Scene(const char* libraries, const char* devices = "1")
      : plugin({{"devices", devices}, {"cache", "off"}, {"libraries", libraries}}) {}
  std::string FillAndFinish(const std::string& label) {
    std::string text = device.Fill(queue, data, 64, 1, Labelled(label));
    return text.empty() ? device.Finish(queue) : text;
  }
  const Plugin plugin;
  Device device{plugin, 0};
  tenon_queue* queue = device.Queue();
  char* data = static_cast<char*>(device.Memory(4096));
};

TEST(Cupti, TellsOfEachPieceByItsLabelInTheOrderOfTheirEnds) {
  Scene scene(kLibraries);
  tenon_queue* const other = scene.device.Queue();
  EmulatedCuptiControls& controls = Controls();
  Watched watched(scene.device);
  EXPECT_EQ(controls.kinds, kKinds);
  const uint64_t before = Now();
  EXPECT_EQ(scene.FillAndFinish("filling"), "");
  EXPECT_EQ(scene.device.CopyWithin(other, scene.data, scene.data + 64, 48, Labelled("copying")), "");
  EXPECT_EQ(scene.device.Finish(other), "");
  const uint64_t after = Now();

  const std::vector<tenon_profile_span> spans = scene.device.Profile();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].name, "filling");
  EXPECT_STREQ(spans[0].kind, "fill");
  EXPECT_STREQ(spans[0].detail, "64 bytes");
  EXPECT_EQ(spans[0].queue, 0u);
  EXPECT_STREQ(spans[1].name, "copying");
  EXPECT_STREQ(spans[1].kind, "copy");
  EXPECT_STREQ(spans[1].detail, "48 bytes, within the device");
  EXPECT_EQ(spans[1].queue, 1u);
  uint64_t last = before;
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].number, i);
    EXPECT_GE(spans[i].begin_ns, last);
    EXPECT_GE(spans[i].end_ns, spans[i].begin_ns);
    last = spans[i].end_ns;
  }
  EXPECT_LE(last, after);
  EXPECT_EQ(controls.open, 0);
}

TEST(Cupti, RecordsOnlyWhileSomebodyWatches) {
  Scene scene(kLibraries, "2");
  Device second(scene.plugin, 1);
  tenon_queue* const queue = second.Queue();
  void* const data = second.Memory(64);
  EmulatedCuptiControls& controls = Controls();
  const int pushes = controls.pushes;
  EXPECT_EQ(scene.FillAndFinish("before"), "");
  EXPECT_EQ(controls.kinds, 0);
  {
    Watched watched(scene.device);
    {
      Watched too(second), again(scene.device);
      EXPECT_EQ(controls.kinds, kKinds);
    }
    EXPECT_EQ(controls.kinds, kKinds);
    EXPECT_EQ(scene.FillAndFinish("meanwhile"), "");
    EXPECT_EQ(second.Fill(queue, data, 64, 1, Labelled("unwatched")), "");
    EXPECT_EQ(second.Finish(queue), "");
  }
  EXPECT_EQ(controls.kinds, 0);
  EXPECT_EQ(controls.subscribers, 0);
  EXPECT_EQ(scene.FillAndFinish("after"), "");
  EXPECT_EQ(controls.pushes, pushes + 1);
  const std::vector<tenon_profile_span> spans = scene.device.Profile();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_STREQ(spans[0].name, "meanwhile");
  EXPECT_STREQ(spans[0].detail, "64 bytes");
  EXPECT_TRUE(second.Profile().empty());
}

TEST(Cupti, GivesEachDeviceItsOwn) {
  Scene scene(kLibraries, "2");
  Device second(scene.plugin, 1);
  tenon_queue* const queue = second.Queue();
  void* const data = second.Memory(64);
  Watched watched(scene.device), too(second);
  EXPECT_EQ(scene.FillAndFinish("first"), "");
  EXPECT_EQ(second.Fill(queue, data, 32, 1, Labelled("second")), "");
  EXPECT_EQ(second.Copy(queue, scene.data, scene.device.device, data, second.device, 64, Labelled("between")), "");
  EXPECT_EQ(second.Finish(queue), "");
  const std::vector<tenon_profile_span> spans = second.Profile(), others = scene.device.Profile();
  ASSERT_EQ(others.size(), 1u);
  EXPECT_STREQ(others[0].name, "first");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].name, "second");
  EXPECT_STREQ(spans[0].detail, "32 bytes");
  EXPECT_STREQ(spans[1].name, "between");
  EXPECT_STREQ(spans[1].detail, "64 bytes, from another device");
}

// Ours by their plain names, the libraries' by their readable ones.
TEST(Cupti, TellsKernelsByName) {
  Bench bench(With(kLibraries), 0);
  const DeviceCase add = {
      "AddV2", {}, {RandomFloatsOf({600}, 1, 0, 1), RandomFloatsOf({600}, 2, 0, 1)}, {{TENON_DT_FLOAT, {600}}}};
  Watched watched(bench.device);
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice(add, &out), "");
  EXPECT_EQ(bench.OnDevice(LongProduct(TENON_PRECISION_STRICT), &out), "");
  std::vector<tenon_profile_span> spans = bench.device.Profile();
  std::erase_if(spans, [](const tenon_profile_span& span) { return span.kind != std::string("kernel"); });
  ASSERT_EQ(spans.size(), 2u);
  for (const tenon_profile_span& span : spans) EXPECT_STREQ(span.name, "node");
  EXPECT_TRUE(std::string(spans[0].detail).starts_with("Add_f32, grid ")) << spans[0].detail;
  EXPECT_STREQ(spans[1].detail, "void vendor::kernel<float>(float const*), grid 1x1x1, block 1x1x1");
}

// x = x + y, twice, and then y is filled; kept by a queue of the bench.
class KeptGraph {
 public:
  explicit KeptGraph(Bench& bench)
      : capture_(*static_cast<const tenon_graph_capture*>(
            bench.device.driver->get_extension(bench.device.device, Span(TENON_EXTENSION_GRAPH_CAPTURE)))) {
    kernel_ = FindKernel(bench.tested, node_);
    const tenon_create_args create = {TENON_HEAD(tenon_create_args), NodeServices(), &node_, nullptr, nullptr,
                                      bench.device.device,           nullptr};
    EXPECT_EQ(Text(kernel_->create(&create, &object_)), "");
    void* const y_data = bench.device.Memory(12);
    tenon_tensor_view x = ViewOf(TENON_DT_FLOAT, dims_, bench.device.Memory(12)),
                      y = ViewOf(TENON_DT_FLOAT, dims_, y_data), out = x;
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
    EXPECT_EQ(Text(kernel_->prepare(object_, &prepare)), "");
    prepared_ = prepare.out_prepared;
    tenon_frame frame = {};
    frame.struct_size = sizeof frame;
    frame.inputs = inputs;
    frame.outputs = outputs;
    frame.input_count = 2;
    frame.output_count = 1;
    frame.device = bench.device.device;
    frame.services = FrameServices();
    frame.label = Span("kept");
    EXPECT_EQ(Text(capture_.begin(bench.queue, &frame.queue)), "");
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Text(kernel_->run(object_, prepared_, &frame)), "");
    EXPECT_EQ(bench.device.Fill(frame.queue, y_data, 12, 0), "");
    uint64_t nodes = 0;
    EXPECT_EQ(Text(capture_.end(frame.queue, &graph_, &nodes)), "");
    EXPECT_EQ(nodes, 3u);
  }
  ~KeptGraph() {
    capture_.destroy(graph_);
    kernel_->destroy_prepared(prepared_);
    kernel_->destroy(object_);
  }
  KeptGraph(const KeptGraph&) = delete;
  KeptGraph& operator=(const KeptGraph&) = delete;
  std::string Launch(tenon_queue* queue, const char* label) {
    return Text(capture_.launch(queue, graph_, Labelled(label).get()));
  }

 private:
  const tenon_graph_capture& capture_;
  const tenon_node node_ = {"AddV2", {{"T", Type{TENON_DT_FLOAT}}}, {TENON_DT_FLOAT, TENON_DT_FLOAT}, {TENON_DT_FLOAT}};
  std::vector<int64_t> dims_ = {3};
  const tenon_kernel_registration* kernel_ = nullptr;
  tenon_kernel* object_ = nullptr;
  tenon_prepared* prepared_ = nullptr;
  tenon_captured_graph* graph_ = nullptr;
};

TEST(Cupti, GivesAllWorkOfAGraphTheLabelOfItsLaunch) {
  Bench bench(With(kLibraries), 0);
  Watched watched(bench.device);
  KeptGraph graph(bench);
  for (const char* label : {"first launch", "second launch"}) EXPECT_EQ(graph.Launch(bench.queue, label), "");
  EXPECT_EQ(bench.device.Finish(bench.queue), "");
  const std::vector<tenon_profile_span> spans = bench.device.Profile();
  ASSERT_EQ(spans.size(), 6u);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_STREQ(spans[i].name, i < 3 ? "first launch" : "second launch");
    EXPECT_STREQ(spans[i].kind, i % 3 < 2 ? "kernel" : "fill");
    EXPECT_TRUE(std::string(spans[i].detail).starts_with(i % 3 < 2 ? "Add_f32, grid 1x1x1, block " : "12 bytes"))
        << spans[i].detail;
    EXPECT_GE(spans[i].begin_ns, i == 0 ? 0 : spans[i - 1].end_ns);
  }
}

// Of one that was made before, the library may tell nothing: the launch is measured as a whole, and says so.
TEST(Cupti, LeavesGraphsThatWereMadeBeforeToEvents) {
  Bench bench(With(kLibraries), 0);
  KeptGraph graph(bench);
  Watched watched(bench.device);
  const uint64_t before = Now();
  for (const char* label : {"first launch", "second launch"}) EXPECT_EQ(graph.Launch(bench.queue, label), "");
  EXPECT_EQ(bench.device.Finish(bench.queue), "");
  const uint64_t after = Now();
  const std::vector<tenon_profile_span> spans = bench.device.Profile();
  ASSERT_EQ(spans.size(), 2u);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_STREQ(spans[i].name, i == 0 ? "first launch" : "second launch");
    EXPECT_STREQ(spans[i].kind, "graph");
    EXPECT_STREQ(spans[i].detail, "as a whole: of what is in it nothing was told");
    EXPECT_GE(spans[i].begin_ns + watched.took, before);
    EXPECT_LE(spans[i].begin_ns, spans[i].end_ns);
    EXPECT_LE(spans[i].end_ns, after + watched.took);
  }
}

TEST(Cupti, IsReadThroughManyBuffers) {
  Scene scene(kLibraries);
  EmulatedCuptiControls& controls = Controls();
  const Set<size_t> small(controls.buffer_bytes, 512);
  const int buffers = controls.buffers;
  Watched watched(scene.device);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(scene.device.Fill(scene.queue, scene.data, 64, 1, Labelled(std::to_string(i))), "");
  EXPECT_EQ(scene.device.Finish(scene.queue), "");
  const std::vector<tenon_profile_span> spans = scene.device.Profile();
  ASSERT_EQ(spans.size(), 50u);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].name, std::to_string(i));
    EXPECT_STREQ(spans[i].detail, "64 bytes");
  }
  EXPECT_GT(controls.buffers, buffers + 10);
}

TEST(Cupti, WithAClockOfItsOwnIsBroughtToTheHosts) {
  Scene scene(kOwnClock);
  Watched watched(scene.device);
  const uint64_t before = Now();
  EXPECT_EQ(scene.FillAndFinish("filling"), "");
  const uint64_t after = Now();
  const std::vector<tenon_profile_span> spans = scene.device.Profile();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_STREQ(spans[0].detail, "64 bytes");
  EXPECT_GE(spans[0].begin_ns, before);
  EXPECT_LE(spans[0].end_ns, after + watched.took);
}

// What nobody traces is told by events: with a name, and without a detail.
void ExpectEvents(Scene& scene) {
  Watched watched(scene.device);
  const uint64_t before = Now();
  EXPECT_EQ(scene.FillAndFinish("filling"), "");
  const uint64_t after = Now();
  const std::vector<tenon_profile_span> spans = scene.device.Profile();
  ASSERT_FALSE(spans.empty());
  EXPECT_STREQ(spans.back().name, "filling");
  EXPECT_STREQ(spans.back().kind, "fill");
  EXPECT_STREQ(spans.back().detail, "");
  EXPECT_GE(spans.back().begin_ns, before);
  EXPECT_GE(spans.back().end_ns, spans.back().begin_ns);
  EXPECT_LE(spans.back().end_ns, after + watched.took);
}

void ExpectTraced(Scene& scene) {
  Watched watched(scene.device);
  EXPECT_EQ(scene.FillAndFinish("traced"), "");
  EXPECT_STREQ(scene.device.Profile().back().name, "traced");
  EXPECT_STREQ(scene.device.Profile().back().detail, "64 bytes");
}

TEST(Cupti, LeavesItToEventsWhereAnotherProfilerIsAttached) {
  Scene scene(kLibraries);
  EmulatedCuptiControls& controls = Controls();
  const std::string line =
      std::string(kEvents) + "CUPTI: cuptiSubscribe: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
  const std::ptrdiff_t before = TimesSaid(line);
  {
    const Set<bool> taken(controls.is_taken, true);
    ExpectEvents(scene);
    ExpectEvents(scene);
    EXPECT_EQ(TimesSaid(line), before + 1);
    EXPECT_EQ(controls.kinds, 0);
  }
  ExpectTraced(scene);  // when the other has gone
}

TEST(Cupti, UndoesWhatItBeganWhenAKindIsRefused) {
  Scene scene(kLibraries);
  EmulatedCuptiControls& controls = Controls();
  const Set<int> refused(controls.refused_kind, 2);  // CUPTI_ACTIVITY_KIND_MEMSET, the last
  ExpectEvents(scene);
  EXPECT_GE(TimesSaid(std::string(kEvents) + "CUPTI: cuptiActivityEnable: an error of the emulated CUPTI"), 1);
  EXPECT_EQ(controls.kinds, 0);
  EXPECT_EQ(controls.subscribers, 0);
  controls.refused_kind = 0;
  ExpectTraced(scene);
}

TEST(Cupti, LeavesItToEventsWithoutAFunctionOrTheLibrary) {
  const std::pair<const char*, std::string> problems[] = {
      {kIncomplete, std::string(kIncomplete) + "/" TENON_TESTED_CUPTI " lacks cuptiActivityFlushAll"},
      {"/nowhere", "/nowhere/" TENON_TESTED_CUPTI ": cannot open shared object file: No such file or directory"}};
  for (const auto& [folder, problem] : problems) {
    Scene scene(folder);
    ExpectEvents(scene);
    ExpectEvents(scene);
    EXPECT_EQ(TimesSaid(std::string(kEvents) + "CUPTI: " + problem +
                        " (put the library where the loader looks, or name its folder in the option libraries)"),
              1);
  }
  Scene off("off");
  ExpectEvents(off);
}

// The real one, where it is: without a driver it refuses, and with one it knows nothing of emulated GPUs.
TEST(Cupti, OfTheToolkitDoesNoHarm) {
  Scene scene(TENON_TOOLKIT_LIBRARIES);
  ExpectEvents(scene);
}

TEST(Cupti, LeavesLostRecordsToEvents) {
  Scene scene(kLibraries);
  EmulatedCuptiControls& controls = Controls();
  Watched watched(scene.device);
  {
    const Set<bool> loses(controls.loses, true);
    EXPECT_EQ(scene.FillAndFinish("lost"), "");
  }
  EXPECT_EQ(scene.FillAndFinish("kept"), "");
  const std::vector<tenon_profile_span> spans = scene.device.Profile();
  ASSERT_EQ(spans.size(), 2u);
  for (const tenon_profile_span& span : spans)
    EXPECT_STREQ(span.detail, span.name == std::string("kept") ? "64 bytes" : "");
}

// Of a piece that has begun when watching ends the records are not waited for.
TEST(Cupti, LeavesWhatStillRunsToEventsWhenWatchingEnds) {
  Scene scene(kLibraries);
  tenon_semaphore* const gate = scene.device.Semaphore();
  Watched watched(scene.device);
  EXPECT_EQ(scene.FillAndFinish("done"), "");
  EXPECT_EQ(scene.device.Fill(scene.queue, scene.data, 64, 1, Submission{{{gate, 1}}, nullptr, 0, "running"}), "");
  watched.Unwatch();
  EXPECT_EQ(Controls().kinds, 0);
  EXPECT_EQ(Text(scene.plugin.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(scene.device.Finish(scene.queue), "");
  const std::vector<tenon_profile_span> spans = scene.device.Profile();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].name, "done");
  EXPECT_STREQ(spans[0].detail, "64 bytes");
  EXPECT_STREQ(spans[1].name, "running");
  EXPECT_STREQ(spans[1].detail, "");
}

// A device that is closed while it is watched takes its watch with it.
TEST(Cupti, RestsWhenAWatchedDeviceIsClosed) {
  {
    Scene scene(kLibraries);
    EXPECT_EQ(Text(scene.device.profile->watch(scene.device.device, 1)), "");
    EXPECT_EQ(scene.FillAndFinish("filling"), "");
    EXPECT_EQ(Controls().kinds, kKinds);
  }
  EXPECT_EQ(Controls().kinds, 0);
  EXPECT_EQ(Controls().subscribers, 0);
}

}  // namespace
}  // namespace tenon::device_test
