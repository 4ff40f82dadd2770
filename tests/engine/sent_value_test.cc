// SPDX-License-Identifier: Apache-2.0
// Large values that go from part to part in the very memory that their kernels wrote: nobody writes it while they are
// on their way, whatever the sender does next. Covers H5.
#include <thread>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::sent_value_test {
namespace {

constexpr int64_t kSide = 160;  // 100 KiB

Runtime& TwoDevices() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugin_options = {{"tenon.cpu", "devices", "2"}};
    auto made = Runtime::Create(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

Tensor Values(int step) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < kSide * kSide; ++i)
    numbers.push_back(static_cast<float>((i * 7 + step * 31) % 211) / 64 - 1.5f);
  return *Tensor::From(numbers, Shape{kSide, kSide});
}

// What the first device sends it reads again, writes over where it may, sends in two shapes, and is asked for.
struct Net {
  Net() : g(TwoDevices()) {
    x = g.Placeholder("x", DType::kFloat, {kSide, kSide});
    const auto on = [&](int device) { return g.Device("/device:CPU:" + std::to_string(device)); };
    Output a, b, c, d, flat, e;
    {
      const auto first = on(0);
      a = g.Op("Tanh", {x});
      b = g.Op("Square", {g.Op("MatMul", {a, a})});
      flat = g.Op("Reshape", {b, g.Const<int32_t>({-1})});
      c = g.Op("Neg", {b});  // in the memory of b, if it may
      d = g.Op("Exp", {g.Op("Mul", {c, g.Const(0.001f)})});
    }
    {
      const auto second = on(1);
      e = g.Op("AddV2", {g.Op("AddV2", {a, b}), g.Op("Reshape", {flat, g.Const<int32_t>({kSide, kSide})})});
      e = g.Op("AddV2", {e, d});
    }
    fetches = {e, c, d, b};
  }
  Graph g;
  Output x;
  std::vector<Name> fetches;
};

Session MakeSession(const Net& net, bool partition) {
  SessionOptions options;
  options.debug.partition = partition;
  auto session = Session::Create(TwoDevices(), net.g, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return std::move(*session);
}

TEST(SentValues, AreTheOnesThatWereMadeStepAfterStep) {
  const Net net;
  ASSERT_TRUE(net.g.status().ok()) << net.g.status().message();
  Session whole = MakeSession(net, false), parted = MakeSession(net, true);
  for (int step = 0; step < 20; ++step) {
    const auto wanted = whole.Run({{net.x, Values(step)}}, net.fetches),
               found = parted.Run({{net.x, Values(step)}}, net.fetches);
    ASSERT_TRUE(wanted.ok() && found.ok()) << wanted.status().message() << found.status().message();
    for (size_t i = 0; i < wanted->size(); ++i)
      ASSERT_EQ(DoublesOf((*found)[i]), DoublesOf((*wanted)[i])) << "step " << step << ", fetch " << i;
  }
}

TEST(SentValues, OfStepsBesideOneAnotherDoNotMeet) {
  const Net net;
  Session whole = MakeSession(net, false), parted = MakeSession(net, true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const auto wanted = whole.Run({{net.x, Values(t)}}, net.fetches);
      ASSERT_TRUE(wanted.ok());
      for (int step = 0; step < 20; ++step) {
        const auto found = parted.Run({{net.x, Values(t)}}, net.fetches);
        ASSERT_TRUE(found.ok()) << found.status().message();
        for (size_t i = 0; i < wanted->size(); ++i)
          ASSERT_EQ(DoublesOf((*found)[i]), DoublesOf((*wanted)[i])) << "thread " << t << ", fetch " << i;
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tenon::engine::sent_value_test
