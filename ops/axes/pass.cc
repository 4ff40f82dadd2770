// SPDX-License-Identifier: Apache-2.0
// What sums up a gradient along the axes that its operand was repeated along, where a graph that does not know its
// batch asks for them in the step:
//
//   Reshape(Sum(gradient, BroadcastGradientArgs(Shape(x), Shape(y)):0), Shape(x))
//
// and the sizes that a step is fed do not matter for the answer (sizes.h): none, and the gradient stands in its place;
// or some, and a sum along constant axes does. Then the gradient graph is the one of known shapes, and what looks for
// patterns in it finds them. The sums of loops and of branches stay.
#include "pass.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "products.h"
#include "sizes.h"

namespace tenon::ops {
namespace {

using sdk::Output;

class Pass {
 public:
  explicit Pass(sdk::PassContext& p) : p_(p), sizes_(p) {}

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

  // Whether it is that op, waits for nothing but its inputs, and is there in every step.
  bool Is(int64_t id, const char* op) const {
    return id >= 0 && sizes_.OpOf(id) == op && p_.control_input_count(id) == 0;
  }

  std::optional<Found> Find(int64_t id) {
    if (!Is(id, "Reshape") || !sizes_.IsStraight(id)) return {};
    const Output sum = p_.input(id, 0);
    if (!Is(sum.node, "Sum")) return {};
    const Output axes = p_.input(sum.node, 1);
    if (!Is(axes.node, "BroadcastGradientArgs")) return {};
    Found found = {id, p_.input(sum.node, 0), {}};
    const std::optional<Dims> of = sizes_.Of(p_.input(axes.node, axes.index)).elements,
                              other = sizes_.Of(p_.input(axes.node, 1 - axes.index)).elements;
    const std::optional<Dims> gradient = sizes_.Of(found.gradient).shape, wanted = sizes_.Of(p_.input(id, 1)).elements;
    if (!of.has_value() || !other.has_value() || !gradient.has_value() || !wanted.has_value()) return {};
    const std::optional<std::vector<int64_t>> repeated = RepeatedAxes(*of, *other);
    if (!repeated.has_value()) return {};
    found.axes = *repeated;
    const auto left = [&](bool keeps) {
      Dims dims;
      for (size_t d = 0; d < gradient->size(); ++d) {
        const bool is_summed =
            std::find(repeated->begin(), repeated->end(), static_cast<int64_t>(d)) != repeated->end();
        if (!is_summed) dims.push_back((*gradient)[d]);
        else if (keeps) dims.push_back(1);
      }
      return dims;
    };
    // Of products of batches they are the first axes of more.
    if (std::max(of->size(), other->size()) > gradient->size()) return {};
    found.keeps = left(true) == *wanted;
    return found.keeps || left(false) == *wanted ? std::optional(found) : std::nullopt;
  }

  void Replace(const Found& found) {
    if (found.axes.empty()) return p_.Replace(found.reshape, {found.gradient});
    p_.Begin(found.reshape, p_.DeviceOf(found.reshape));
    const Output sum = p_.Sum(found.gradient, p_.Vector(found.axes), found.keeps);
    p_.Replace(found.reshape, {sum});
  }

  sdk::PassContext& p_;
  Sizes sizes_;
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

}  // namespace

const tenon_graph_pass kAxesPass = sdk::DefinePass<Run>("known-axes", kOps);

}  // namespace tenon::ops
