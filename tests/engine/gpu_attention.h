// SPDX-License-Identifier: Apache-2.0
// Attention as graphs write it, with the formula in double, for tests of what GPUs' compilers make of it and of its
// gradients.
#ifndef TENON_TESTS_ENGINE_GPU_ATTENTION_H_
#define TENON_TESTS_ENGINE_GPU_ATTENTION_H_

#include <dlfcn.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "devices/cuda/emulation/driver_controls.h"
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                       kNan = std::numeric_limits<float>::quiet_NaN();

inline Runtime& Gpus() {
  static Runtime* const runtime = [] {
    auto made = Runtime::Create(device_test::GpuOptions());
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT: nothing can be tested without a runtime
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

struct Answer {
  std::vector<std::vector<float>> values;
  int compiled = 0;  // nodes that are no kernel of their own
  int products = 0;  // batches of products among them
  int softmaxes = 0;
};
inline Answer AnswerOf(const Graph& graph, const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                       bool compile, int steps = 1) {
  SessionOptions options;
  options.device = device_test::kGpu;
  options.compile = compile;
  auto session = Session::Create(Gpus(), graph, options);
  Answer answer;
  const auto failed = [&](const auto& result) {
    if (!result.ok()) ADD_FAILURE() << result.status();
    return !result.ok();
  };
  if (failed(session)) return answer;
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) {
    names.push_back(feed.name);
    views.push_back(feed.value);
  }
  auto callable = session->Prepare(names, fetches);
  if (failed(callable)) return answer;
  for (int step = 0; step < steps; ++step) {
    auto values = callable->Run(views);
    if (failed(values)) return answer;
    const std::vector<std::vector<float>> before = std::move(answer.values);
    answer.values.clear();
    for (const Tensor& each : *values) answer.values.push_back(Values<float>(each));
    for (size_t k = 0; k < before.size(); ++k) {
      for (size_t i = 0; i < before[k].size(); ++i)
        EXPECT_TRUE(before[k][i] == answer.values[k][i] || std::isnan(before[k][i])) << "step " << step;
    }
  }
  const std::string how = *callable->Explain();
  for (size_t at = 0; (at = how.find("\"op\":\"Softmax\"", at)) != std::string::npos; ++at) ++answer.softmaxes;
  for (size_t at = 0; (at = how.find("\"runs\":\"compiled\"", at)) != std::string::npos; ++at) {
    ++answer.compiled;
    const std::string node = how.substr(how.rfind("{\"name\"", at), at - how.rfind("{\"name\"", at));
    if (node.find("\"op\":\"BatchMatMul") != node.npos || node.find("\"op\":\"Einsum") != node.npos) ++answer.products;
  }
  return answer;
}

inline int64_t CountOf(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}
// Numbers that every type has, in no order that one sees.
inline std::vector<float> Numbers(const std::vector<int64_t>& dims, uint32_t seed, float unit = 1.0f / 32) {
  std::vector<float> numbers(static_cast<size_t>(CountOf(dims)));
  for (float& each : numbers) {
    seed = seed * 1664525 + 1013904223;
    each = static_cast<float>(static_cast<int>(seed >> 8) % 64) * unit * ((seed & 128) != 0 ? -1 : 1);
  }
  return numbers;
}

struct Sizes {
  int64_t batch, heads, queries, keys, depth, value_depth;
};
struct Case {
  Sizes s;
  DType dtype = DType::kFloat;
  std::vector<int64_t> mask_dims{};  // empty: no mask
  std::vector<float> mask{};
  float scale = 0.125f;
  bool divides = false;  // by 1 / scale
  bool mask_first = false;  // the sum's first operand
  bool unknown = false;  // batch and lengths
};

struct Layer {
  explicit Layer(const Case& c)
      : g(Gpus()),
        what(c),
        query(Numbers({c.s.batch, c.s.heads, c.s.queries, c.s.depth}, 1)),
        key(Numbers({c.s.batch, c.s.heads, c.s.keys, c.s.depth}, 2)),
        value(Numbers({c.s.batch, c.s.heads, c.s.keys, c.s.value_depth}, 3)) {
    q = Input("query", {c.s.batch, c.s.heads, c.s.queries, c.s.depth});
    k = Input("key", {c.s.batch, c.s.heads, c.s.keys, c.s.depth});
    v = Input("value", {c.s.batch, c.s.heads, c.s.keys, c.s.value_depth});
    scores = g.Op("BatchMatMulV2", {q, k}, {{"adj_y", true}});
    Output x = c.divides ? g.Op("RealDiv", {scores, Number(1 / c.scale)}) : g.Op("Mul", {scores, Number(c.scale)});
    if (!c.mask_dims.empty()) {
      mask = Input("mask", c.mask_dims);
      x = c.mask_first ? g.Op("AddV2", {mask, x}) : g.Op("AddV2", {x, mask});
    }
    probabilities = g.Op("Softmax", {x});
    out = g.Op("BatchMatMulV2", {probabilities, v});
    y = Floats(out);
  }
  Output Input(const char* name, std::vector<int64_t> dims) {
    if (what.unknown) {
      for (size_t d = 0; d + 1 < dims.size(); ++d) dims[d] = d == 1 || dims[d] == 1 ? dims[d] : -1;
    }
    const Output fed = g.Placeholder(name, DType::kFloat, Shape(dims));
    return what.dtype == DType::kFloat ? fed : g.Op("Cast", {fed}, {{"DstT", what.dtype}});
  }
  Output Number(float number) {
    return what.dtype == DType::kFloat ? g.Const(number) : g.Op("Cast", {g.Const(number)}, {{"DstT", what.dtype}});
  }
  Output Floats(const Output& of) {
    return what.dtype == DType::kFloat ? of : g.Op("Cast", {of}, {{"DstT", DType::kFloat}});
  }

  std::vector<Feed> Feeds() const {
    const auto tensor = [](const std::vector<float>& values, const std::vector<int64_t>& dims) {
      return *Tensor::From(values, Shape(dims));
    };
    const Sizes& s = what.s;
    std::vector<Feed> feeds = {{"query", tensor(query, {s.batch, s.heads, s.queries, s.depth})},
                               {"key", tensor(key, {s.batch, s.heads, s.keys, s.depth})},
                               {"value", tensor(value, {s.batch, s.heads, s.keys, s.value_depth})}};
    if (!what.mask_dims.empty()) feeds.push_back({"mask", tensor(what.mask, what.mask_dims)});
    return feeds;
  }

  // The formula, in double.
  std::vector<double> Formula() const {
    const Sizes& s = what.s;
    std::vector<double> result;
    for (int64_t b = 0; b < s.batch * s.heads; ++b) {
      for (int64_t i = 0; i < s.queries; ++i) {
        std::vector<double> weights;
        double most = -kInfinity, sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < s.depth; ++d)
            dot += double{query[static_cast<size_t>((b * s.queries + i) * s.depth + d)]} *
                   double{key[static_cast<size_t>((b * s.keys + j) * s.depth + d)]};
          weights.push_back(dot * double{what.scale} + MaskAt(b / s.heads, b % s.heads, i, j));
          most = std::max(most, weights.back());
        }
        for (double& weight : weights) sum += weight = std::exp(weight - most);
        for (int64_t d = 0; d < s.value_depth; ++d) {
          double total = 0;
          for (int64_t j = 0; j < s.keys; ++j)
            total += weights[static_cast<size_t>(j)] / sum *
                     double{value[static_cast<size_t>((b * s.keys + j) * s.value_depth + d)]};
          result.push_back(total);
        }
      }
    }
    return result;
  }
  double MaskAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (what.mask_dims.empty()) return 0;
    const int64_t at[] = {b, h, i, j};
    int64_t place = 0;
    for (size_t d = 0; d < what.mask_dims.size(); ++d) {
      const int64_t dim = what.mask_dims[d];
      place = place * dim + (dim == 1 ? 0 : at[4 - what.mask_dims.size() + d]);
    }
    return double{what.mask[static_cast<size_t>(place)]};
  }

  Graph g;
  const Case what;
  std::vector<float> query, key, value;
  Output q, k, v, mask, scores, probabilities, out, y;
};

