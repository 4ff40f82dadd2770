// SPDX-License-Identifier: Apache-2.0
// Gradient functions: the nodes that carry gradients from an op's outputs to its inputs.
//
//   static void SigmoidGradient(GradientContext& g) {
//     g.SetDx(0, g.Op("SigmoidGrad", {g.output(0), g.dy(0)}));
//   }
//
// GradientFunction<SigmoidGradient> is the C function. Rules: the first failure sticks (node.h), after
// it no node is added; inputs that get no SetDx have no gradient; new nodes are node_builder.h's.
#ifndef TENON_SDK_OP_GRADIENT_H_
#define TENON_SDK_OP_GRADIENT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tenon/sdk/op/node_builder.h"

namespace tenon::sdk {

class GradientContext : public NodeBuilder {
 public:
  explicit GradientContext(const tenon_gradient_args* args)
      : NodeBuilder(TENON_HAS(args, self) ? args->self : nullptr, args->builder, args->node_services, args->node),
        args_(args) {}

  // ---- The node and what comes in ----

  Output input(int index) const { return args_->inputs[index]; }
  Output output(int index) const { return args_->outputs[index]; }
  // The incoming gradient of an output as a dense tensor of its shape: slices are summed up.
  Output dy(int index) {
    Output out{-1, 0, 0};
    if (ok()) Check(args_->dense_dy(args_, index, &out));
    return out;
  }
  // The incoming gradient as it is, perhaps slices.
  const tenon_gradient& raw_dy(int index) const { return args_->dy[index]; }
  // False when nothing but zeros comes in through the output.
  bool has_dy(int index) const {
    const uint32_t kind = raw_dy(index).kind;
    return kind == TENON_GRADIENT_DENSE || kind == TENON_GRADIENT_SLICES;
  }

  // Names these gradients apart from all others of the graph.
  std::string_view scope() const {
    return TENON_HAS(args_, scope) ? ToText(args_->scope) : std::string_view("gradients");
  }

  // ---- What goes out ----

  // Of the input's shape and type.
  void SetDx(int index, Output gradient) {
    if (ok()) args_->dx[index] = {TENON_GRADIENT_DENSE, 0, gradient, {}, {}};
  }
  // Rows `indices` (a vector) of a tensor of shape `dense_shape` (a vector) get the rows of `values`; the rest is zero,
  // and a row that stands twice gets the sum.
  void SetDxSlices(int index, Output values, Output indices, Output dense_shape) {
    if (ok()) args_->dx[index] = {TENON_GRADIENT_SLICES, 0, values, indices, dense_shape};
  }
  // Differentiable, and zero: the input does not change the outputs.
  void SetZero(int index) {
    if (ok()) args_->dx[index] = {TENON_GRADIENT_ZERO, 0, {}, {}, {}};
  }
  void SetNotDifferentiable(int index) {
    if (ok()) args_->dx[index] = {TENON_GRADIENT_NOT_DIFFERENTIABLE, 0, {}, {}, {}};
  }
  // dx[index] is dy[from], slices included.
  void PassOn(int index, int from) {
    if (ok()) args_->dx[index] = args_->dy[from];
  }

  // ---- Broadcasting ----

  // Sums `gradient`, which has the shape to which inputs `index` and `other` broadcast, over the axes
  // along which input `index` was repeated, and sets it as the input's gradient.
  void SetDxUnbroadcast(int index, int other, Output gradient) {
    SetDx(index, Unbroadcast(gradient, input(index), input(other)));
  }
  // gradient has the shape to which x and y broadcast; the result has x's.
  Output Unbroadcast(Output gradient, Output x, Output y) {
    if (x.node == y.node && x.index == y.index) return gradient;
    const Shape sx = shape(x), sy = shape(y);
    if (sx.fully_known() && sx == sy) return gradient;
    const auto axes = RepeatedAxes(sx, sy);
    if (!axes.has_value()) {
      const int64_t both = Node("BroadcastGradientArgs", {ShapeOf(x), ShapeOf(y)});
      return Reshape(Sum(gradient, {both, 0, 0}), ShapeOf(x));
    }
    if (axes->empty()) return gradient;
    if (sx.rank() >= sy.rank()) return Sum(gradient, Vector(*axes), true);
    const Output sum = Sum(gradient, Vector(*axes));
    const bool only_missing = static_cast<int>(axes->size()) == sy.rank() - sx.rank();
    return only_missing ? sum : Reshape(sum, ShapeOf(x));
  }

  // The axes of the broadcast result along which x is repeated; nullopt when they are not known.
  static std::optional<std::vector<int64_t>> RepeatedAxes(const Shape& x, const Shape& y) {
    if (!x.known_rank() || !y.known_rank()) return std::nullopt;
    const int rank = std::max(x.rank(), y.rank());
    std::vector<int64_t> axes;
    for (int i = 0; i < rank; ++i) {
      const int ix = i - (rank - x.rank()), iy = i - (rank - y.rank());
      const int64_t dx = ix < 0 ? 1 : x[ix], dy = iy < 0 ? 1 : y[iy];
      if (ix < 0) {
        axes.push_back(i);
      } else if (dx == 1) {
        if (dy != 1) axes.push_back(i);
      } else if (dx < 0 && dy != 1) {
        return std::nullopt;  // x may be 1 here
      }
    }
    return axes;
  }

 private:
  const tenon_gradient_args* args_;
};

// The C function of a gradient function in C++.
template <void (*Function)(GradientContext&)>
tenon_status* GradientFunction(const tenon_gradient_args* args) {
  return Guard([&] {
    GradientContext g(args);
    Function(g);
    return g.Finish();
  });
}

// ---- Gradient functions that many ops share ----

// dx[i] = dy[i] for every output, slices included (identities).
inline void PassOnGradient(GradientContext& g) {
  for (int i = 0; i < g.output_count(); ++i) g.PassOn(i, i);
}
// The shape changed and nothing else.
inline void ReshapedGradient(GradientContext& g) { g.SetDx(0, g.ReshapeLike(g.dy(0), g.input(0))); }

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_GRADIENT_H_
