// SPDX-License-Identifier: Apache-2.0
// Networks in training, as bench-gpu times them: what peers.py writes in PyTorch, here as graphs.
//
// A network has its published size, or one made smaller for machines and tests that could not bear it: Size says by how
// much, and peers.py reads the same numbers in the same way. The batch lies in variables, so that a step copies nothing
// from the host, as PyTorch's tensors lie on its device. What a step is: the loss, its gradients, and the optimizer's
// change of every weight, and of the running averages where there is batch normalisation. No dropout and no local
// response normalisation, as in the benchmarks that OSDI'16 took its networks from.
//
// Variables are named by their layer ("conv1/kernel"); filters are [height, width, inputs, outputs], kernels [inputs,
// outputs].
#ifndef TENON_TESTS_PERF_GPU_NETWORKS_H_
#define TENON_TESTS_PERF_GPU_NETWORKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"

namespace tenon::perf {

// 0: as published.
struct Size {
  int64_t batch = 0;
  int64_t side = 0;    // of a picture, in pixels
  int64_t steps = 0;   // words of a text
  int64_t words = 0;   // that there are
  int64_t layers = 0;  // of an encoder
  int64_t shrink = 0;  // all widths are divided by this
};

class Builder;

struct NetworkKind {
  std::string_view name;
  std::string_view what;
  Size published;
  Size tiny;  // a step of it takes a CPU some milliseconds
  train::OptimizerOptions::Kind optimizer;
  float rate;
  host::Output (*loss)(Builder& builder);
};

std::span<const NetworkKind> Networks();
// NOT_FOUND names those that there are.
host::Result<const NetworkKind*> FindNetwork(std::string_view name);
// `own` where `wished` has nothing.
Size Chosen(const Size& own, const Size& wished);

// A part of the batch: a variable that training leaves alone.
struct BatchPart {
  std::string name;
  host::Tensor value;
  host::Output fed;        // where the value goes in, once
  host::Operation assign;  // puts it into the variable
};

// A network, its batch and its optimizer, in one graph.
class Network {
 public:
  // Failures stick to the graph.
  Network(host::Graph& graph, const NetworkKind& kind, const Size& size);

  // Gives all variables their first values and puts the batch where the steps read it.
  host::Status Begin(const host::Session& session) const;

  const train::Model& model() const { return model_; }
  const std::vector<BatchPart>& batch() const { return batch_; }
  const host::Output& loss() const { return loss_; }
  const host::Operation& update() const { return update_; }  // ran when all variables have changed
  const Size& size() const { return size_; }
  // Of the products and convolutions of a step, forward and backward: two a multiplication and its addition.
  int64_t flop() const { return flop_; }

 private:
  friend class Builder;
  train::Model model_;
  const Size size_;
  int64_t flop_ = 0;
  std::vector<BatchPart> batch_;
  std::vector<host::Operation> averages_;  // updates of running averages
  host::Output loss_;
  host::Operation update_, initialize_;
};

}  // namespace tenon::perf

#endif  // TENON_TESTS_PERF_GPU_NETWORKS_H_
