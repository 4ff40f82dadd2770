// SPDX-License-Identifier: Apache-2.0
// Figure 1 of "TensorFlow: Large-Scale Machine Learning on Heterogeneous Distributed Systems" (2015): relu(Wx + b), run
// ten times on one input.
//
// The figure multiplies W of shape [784, 100] with a vector of 100 and adds a vector of 100; the shapes do not fit.
// Here x is a row of 784, and relu(xW + b) has shape [1, 100]. Its "C = [...]", a cost that the paper leaves open, is
// the sum.
#include <cstdio>
#include <vector>

#include "tenon/ops.h"

using namespace tenon::host;
namespace ops = tenon::ops;

namespace {

// A variable: its handle, and the node that gives it its first value.
struct Variable {
  Output handle;
  Operation initial;
};

Variable MakeVariable(Graph& graph, const char* name, const Shape& shape, const Output& first) {
  ops::VarHandleOpOptions options;
  options.shared_name = options.name = name;
  Output handle = ops::VarHandleOp(graph, DType::kFloat, shape, options);
  return {handle, ops::AssignVariableOp(graph, handle, first)};
}

Status Run() {
  TENON_TRY_ASSIGN(Runtime runtime, Runtime::Create());
  Graph graph(runtime);
  // b = tf.Variable(tf.zeros([100]));  W = tf.Variable(tf.random_uniform([784, 100], -1, 1))
  Variable b = MakeVariable(graph, "b", {100}, ops::Fill(graph, graph.Const({100}), graph.Const(0.0f)));
  ops::RandomUniformOptions seeded;
  seeded.seed = 1;
  Output uniform = ops::RandomUniform(graph, graph.Const({784, 100}), DType::kFloat, seeded);  // in [0, 1)
  Output centred = ops::Sub(graph, ops::Mul(graph, uniform, graph.Const(2.0f)), graph.Const(1.0f));
  Variable w = MakeVariable(graph, "W", {784, 100}, centred);
  // x = tf.placeholder(name="x");  relu = tf.nn.relu(tf.matmul(x, W) + b);  C = [...]
  Output x = graph.Placeholder("x", DType::kFloat, {1, 784});
  Output product = ops::MatMul(graph, x, ops::ReadVariableOp(graph, w.handle, DType::kFloat));
  Output relu = ops::Relu(graph, ops::AddV2(graph, product, ops::ReadVariableOp(graph, b.handle, DType::kFloat)));
  Output cost = ops::Sum(graph, relu, graph.Const({0, 1}));

  // s = tf.Session();  for step in range(10): result = s.run(C, feed_dict={x: input}); print step, result
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));
  TENON_TRY(session.RunTargets({b.initial, w.initial}));
  for (int step = 0; step < 10; ++step) {
    std::vector<float> input(784);
    for (size_t i = 0; i < input.size(); ++i)
      input[i] = static_cast<float>((i * 7 + static_cast<size_t>(step) * 13) % 10) / 10;
    TENON_TRY_ASSIGN(const std::vector<Tensor> result, session.Run({{x, View(input, {1, 784})}}, {cost}));
    std::printf("%d %g\n", step, result[0].scalar<float>());
  }
  return Status();
}

}  // namespace

int main() {
  const Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "white_paper_figure1: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
