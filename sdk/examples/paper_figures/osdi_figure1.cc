// SPDX-License-Identifier: Apache-2.0
// Figure 1 of "TensorFlow: A System for Large-Scale Machine Learning" (OSDI 2016): a network 784-100-10 trained with
// AdaGrad at 0.01.
//
// The figure adds b_2 to layer_1 before b_2 exists; it is b_1 here. It draws weights from [0, 1), with which 784 inputs
// saturate the softmax; here they are moved to [-0.05, 0.05). Its data are left open: here, ten made-up classes, each a
// random image, seen through noise.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tenon/ops.h"

using namespace tenon::host;
namespace ops = tenon::ops;

namespace {

constexpr int64_t kBatch = 64, kPixels = 784, kHidden = 100, kClasses = 10;
constexpr int kSteps = 300;

struct Variable {
  Output handle;
  Output value;
  Operation initial;
};

Variable MakeVariable(Graph& graph, const char* name, const Shape& shape, const Output& first) {
  ops::VarHandleOpOptions options;
  options.shared_name = options.name = name;
  Output handle = ops::VarHandleOp(graph, DType::kFloat, shape, options);
  return {handle, ops::ReadVariableOp(graph, handle, DType::kFloat), ops::AssignVariableOp(graph, handle, first)};
}

Output Zeros(Graph& graph, const Shape& shape, float value = 0) {
  return ops::Fill(graph, graph.Const(shape.dims(), {shape.rank()}), graph.Const(value));
}

Output SmallUniform(Graph& graph, const Shape& shape, int64_t seed) {
  ops::RandomUniformOptions seeded;
  seeded.seed = seed;
  Output uniform = ops::RandomUniform(graph, graph.Const(shape.dims(), {shape.rank()}), DType::kFloat, seeded);
  return ops::Mul(graph, ops::Sub(graph, uniform, graph.Const(0.5f)), graph.Const(0.1f));
}

// Numbers in [0, 1), the same in each run.
class Uniform {
 public:
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(state_ >> 40) / 16777216.0f;
  }

 private:
  uint64_t state_ = 42;
};

struct Batch {
  std::vector<float> x = std::vector<float>(kBatch * kPixels);
  std::vector<float> y = std::vector<float>(kBatch * kClasses);
};

Batch NextBatch(const std::vector<float>& prototypes, Uniform& uniform) {
  Batch batch;
  for (int64_t i = 0; i < kBatch; ++i) {
    const auto label = static_cast<int64_t>(uniform.Next() * kClasses);
    for (int64_t p = 0; p < kPixels; ++p) {
      batch.x[i * kPixels + p] = 0.5f * prototypes[label * kPixels + p] + 0.5f * uniform.Next();
    }
    batch.y[i * kClasses + label] = 1;
  }
  return batch;
}

Status Run() {
  TENON_TRY_ASSIGN(Runtime runtime, Runtime::Create());
  Graph graph(runtime);
  // 1. Construct a graph representing the model.
  Output x = graph.Placeholder("x", DType::kFloat, {kBatch, kPixels});
  Output y = graph.Placeholder("y", DType::kFloat, {kBatch, kClasses});
  Variable w1 = MakeVariable(graph, "W_1", {kPixels, kHidden}, SmallUniform(graph, {kPixels, kHidden}, 1));
  Variable b1 = MakeVariable(graph, "b_1", {kHidden}, Zeros(graph, {kHidden}));
  Output layer1 = ops::Relu(graph, ops::AddV2(graph, ops::MatMul(graph, x, w1.value), b1.value));
  Variable w2 = MakeVariable(graph, "W_2", {kHidden, kClasses}, SmallUniform(graph, {kHidden, kClasses}, 2));
  Variable b2 = MakeVariable(graph, "b_2", {kClasses}, Zeros(graph, {kClasses}));
  Output layer2 = ops::AddV2(graph, ops::MatMul(graph, layer1, w2.value), b2.value);

  // 2. Add nodes that represent the optimization algorithm.
  Output entropy = ops::SoftmaxCrossEntropyWithLogits(graph, layer2, y).loss;
  Output loss = ops::Mean(graph, entropy, graph.Const({0}));
  const std::vector<Variable> variables = {w1, b1, w2, b2};
  const std::vector<Gradient> gradients = graph.Gradients({loss}, {w1.value, b1.value, w2.value, b2.value});
  std::vector<Name> initial, train;
  for (size_t i = 0; i < variables.size(); ++i) {
    const Shape shape = variables[i].value.shape();
    const std::string slot_name = variables[i].handle.name() + "/Adagrad";
    Variable slot = MakeVariable(graph, slot_name.c_str(), shape, Zeros(graph, shape, 0.1f));
    initial.insert(initial.end(), {variables[i].initial, slot.initial});
    train.emplace_back(
        ops::ResourceApplyAdagrad(graph, variables[i].handle, slot.handle, graph.Const(0.01f), gradients[i].dense));
  }

  // 3. Execute the graph on batches of input data.
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));
  TENON_TRY(session.RunTargets(initial));
  TENON_TRY_ASSIGN(const Callable step, session.Prepare({x, y}, {loss}, train));
  Uniform uniform;
  std::vector<float> prototypes(kClasses * kPixels);
  for (float& pixel : prototypes) pixel = uniform.Next();
  for (int i = 0; i < kSteps; ++i) {
    const Batch batch = NextBatch(prototypes, uniform);
    TENON_TRY_ASSIGN(const std::vector<Tensor> values,
                     step.Run({View(batch.x, {kBatch, kPixels}), View(batch.y, {kBatch, kClasses})}));
    if (i % 50 == 0 || i + 1 == kSteps) std::printf("step %3d  loss %.4f\n", i, values[0].scalar<float>());
  }
  return Status();
}

}  // namespace

int main() {
  const Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "osdi_figure1: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
