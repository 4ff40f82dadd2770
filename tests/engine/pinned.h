// SPDX-License-Identifier: Apache-2.0
// What tests of pinned tensors share: a graph that doubles what it is fed on a GPU, and counts of the emulated GPU's
// copies. What goes by way of the driver's own buffers is copied in pieces of a mebibyte.
#ifndef TENON_TESTS_ENGINE_PINNED_H_
#define TENON_TESTS_ENGINE_PINNED_H_

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "devices/gpu/emulation/observer.h"
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine {

using device_test::kGpu;

inline constexpr int64_t kCount = 1 << 20;  // floats: four pieces of the driver's
inline constexpr uint64_t kBytes = kCount * sizeof(float);

// Counts copies to and from the emulated GPUs, of a piece or more.
class Copies final : public gpu::EmulatedObserver {
 public:
  uint32_t Call() override { return 0; }
  uint64_t Now() override { return 0; }
  void Ran(const gpu::EmulatedActivity& activity, uint32_t, uint64_t, uint64_t) override {
    if (activity.kind != gpu::EmulatedActivity::Kind::kCopy || activity.bytes < kBytes / 4) return;
    ++(activity.bytes == kBytes ? whole_ : pieces_);
  }
  // Since the last time: copies of the whole, and of less.
  std::pair<int, int> Take() { return {whole_.exchange(0), pieces_.exchange(0)}; }

 private:
  std::atomic<int> whole_{0}, pieces_{0};
};
inline Copies& TheCopies() {
  static auto* const copies = [] {
    auto* const made = new Copies;
    gpu::SetObserver(made);
    return made;
  }();
  return *copies;
}
inline void ExpectCopies(int whole, int pieces, const std::string& what) {
  if (!device_test::GpuIsEmulated()) return;
  EXPECT_EQ(TheCopies().Take(), (std::pair{whole, pieces})) << what;
}

inline Runtime MakeRuntime(const std::string& option = "", const std::string& value = "") {
  RuntimeOptions options = device_test::GpuOptions();
  if (!option.empty()) options.plugin_options.push_back({device_test::GpuPlugin(), option, value});
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}
inline Runtime& Gpus() {
  static Runtime* const runtime = new Runtime(MakeRuntime());
  return *runtime;
}

inline Session Open(const Runtime& runtime, const Graph& graph, SessionOptions options = {}) {
  if (options.device.empty()) options.device = kGpu;
  auto session = Session::Create(runtime, graph, options);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    std::abort();  // NOLINT
  }
  return std::move(*session);
}

inline Tensor Pinned(const Session& session, int64_t count = kCount, const std::string& device = kGpu) {
  auto tensor = session.PinnedTensor(DType::kFloat, Shape{count}, device);
  EXPECT_TRUE(tensor.ok()) << tensor.status().message();
  return tensor.ok() ? *tensor : Tensor();
}
// Small numbers, whose sums are exact: from first on, and again.
inline void Fill(std::span<float> values, float first) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i % 7);
}
inline void ExpectDoubled(std::span<const float> values, float first) {
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 2 * (first + static_cast<float>(i % 7))) << i;
}

// y is twice x; last is an element of y.
struct Doubling {
  explicit Doubling(const Runtime& runtime, const std::vector<int64_t>& dims = {kCount})
      : g(runtime), x(g.Placeholder("x", DType::kFloat, Shape(dims))) {
    y = g.Op("AddV2", {x, x}, {}, "y");
    last = g.Op("Slice", {y, g.Const({int32_t{3}}), g.Const({int32_t{1}})}, {}, "last");
  }
  Graph g;
  Output x, y, last;
};

inline Status RunInto(const Callable& step, const tenon_tensor_view& feed, const tenon_tensor_view& fetch) {
  const tenon_tensor_view* const feeds[] = {&feed};
  return step.RunInto(feeds, &fetch);
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_PINNED_H_
