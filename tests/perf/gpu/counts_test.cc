// SPDX-License-Identifier: Apache-2.0
// What a step of each network asks of a GPU's driver, counted by the emulated one: launches, waits of the host, bytes.
// A table of it is printed. Covers A13.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "devices/cuda/emulation/driver_controls.h"
#include "networks.h"
#include "tests/device/gpu.h"

namespace tenon::perf {
namespace {

using host::Callable;
using host::Graph;
using host::Runtime;
using host::Session;
using host::SessionOptions;

EmulatedDriverControls& Controls() {
  static EmulatedDriverControls* const controls = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* const get = driver == nullptr
                          ? nullptr
                          : reinterpret_cast<EmulatedDriverControls* (*)()>(dlsym(driver, "tenon_emulated_driver"));
    if (get == nullptr) {
      ADD_FAILURE() << "libcuda.so.1 is not the emulated driver: its folder belongs on LD_LIBRARY_PATH";
      std::abort();  // NOLINT: nothing can be counted
    }
    return get();
  }();
  return *controls;
}

// Of a step in bfloat16: of all weights one, where it begins and ends, and of BERT around sums along rows.
constexpr uint64_t kMostCasts = 25;

struct Counts {
  uint64_t launches, graphs, graph_nodes, optimizers, copies, bytes, waits;
};
Counts Now(const Session& session) {
  const EmulatedDriverControls& c = Controls();
  const auto metrics = session.Metrics();
  EXPECT_TRUE(metrics.ok());
  return {c.launches, c.graph_launches, c.graph_nodes, c.optimizers, c.copies, c.copied_bytes, metrics->host_waits};
}
Counts Since(const Session& session, const Counts& before) {
  const Counts now = Now(session);
  return {now.launches - before.launches,
          now.graphs - before.graphs,
          now.graph_nodes - before.graph_nodes,
          now.optimizers - before.optimizers,
          now.copies - before.copies,
          now.bytes - before.bytes,
          now.waits - before.waits};
}

class CountsOf : public testing::TestWithParam<const NetworkKind*> {};

TEST_P(CountsOf, AStep) {
  (void)Controls();
  const NetworkKind& kind = *GetParam();
  static const Runtime runtime = *Runtime::Create(device_test::GpuOptions());
  Graph graph(runtime);
  const Network network(graph, kind, kind.tiny);
  SessionOptions options;
  options.device = device_test::kGpu;
  auto session = Session::Create(runtime, graph, options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(network.Begin(*session).ok());
  auto without = session->Prepare({}, {}, {network.update()}),
       with = session->Prepare({}, {network.loss()}, {network.update()});
  ASSERT_TRUE(without.ok() && with.ok()) << without.status() << with.status();
  for (int step = 0; step < 8; ++step) {  // until everything that may be captured is
    ASSERT_TRUE(without->Run().ok());
    ASSERT_TRUE(with->Run().ok());
  }
  const Counts before = Now(*session);
  constexpr uint64_t kSteps = 4;
  for (uint64_t step = 0; step < kSteps; ++step) ASSERT_TRUE(without->Run().ok());
  const Counts unfetched = Since(*session, before);
  const Counts between = Now(*session);
  for (uint64_t step = 0; step < kSteps; ++step) ASSERT_TRUE(with->Run().ok());
  const Counts fetched = Since(*session, between);
  std::printf(
      "%s: without a fetch %g launches, %g graphs of %g nodes, %g of them the optimizer's for %zu variables, %g copies "
      "of %g bytes, %g waits; with one %g waits, %g copies\n",
      std::string(kind.name).c_str(), 1.0 * unfetched.launches / kSteps, 1.0 * unfetched.graphs / kSteps,
      1.0 * unfetched.graph_nodes / kSteps, 1.0 * unfetched.optimizers / kSteps, network.model().trainable().size(),
      1.0 * unfetched.copies / kSteps, 1.0 * unfetched.bytes / kSteps, 1.0 * unfetched.waits / kSteps,
      1.0 * fetched.waits / kSteps, 1.0 * fetched.copies / kSteps);
  // The loss alone: the forward pass.
  auto forward = session->Prepare({}, {network.loss()}, {});
  ASSERT_TRUE(forward.ok()) << forward.status();
  for (int step = 0; step < 8; ++step) ASSERT_TRUE(forward->Run().ok());
  const Counts before_forward = Now(*session);
  for (uint64_t step = 0; step < kSteps; ++step) ASSERT_TRUE(forward->Run().ok());
  const Counts alone = Since(*session, before_forward);
  std::printf("%s: the loss alone %g launches, %g graphs of %g nodes, %g copies of %g bytes, %g waits\n",
              std::string(kind.name).c_str(), 1.0 * alone.launches / kSteps, 1.0 * alone.graphs / kSteps,
              1.0 * alone.graph_nodes / kSteps, 1.0 * alone.copies / kSteps, 1.0 * alone.bytes / kSteps,
              1.0 * alone.waits / kSteps);
  EXPECT_EQ(alone.optimizers, 0u);
  EXPECT_GE(unfetched.optimizers, kSteps);
  EXPECT_LE(unfetched.optimizers, 4 * kSteps);
  EXPECT_LE(fetched.optimizers, 4 * kSteps);
  EXPECT_EQ(unfetched.waits, 0u);
  EXPECT_EQ(fetched.waits, kSteps);
  EXPECT_EQ(unfetched.bytes, 0u);
}

// A training step that keeps in 16 bits all that may be, beside one of float32.
struct Step {
  Counts counts;
  uint64_t peak_bytes;  // of the GPU
};
Step StepOf(const Runtime& runtime, const NetworkKind& kind, host::Precision precision) {
  Graph graph(runtime);
  const Network network(graph, kind, kind.tiny);
  SessionOptions options;
  options.device = device_test::kGpu;
  options.precision = precision;
  const auto session = Session::Create(runtime, graph, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  EXPECT_TRUE(network.Begin(*session).ok());
  const auto step = session->Prepare({}, {}, {network.update()});
  EXPECT_TRUE(step.ok()) << step.status();
  if (!step.ok()) return {};
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(step->Run().ok());  // until everything that may be captured is
  const Counts before = Now(*session);
  EXPECT_TRUE(step->Run().ok());
  return {Since(*session, before), session->Metrics()->device_peak_bytes};
}

class CountsInBfloat16 : public testing::TestWithParam<const NetworkKind*> {};

TEST_P(CountsInBfloat16, AStep) {
  (void)Controls();
  host::RuntimeOptions options = device_test::GpuOptions();
  options.plugin_options.push_back({device_test::GpuPlugin(), "storage", "always"});
  static const Runtime runtime = *Runtime::Create(options);
  const Step strict = StepOf(runtime, *GetParam(), host::Precision::kStrict),
             reduced = StepOf(runtime, *GetParam(), host::Precision::kAllowBfloat16);
  for (const auto& [name, step] : {std::pair("float32", &strict), std::pair("bfloat16", &reduced)})
    std::printf(
        "%s, %s: %lu launches and %lu in graphs, %lu of the optimizer, %lu waits, at most %lu bytes of the GPU\n",
        std::string(GetParam()->name).c_str(), name, step->counts.launches, step->counts.graph_nodes,
        step->counts.optimizers, step->counts.waits, step->peak_bytes);
  EXPECT_EQ(reduced.counts.waits, 0u);
  EXPECT_EQ(reduced.counts.bytes, 0u);
  EXPECT_EQ(reduced.counts.optimizers, strict.counts.optimizers) << "variables are float32";
  const auto all = [](const Step& step) { return step.counts.launches + step.counts.graph_nodes; };
  EXPECT_LE(all(reduced), all(strict) + kMostCasts) << "weights are cast in one go";
}

std::vector<const NetworkKind*> Kinds() {
  std::vector<const NetworkKind*> kinds;
  for (const NetworkKind& kind : Networks()) kinds.push_back(&kind);
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(Networks, CountsOf, testing::ValuesIn(Kinds()),
                         [](const auto& info) { return std::string(info.param->name); });
// Two, since each is compiled twice: of convolutions, and of attention.
INSTANTIATE_TEST_SUITE_P(Networks, CountsInBfloat16,
                         testing::Values(*FindNetwork("alexnet"), *FindNetwork("bert_base")),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace tenon::perf
