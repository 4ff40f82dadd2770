// SPDX-License-Identifier: Apache-2.0
// The tiny network of the figures as a graph: 64 -> 32, relu -> 10, softmax cross entropy, gradient descent; batch 32.
#ifndef TENON_TESTS_PERF_TINY_NETWORK_H_
#define TENON_TESTS_PERF_TINY_NETWORK_H_

#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"

namespace tenon::perf {

class TinyNetwork {
 public:
  TinyNetwork(host::Graph& graph, float rate) : model(graph) {
    using train::Initializer;
    x = graph.Placeholder("x", host::DType::kFloat, {32, 64});
    labels = graph.Placeholder("labels", host::DType::kInt64, {32});
    const host::Output hidden = model.Relu(model.Dense("dense1", x, 64, 32, Initializer::He(64)));
    const host::Output logits = model.Dense("dense2", hidden, 32, 10, Initializer::He(32));
    loss = train::SparseSoftmaxLoss(graph, logits, labels);
    train::OptimizerOptions options;
    options.kind = train::OptimizerOptions::Kind::kGradientDescent;
    update = train::Minimize(model, loss, graph.Const(rate), options);
    initialize = model.InitializeAll();
  }

  train::Model model;
  host::Output x, labels, loss;
  host::Operation update, initialize;
};

}  // namespace tenon::perf

#endif  // TENON_TESTS_PERF_TINY_NETWORK_H_