// One rounding of the output beside those of the probabilities.
inline double BoundOf(DType dtype) { return dtype == DType::kFloat ? 3e-6 : dtype == DType::kHalf ? 2e-3 : 1.6e-2; }

inline constexpr DType kTypes[] = {DType::kFloat, DType::kHalf, DType::kBfloat16};

// A layer's attention as BERT has it: four dense layers, and heads that are transposed there and back.
struct BertLayer {
  static constexpr int64_t kBatch = 2, kSteps = 12, kHeads = 2, kWidth = 64 * kHeads;

  BertLayer() : g(Gpus()) {
    x = g.Placeholder("x", DType::kFloat, Shape{kBatch * kSteps, kWidth});
    const Output mask = g.Placeholder("mask", DType::kFloat, Shape{kBatch, 1, 1, kSteps});
    const Output query = Heads(1), key = Heads(2);
    probabilities =
        g.Op("Softmax",
             {g.Op("AddV2",
                   {g.Op("Mul", {g.Op("BatchMatMulV2", {query, key}, {{"adj_y", true}}), g.Const(0.125f)}), mask})});
    const Output seen = g.Op("BatchMatMulV2", {probabilities, Heads(3)});
    y = Dense(Shaped(Turned(seen), {kBatch * kSteps, kWidth}), 4);
  }
  std::vector<Feed> Feeds() const {
    return {{"x", *Tensor::From(Numbers({kBatch * kSteps, kWidth}, 5), Shape{kBatch * kSteps, kWidth})},
            {"mask", *Tensor::From(Numbers({kBatch, 1, 1, kSteps}, 6), Shape{kBatch, 1, 1, kSteps})}};
  }
  Output Dense(const Output& of, uint32_t seed) {
    const Output weight = g.Const(Numbers({kWidth, kWidth}, seed, 1.0f / 512), Shape{kWidth, kWidth}),
                 bias = g.Const(Numbers({kWidth}, seed), Shape{kWidth});
    weights.push_back(weight);
    weights.push_back(bias);
    return g.Op("BiasAdd", {g.Op("MatMul", {of, weight}), bias});
  }
  Output Shaped(const Output& of, std::vector<int32_t> dims) {
    const auto rank = static_cast<int64_t>(dims.size());
    return g.Op("Reshape", {of, g.Const(dims, Shape{rank})});
  }
  Output Turned(const Output& of) {
    return g.Op("Transpose", {of, g.Const(std::vector<int32_t>{0, 2, 1, 3}, Shape{4})});
  }
  Output Heads(uint32_t seed) { return Turned(Shaped(Dense(x, seed), {kBatch, kSteps, kHeads, 64})); }

