// SPDX-License-Identifier: Apache-2.0
// Values go to a device just before they are needed, so that it has few of them at once: measured on devices, where
// values take memory by turns (above a sixteenth of the device's), and the step is no longer for it by the device's own
// clock. Covers A5, H9, N3.
#include <algorithm>

#include "tests/engine/engine.h"
#include "tests/fakes/trace_events.h"

namespace tenon::engine::transfer_memory_test {
namespace {

constexpr int kWeights = 40;
constexpr int64_t kRows = 4, kSide = 256;
constexpr uint64_t kWeightBytes = kSide * kSide * sizeof(float);

Runtime DeviceOf(const std::string& memory_bytes) {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "1"},
                            {"tenon.tpu_sim", "precision", "exact"},
                            {"tenon.tpu_sim", "memory_bytes", memory_bytes}};
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}

// What steps took of the device, and gave.
struct Taken {
  uint64_t peak = 0;
  double microseconds = 0;  // by the device's clock
  std::vector<float> result;
};

// A chain of products with weights that the host has from the start.
Taken Steps(const std::string& memory_bytes, bool early, bool parts) {
  Runtime runtime = DeviceOf(memory_bytes);
  Graph g(runtime);
  std::vector<Feed> feeds;
  const auto fed = [&](const std::string& name, const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.dims()[0] * shape.dims()[1]));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 37 + feeds.size() * 11) % 101) / 400 - 0.1f;
    const Output x = g.Placeholder(name, DType::kFloat, shape);
    feeds.push_back({x, *Tensor::From(values, shape)});
    return x;
  };
  Output x = fed("x", {kRows, kSide});
  for (int i = 0; i < kWeights; ++i)
    x = g.Op("Relu", {g.Op("MatMul", {x, fed("w" + std::to_string(i), {kSide, kSide})})});
  SessionOptions options;
  options.device = "/device:TPU:0";
  options.compile = false;
  options.debug.early_transfers = early;
  options.debug.partition = parts;
  auto session = Session::Create(runtime, g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  Taken taken;
  for (int step = 0; step < 3; ++step) {
    std::string trace;
    RunOptions run;
    run.trace = &trace;
    const auto values = session->Run(feeds, {x}, {}, run);
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok()) return taken;
    taken.result = Values<float>((*values)[0]);
    double begin = 1e300, end = 0;
    for (const fakes::TraceSpan& span : fakes::TraceSpans(trace)) {
      if (!span.process.ends_with("its own clock") || span.category == "wait") continue;
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
    taken.microseconds = end - begin;
  }
  taken.peak = session->Metrics()->device_peak_bytes;
  return taken;
}

class TransferMemory : public testing::TestWithParam<bool> {};  // a part for each device
INSTANTIATE_TEST_SUITE_P(Parts, TransferMemory, testing::Bool());

TEST_P(TransferMemory, IsThatOfFewValuesWhereTheDeviceIsSmall) {
  const std::string memory = std::to_string(64 << 20);
  const Taken early = Steps(memory, true, GetParam()), late = Steps(memory, false, GetParam());
  ASSERT_EQ(early.result.size(), static_cast<size_t>(kRows * kSide));
  EXPECT_EQ(late.result, early.result);
  EXPECT_GE(early.peak, kWeights * kWeightBytes);
  EXPECT_GE(late.peak, 2 * kWeightBytes) << "one is read, and the next is on its way";
  EXPECT_LE(late.peak, 4 * kWeightBytes);
  EXPECT_LE(late.microseconds, early.microseconds * 1.0001);
}

// The rule of core/exec/lower/arena.cc: little of a large device is not worth a wait.
TEST_P(TransferMemory, IsThatOfAllValuesWhereTheyAreLittleOfTheDevice) {
  const std::string memory = std::to_string(16 * (kWeights + 4) * kWeightBytes);
  const Taken early = Steps(memory, true, GetParam()), late = Steps(memory, false, GetParam());
  EXPECT_EQ(late.result, early.result);
  EXPECT_GE(late.peak, kWeights * kWeightBytes);
  EXPECT_EQ(late.peak, early.peak);
  EXPECT_LE(late.microseconds, early.microseconds * 1.0001);
}

}  // namespace
}  // namespace tenon::engine::transfer_memory_test
