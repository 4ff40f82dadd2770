// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile GraphDefs: truncated, mutated by structure and by byte. Each is refused with a clear status, or runs
// within its limits; never a crash, a hang or an unbounded allocation.
#include <chrono>
#include <random>

#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

// A graph with a bit of everything: constants, a variable, a matmul, shapes, a loop.
std::string SampleGraph() {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {2, 3});
  const Output w = g.Const(std::vector<float>(12, 0.5f), {3, 4}, "w");
  const Output y = g.Op("MatMul", {x, w}, {}, "y");
  const Output z = g.Op("Reshape", {y, g.Const({4, 2}, "shape")}, {}, "z");
  g.Op("Conv2D", {g.Op("Reshape", {x, g.Const({1, 2, 3, 1})}), g.Const(std::vector<float>(4, 1.0f), {2, 2, 1, 1})},
       {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}}, "conv");
  g.Op("ConcatV2", {z, z, g.Const(0, "axis")}, {}, "concat");
  g.Op("StridedSlice", {z, g.Const({0, 0}), g.Const({2, 2}), g.Const({1, 1})}, {}, "slice");
  While(g, {g.Const(0), z}, {}, [&](const auto& v) { return g.Op("Less", {v[0], g.Const(3)}); },
        [&](const auto& v) { return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Tanh", {v[1]})}; });
  auto def = g.Export();
  EXPECT_TRUE(def.ok()) << def.status().message();
  return def.ok() ? *def : std::string();
}

// Imports, and runs what can be run, within limits. The answer does not matter; that there is one does.
void Try(const std::string& bytes) {
  SessionOptions options;
  options.memory_limit = 64 << 20;
  auto session = Session::Create(TheRuntime(), options);
  ASSERT_TRUE(session.ok());
  const Status imported = session->Extend(bytes);
  if (!imported.ok()) {
    EXPECT_FALSE(imported.message().empty());
    return;
  }
  RunOptions run;
  run.timeout = std::chrono::seconds(2);
  const Tensor x = *Tensor::Zeros(DType::kFloat, {2, 3});
  for (const char* fetch : {"concat", "conv", "slice", "while/Exit_1"}) {
    auto values = session->Run({{"x", x}}, {fetch}, {}, run);
    if (!values.ok()) EXPECT_FALSE(values.status().message().empty());
  }
}

TEST(HostileGraph, IsRefusedOrRunsWhenTruncatedAnywhere) {
  const std::string good = SampleGraph();
  for (size_t size = 0; size < good.size(); size += 7) Try(good.substr(0, size));
}

TEST(HostileGraph, IsRefusedOrRunsWhenMutated) {
  const std::string good = SampleGraph();
  std::mt19937 random(20151109);
  constexpr int kMutations = 6000;
  for (int i = 0; i < kMutations; ++i) {
    std::string bytes = good;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int e = 0; e < edits; ++e) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8))); break;
        case 2: bytes[at] = static_cast<char>(0xff); break;
        case 3: {  // numbers within names and attributes: small varints
          bytes[at] = static_cast<char>(random() % 16);
          break;
        }
        default: {  // one piece over another
          const size_t from = random() % bytes.size();
          const size_t size = std::min<size_t>({1 + random() % 16, bytes.size() - at, bytes.size() - from});
          bytes.replace(at, size, bytes.substr(from, size));
        }
      }
    }
    Try(bytes);
    if (testing::Test::HasFatalFailure()) FAIL() << "mutation " << i;
  }
}

TEST(HostileGraph, NamesTheNodeOfAMissingOpAndOfACycle) {
  Graph g(TheRuntime());
  auto session = Session::Create(TheRuntime(), SessionOptions());
  ASSERT_TRUE(session.ok());
  // node { name: "a" op: "MatMull" }
  const Status missing = session->Extend(std::string("\x0a\x0c\x0a\x01" "a\x12\x07" "MatMull", 14));
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find("did you mean 'MatMul'"), std::string::npos) << missing.message();
  EXPECT_NE(missing.message().find("node 'a'"), std::string::npos) << missing.message();
  // Two nodes that wait for each other.
  const Status cycle = session->Extend(std::string("\x0a\x0d\x0a\x01" "p\x12\x04NoOp\x1a\x02^q" "\x0a\x0d\x0a\x01" "q\x12\x04NoOp\x1a\x02^p", 30));
  EXPECT_NE(cycle.message().find("cycle"), std::string::npos) << cycle.message();
}

}  // namespace
}  // namespace tenon::engine
