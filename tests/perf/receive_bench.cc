// SPDX-License-Identifier: Apache-2.0
// What receive scheduling saves: the most memory that a simulated accelerator has in use in a step, of five named
// graphs, when values go to it as soon as they are there and when they go as they are needed; the results are compared.
// Printed as a table, for an accelerator of 8 MiB and for one of 1 GiB: where all that a step brings is less than a
// sixteenth of the memory, values lie apart, lest copies wait for one another, and nothing is saved.
//
//   receive_bench            one program for all devices
//   receive_bench --parts    one part for each device
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tenon/tenon.h"

using namespace tenon::host;  // NOLINT: a program of its own

namespace {

constexpr int kSteps = 5;

template <typename T>
T Checked(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.status().message().c_str());
  std::exit(1);
}

struct Model {
  explicit Model(Runtime& runtime) : graph(runtime), random(1) {}

  Output Feed(std::vector<int64_t> dims) {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = std::uniform_real_distribution<float>(-0.1f, 0.1f)(random);
    const Output feed = graph.Placeholder("x" + std::to_string(feeds.size()), DType::kFloat, Shape(dims));
    feeds.push_back({feed, Checked(Tensor::From(values, Shape(dims)))});
    return feed;
  }
  Output MatMul(const Output& a, const Output& b) { return graph.Op("MatMul", {a, b}); }
  Output Add(const Output& a, const Output& b) { return graph.Op("AddV2", {a, b}); }

  Graph graph;
  std::mt19937 random;
  std::vector<tenon::host::Feed> feeds;
  std::vector<Name> fetches;
};

// The weights of each layer come from the host.
void Layers(Model& m) {
  Output x = m.Feed({32, 256});
  for (int layer = 0; layer < 12; ++layer) x = m.graph.Op("Relu", {m.MatMul(x, m.Feed({256, 256}))});
  m.fetches = {x};
}

// One input a time step, as a sequence that is read on the way.
void Recurrence(Model& m) {
  const Output weights = m.Feed({128, 128});
  Output state = m.Feed({64, 128});
  for (int step = 0; step < 24; ++step)
    state = m.graph.Op("Tanh", {m.Add(m.MatMul(state, weights), m.Feed({64, 128}))});
  m.fetches = {state};
}

// Blocks of a matrix, one after the other into one sum.
void Blocks(Model& m) {
  const Output right = m.Feed({256, 64});
  Output sum = m.MatMul(m.Feed({128, 256}), right);
  for (int block = 1; block < 16; ++block) sum = m.Add(sum, m.MatMul(m.Feed({128, 256}), right));
  m.fetches = {sum};
}

// Keys and values of each layer are kept by the host.
void Attention(Model& m) {
  Output x = m.Feed({16, 64});
  for (int layer = 0; layer < 8; ++layer) {
    const Output keys = m.Feed({64, 512}), values = m.Feed({512, 64});
    x = m.Add(x, m.MatMul(m.graph.Op("Softmax", {m.MatMul(x, keys)}), values));
  }
  m.fetches = {x};
}

// A training step: forwards, and the gradients of the weights by hand; masks of each layer are made on the host.
void Training(Model& m) {
  std::vector<Output> inputs, masks, weights;
  Output x = m.Feed({64, 128});
  for (int layer = 0; layer < 6; ++layer) {
    inputs.push_back(x);
    weights.push_back(m.Feed({128, 128}));
    masks.push_back(m.Feed({64, 128}));
    x = m.graph.Op("Mul", {m.MatMul(x, weights.back()), masks.back()});
  }
  Output back = m.graph.Op("Sub", {x, m.Feed({64, 128})});
  for (int layer = 5; layer >= 0; --layer) {
    const auto at = static_cast<size_t>(layer);
    back = m.graph.Op("Mul", {back, masks[at]});
    m.fetches.push_back(
        m.graph.Op("Sum", {m.graph.Op("MatMul", {inputs[at], back}, {{"transpose_a", true}}), m.graph.Const({0, 1})}));
    back = m.graph.Op("MatMul", {back, weights[at]}, {{"transpose_b", true}});
  }
}

struct Run {
  uint64_t peak = 0;
  std::vector<Tensor> values;
};

Run RunIt(Runtime& runtime, Model& model, bool early, bool parts) {
  SessionOptions options;
  options.device = "/device:TPU:0";
  options.debug.early_transfers = early;
  options.debug.partition = parts;
  options.compile = false;
  Session session = Checked(Session::Create(runtime, model.graph, options));
  Run run;
  for (int step = 0; step < kSteps; ++step) run.values = Checked(session.Run(model.feeds, model.fetches));
  run.peak = Checked(session.Metrics()).device_peak_bytes;
  return run;
}

bool Same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!std::equal(a[i].bytes().begin(), a[i].bytes().end(), b[i].bytes().begin(), b[i].bytes().end())) return false;
  return a.size() == b.size();
}

// Of how many graphs the step takes less.
int Compare(int64_t memory_bytes, bool parts) {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "1"},
                            {"tenon.tpu_sim", "precision", "exact"},
                            {"tenon.tpu_sim", "memory_bytes", std::to_string(memory_bytes)}};
  Runtime runtime = Checked(Runtime::Create(options));
  const std::pair<const char*, std::function<void(Model&)>> models[] = {{"layers", Layers},
                                                                        {"recurrence", Recurrence},
                                                                        {"blocks", Blocks},
                                                                        {"attention", Attention},
                                                                        {"training", Training}};
  std::printf("an accelerator of %lld MiB\n", static_cast<long long>(memory_bytes >> 20));
  std::printf("%-12s %14s %14s %7s  %s\n", "graph", "early, bytes", "as needed", "ratio", "results");
  int less = 0;
  for (const auto& [name, make] : models) {
    Model model(runtime);
    make(model);
    const Run early = RunIt(runtime, model, true, parts), late = RunIt(runtime, model, false, parts);
    const bool same = Same(early.values, late.values);
    less += late.peak < early.peak && same;
    std::printf("%-12s %14llu %14llu %7.2f  %s\n", name, static_cast<unsigned long long>(early.peak),
                static_cast<unsigned long long>(late.peak),
                static_cast<double>(late.peak) / static_cast<double>(early.peak), same ? "equal" : "DIFFERENT");
  }
  std::printf("less memory in %d of 5\n", less);
  return less;
}

int Main(bool parts) {
  const int small = Compare(int64_t{8} << 20, parts);
  Compare(int64_t{1} << 30, parts);
  return small >= 4 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return Main(argc > 1 && std::strcmp(argv[1], "--parts") == 0); }
