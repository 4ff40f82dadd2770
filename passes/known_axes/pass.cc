// SPDX-License-Identifier: Apache-2.0
// What sums up a gradient along the axes that its operand was repeated along, where a graph that does not know its
// batch asks for them in the step:
//
//   Reshape(Sum(gradient, BroadcastGradientArgs(Shape(x), Shape(y)):0), Shape(x))
//
// and the sizes that a step is fed do not matter for the answer, by the names of dims (tenon_shape): none, and the
// gradient stands in its place; or some, and a sum along constant axes does. Then the gradient graph is the one of
// known shapes, and what looks for patterns in it finds them. The sums of loops and of branches stay.
#include <algorithm>
#include <optional>
#include <vector>

#include "products.h"
#include "straight.h"
#include "tenon/sdk/op/graph_pass.h"
#include "tenon/sdk/package.h"

namespace tenon::passes {
namespace {

using sdk::Output;
using sdk::Shape;

// The axes of what both broadcast to along which `of` is repeated, as far as a sum along them gives of's sizes: where
// of has a 1. Nothing: it is not known of an axis whether it is one.
std::optional<std::vector<int64_t>> RepeatedAxes(const Shape& of, const Shape& other) {
  std::vector<int64_t> axes;
  const int rank = std::max(of.rank(), other.rank());
  for (int i = 0; i < rank; ++i) {
    const int from_end = rank - i;
    const int64_t x = from_end <= of.rank() ? of[-from_end] : 1, y = from_end <= other.rank() ? other[-from_end] : 1;
    if (x == sdk::kUnknown || y == sdk::kUnknown) return {};
    if (x == y || y == 1) continue;
    if (x == 1) axes.push_back(i);
    else if (x < 0) return {};  // it may be 1
  }
  return axes;
}

class Pass {
 public:
  explicit Pass(sdk::PassContext& p) : p_(p), straight_(StraightNodes(p)) {}

  void Run() {
    std::vector<Found> all;
    for (int64_t id = 0, count = p_.node_count(); id < count; ++id) {
      if (const std::optional<Found> found = Find(id)) all.push_back(*found);
    }
    for (const Found& found : all) Replace(found);
  }

 private:
  struct Found {
    int64_t reshape = -1;
    Output gradient;
    std::vector<int64_t> axes;
    bool keeps = false;
  };

  // Whether it is that op, waits for nothing but its inputs, and no value is given in its place.
  bool Is(int64_t id, std::string_view op) {
    bool is = id >= 0 && p_.Runs(id) && p_.control_input_count(id) == 0;
    if (is) p_.With(id, [&](sdk::NodeContext& c) { is = c.op() == op; });
    return is;
  }

  std::optional<Found> Find(int64_t id) {
    if (!Is(id, "Reshape") || !straight_[static_cast<size_t>(id)]) return {};
    const Output sum = p_.input(id, 0);
    if (!Is(sum.node, "Sum")) return {};
    const Output axes = p_.input(sum.node, 1);
    if (!Is(axes.node, "BroadcastGradientArgs")) return {};
    Found found = {id, p_.input(sum.node, 0), {}};
    const Shape of = p_.Elements(p_.input(axes.node, axes.index)),
                other = p_.Elements(p_.input(axes.node, 1 - axes.index)), wanted = p_.Elements(p_.input(id, 1));
    const Shape gradient = p_.NamedShape(found.gradient);
    if (!of.known_rank() || !other.known_rank() || !gradient.known_rank() || !wanted.known_rank()) return {};
    const std::optional<std::vector<int64_t>> repeated = RepeatedAxes(of, other);
    // Of products of batches they are the first axes of more.
    if (!repeated.has_value() || std::max(of.rank(), other.rank()) > gradient.rank()) return {};
    if (std::find(wanted.dims().begin(), wanted.dims().end(), sdk::kUnknown) != wanted.dims().end()) return {};
    found.axes = *repeated;
    found.keeps = Left(gradient, found.axes, true) == wanted;
    return found.keeps || Left(gradient, found.axes, false) == wanted ? std::optional(found) : std::nullopt;
  }
  // What a sum along the axes leaves.
  static Shape Left(const Shape& shape, const std::vector<int64_t>& axes, bool keeps) {
    Shape left = Shape::Scalar();
    for (int d = 0; d < shape.rank(); ++d) {
      const bool is_summed = std::find(axes.begin(), axes.end(), d) != axes.end();
      if (!is_summed) left.Append(shape[d]);
      else if (keeps) left.Append(1);
    }
    return left;
  }

  void Replace(const Found& found) {
    if (found.axes.empty()) return p_.Replace(found.reshape, {found.gradient});
    p_.Begin(found.reshape, p_.DeviceOf(found.reshape));
    const Output sum = p_.Sum(found.gradient, p_.Vector(found.axes), found.keeps);
    p_.Replace(found.reshape, {sum});
  }

  sdk::PassContext& p_;
  const std::vector<bool> straight_;
};

constexpr tenon_span kOps[] = {TENON_SPAN("BroadcastGradientArgs"), TENON_SPAN("AddN")};

void Run(sdk::PassContext& p) {
  const auto asks = [&](int64_t id) {
    bool is = false;
    p.With(id, [&](sdk::NodeContext& c) { is = c.op() == "BroadcastGradientArgs"; });
    return is;
  };
  if (std::any_of(p.nodes().begin(), p.nodes().end(), asks)) Pass(p).Run();
  JoinProducts(p);
}

constexpr tenon_graph_pass kPass = sdk::DefinePass<Run>("known-axes", kOps);

}  // namespace
}  // namespace tenon::passes

TENON_PASS_PLUGIN("tenon.passes.known_axes", "0.1.0",
                  "Sums of gradients along axes that are known, whatever sizes a step is fed; products of the steps of "
                  "a sequence as one.",
                  tenon::passes::kPass)
