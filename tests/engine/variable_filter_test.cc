// SPDX-License-Identifier: Apache-2.0
// Filters that are variables: what kernels keep of them from step to step (ext/draft/lasting_view.h) is never an old
// value, whoever writes and however. Covers D1, D3.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::variable_filter_test {
namespace {

constexpr int64_t kSide = 24, kIn = 32, kOut = 32;
const std::vector<int64_t> kImage{1, kSide, kSide, kIn}, kFilter{3, 3, kIn, kOut};

Tensor Numbers(const std::vector<int64_t>& dims, uint32_t seed) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;  // sums are exact
  return *Tensor::From(values, Shape(dims));
}

// y = convolution of x with a variable; with `chained` a bias and a rectifier follow, which are one primitive with it.
struct Network {
  Graph g{TheRuntime()};
  explicit Network(bool chained) {
    const Output handle = g.Op(
        "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape(kFilter)}, {"shared_name", "filter"}}, "filter");
    const Output given = g.Placeholder("given", DType::kFloat, Shape(kFilter));
    g.AddNode("AssignVariableOp", {handle, given}, {}, "assign");
    g.AddNode("AssignAddVariableOp", {handle, given}, {}, "add");
    const Output value = g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}});
    const Output x = g.Placeholder("x", DType::kFloat, Shape(kImage));
    Convolve(x, value, chained, "y");
    Convolve(x, g.Placeholder("fed", DType::kFloat, Shape(kFilter)), chained, "expected");
  }
  void Convolve(const Output& x, const Output& filter, bool chained, const std::string& name) {
    Output y = g.Op("Conv2D", {x, filter}, {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}},
                    chained ? name + "/convolution" : name);
    if (!chained) return;
    y = g.Op("BiasAdd", {y, g.Const(Numbers({kOut}, 7))});
    g.Op("Relu", {y}, {}, name);
  }
};

std::vector<float> Values(const Tensor& tensor) { return {tensor.data<float>().begin(), tensor.data<float>().end()}; }

class VariableFilter : public testing::TestWithParam<bool> {
 protected:
  VariableFilter() : network_(GetParam()), session_(*Session::Create(TheRuntime(), network_.g)) {}
  std::vector<float> Y() { return Values((*session_.Run({{"x", x_}}, {"y"}))[0]); }
  std::vector<float> Expected(const Tensor& filter) {
    return Values((*session_.Run({{"x", x_}, {"fed", filter}}, {"expected"}))[0]);
  }
  void Write(const char* how, const Tensor& value) {
    const Status status = session_.Run({{"given", value}}, {}, {how}).status();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  Network network_;
  Session session_;
  const Tensor x_ = Numbers(kImage, 1);
};
INSTANTIATE_TEST_SUITE_P(Each, VariableFilter, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "chained" : "alone"); });

TEST_P(VariableFilter, GivesTheNewValueAfterEachWrite) {
  std::vector<float> filter = Values(Numbers(kFilter, 2));
  Write("assign", *Tensor::From(filter, Shape(kFilter)));
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const std::vector<float> expected = Expected(*Tensor::From(filter, Shape(kFilter)));
    for (uint32_t reads = random() % 12; reads > 0; --reads) ASSERT_EQ(Y(), expected) << i;
    const Tensor more = Numbers(kFilter, 100 + static_cast<uint32_t>(i % 3));
    const bool adds = random() % 3 != 0;
    const std::vector<float> given = Values(more);
    for (size_t k = 0; k < filter.size(); ++k) filter[k] = adds ? filter[k] + given[k] : given[k];
    Write(adds ? "add" : "assign", more);
    ASSERT_EQ(Y(), Expected(*Tensor::From(filter, Shape(kFilter)))) << i;
  }
}

// A tensor of the caller, who may write to it between steps.
TEST_P(VariableFilter, AFeedIsReadAnewEachTime) {
  std::vector<float> fed = Values(Numbers(kFilter, 2));
  const std::vector<float> x = Values(x_);
  const auto callable = session_.Prepare({"x", "fed"}, {"expected"});
  ASSERT_TRUE(callable.ok()) << callable.status().message();
  for (int i = 0; i < 20; ++i) {
    const auto found = callable->Run(
        {View(std::span<const float>(x), Shape(kImage)), View(std::span<const float>(fed), Shape(kFilter))});
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_EQ(Values((*found)[0]), Expected(*Tensor::From(fed, Shape(kFilter)))) << i;
    for (float& value : fed) value = -value;
  }
}

// Two threads run steps, one writes: each step sees one of the values whole.
TEST_P(VariableFilter, StepsBesideAWriterSeeOneValueOrTheOther) {
  const Tensor filters[] = {Numbers(kFilter, 2), Numbers(kFilter, 3)};
  const std::vector<float> expected[] = {Expected(filters[0]), Expected(filters[1])};
  Write("assign", filters[0]);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, steps{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (!stop) {
        const std::vector<float> y = Y();
        wrong += y != expected[0] && y != expected[1];
        ++steps;
      }
    });
  std::mt19937 random(5);
  for (int i = 1; i <= 200; ++i) {
    Write("assign", filters[i % 2]);
    for (int pause = steps + static_cast<int>(random() % 12); steps < pause;) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0) << "of " << steps;
  EXPECT_EQ(Y(), expected[0]);
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Kernels that read one variable keep what they have made of it once.
TEST(VariableFilters, OfOneVariableAreKeptOnce) {
  constexpr int64_t kChannels = 256, kConvolutions = 48, kBytes = 9 * kChannels * kChannels * int64_t{sizeof(float)};
  const std::vector<int64_t> filter_dims{3, 3, kChannels, kChannels}, image_dims{1, 8, 8, kChannels};
  Graph g(TheRuntime());
  const Output handle =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape(filter_dims)}, {"shared_name", "filter"}});
  const Output given = g.Placeholder("given", DType::kFloat, Shape(filter_dims));
  g.AddNode("AssignVariableOp", {handle, given}, {}, "assign");
  const Output x = g.Placeholder("x", DType::kFloat, Shape(image_dims)),
               value = g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}});
  std::vector<Output> sums;
  for (int64_t i = 0; i < kConvolutions; ++i) {
    const Output own = g.Op("Mul", {x, g.Const(static_cast<float>(i % 3))});
    const Output y = g.Op("Conv2D", {g.Op("AddV2", {own, g.Const(static_cast<float>(i))}), value},
                          {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}});
    sums.push_back(g.Op("Sum", {y, g.Const({0, 1, 2, 3})}));
  }
  g.AddNode("AddN", sums, {}, "all");
  Session session = *Session::Create(TheRuntime(), g);
  const Tensor image = Numbers(image_dims, 1);
  const auto run = [&] {
    const auto found = session.Run({{"x", image}}, {"all"});
    EXPECT_TRUE(found.ok()) << found.status().message();
  };
  for (const uint32_t seed : {2u, 3u}) {
    const Status assigned = session.Run({{"given", Numbers(filter_dims, seed)}}, {}, {"assign"}).status();
    ASSERT_TRUE(assigned.ok()) << assigned.message();
    run();
    const int64_t before = ResidentBytes();
    for (int i = 0; i < 40; ++i) run();
    EXPECT_LT(ResidentBytes() - before, kConvolutions * kBytes / 2) << seed;
  }
}

}  // namespace
}  // namespace tenon::engine::variable_filter_test