  Graph g;
  Output x, y, probabilities;
  std::vector<Output> weights;
};

// Of the emulated driver; NULL: another one is used.
inline const EmulatedDriverControls* DriverCounts() {
  (void)Gpus();  // which open it
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const get = driver == nullptr
                        ? nullptr
                        : reinterpret_cast<EmulatedDriverControls* (*)()>(dlsym(driver, "tenon_emulated_driver"));
  return get == nullptr ? nullptr : get();
}
// What a step asks of the driver, once its work is captured.
inline uint64_t LaunchesOf(const EmulatedDriverControls& counts, const Graph& graph, const std::vector<Feed>& feeds,
                           const std::vector<Name>& fetches, bool compile) {
  SessionOptions options;
  options.device = device_test::kGpu;
  options.compile = compile;
  auto session = Session::Create(Gpus(), graph, options);
  EXPECT_TRUE(session.ok());
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) {
    names.push_back(feed.name);
    views.push_back(feed.value);
  }
  auto callable = session->Prepare(names, fetches);
  EXPECT_TRUE(callable.ok());
  for (int step = 0; step < 8; ++step) EXPECT_TRUE(callable->Run(views).ok());
  const uint64_t before = counts.launches + counts.graph_nodes;
  EXPECT_TRUE(callable->Run(views).ok());
  return counts.launches + counts.graph_nodes - before;
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_GPU_ATTENTION_H_
