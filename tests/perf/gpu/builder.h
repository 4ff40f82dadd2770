// SPDX-License-Identifier: Apache-2.0
// What networks.cc builds its networks of: layers over train::Model, and the parts of a batch.
//
// Shapes are known while a graph is built, so that a layer needs to be told what comes out of it and not what goes in.
#ifndef TENON_TESTS_PERF_GPU_BUILDER_H_
#define TENON_TESTS_PERF_GPU_BUILDER_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "networks.h"

namespace tenon::perf {

// How a window stands over a picture.
struct Window {
  int64_t size;
  int64_t stride = 1;
  int64_t pad = 0;  // on each side
};

class Builder {
 public:
  Builder(host::Graph& graph, Network& network) : graph_(graph), network_(network), model_(network.model_) {}

  host::Graph& graph() { return graph_; }
  const Size& size() const { return network_.size_; }
  // A width, made smaller with the network.
  int64_t Of(int64_t width) const { return width / size().shrink > 0 ? width / size().shrink : 1; }

  // ---- The batch ----
  host::Output Normal(std::string_view name, const host::Shape& shape);
  host::Output Integers(std::string_view name, const host::Shape& shape, int64_t end);  // from 0
  host::Output Given(std::string_view name, const std::vector<int64_t>& values, const host::Shape& shape);

  // ---- Variables ----
  host::Output Weight(const std::string& name, const host::Shape& shape, const train::Initializer& initializer) {
    return model_.Weight(name, shape, initializer).value;
  }

  // ---- Pictures: [batch, height, width, channels] ----
  host::Output Conv(const std::string& name, host::Output x, int64_t filters, const Window& window, bool bias = true);
  host::Output ConvRelu(const std::string& name, host::Output x, int64_t filters, const Window& window) {
    return Relu(Conv(name, x, filters, window));
  }
  // In training; the running averages follow by a tenth.
  host::Output BatchNorm(const std::string& name, host::Output x);
  // padding SAME covers every pixel, also of a last window that is only partly inside.
  host::Output MaxPool(host::Output x, int64_t size, int64_t stride, const char* padding = "VALID");
  host::Output Flatten(host::Output x) { return Reshape(x, {size().batch, -1}); }

  // ---- Rows: [rows, width] ----
  // deviation 0: He's.
  host::Output Dense(const std::string& name, host::Output x, int64_t units, float deviation = 0);
  host::Output LayerNorm(const std::string& name, host::Output x);  // over the last dimension
  host::Output CrossEntropy(host::Output logits, host::Output labels) {
    return train::SparseSoftmaxLoss(graph_, logits, labels);
  }

  // ---- Single ops ----
  host::Output Op(std::string_view op, const std::vector<host::Output>& inputs, const host::Attrs& attrs = {}) {
    return graph_.Op(op, inputs, attrs);
  }
  host::Output Relu(host::Output x) { return Op("Relu", {x}); }
  host::Output Add(host::Output a, host::Output b) { return Op("AddV2", {a, b}); }
  host::Output Mul(host::Output a, host::Output b) { return Op("Mul", {a, b}); }
  host::Output Scale(host::Output x, float factor) { return Mul(x, graph_.Const(factor)); }
  host::Output Gelu(host::Output x);  // by the error function
  host::Output Reshape(host::Output x, const std::vector<int64_t>& dims);
  host::Output Transpose(host::Output x, const std::vector<int64_t>& order);
  host::Output Rows(host::Output table, host::Output which);  // table[which]
  // Of the last two dimensions; transpose: of b's.
  host::Output Product(host::Output a, host::Output b, bool transpose = false);
  host::Output Mean(host::Output x, const std::vector<int64_t>& axes, bool keep = false);

 private:
  // So many multiplications forward, and as many for the gradient of each factor that has one.
  void Count(int64_t multiplications, const host::Output& x);
  host::Output Part(std::string_view name, host::Result<host::Tensor> value);
  host::Output List(const std::vector<int64_t>& values);

  host::Graph& graph_;
  Network& network_;
  train::Model& model_;
  std::mt19937 random_{17};
};

}  // namespace tenon::perf

#endif  // TENON_TESTS_PERF_GPU_BUILDER_H_
