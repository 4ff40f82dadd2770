// SPDX-License-Identifier: Apache-2.0
// Sizes: which dims of a graph's tensors are of one size, whatever a step is fed, and what the whole numbers are that
// the graph computes of shapes.
//
// Walks the graph once, from its inputs on, by what ops say of themselves (element-wise, normalisations, reductions),
// and by what some others mean (kOps). A dim that neither the graph nor such an op says has a name of its own (dim.h).
// One thread, one call of a pass that adds no node meanwhile.
#ifndef TENON_OPS_AXES_SIZES_H_
#define TENON_OPS_AXES_SIZES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dim.h"
#include "tenon/sdk/op/graph_pass.h"

namespace tenon::ops {

class Sizes {
 public:
  // What is known of an output: its shape, where its rank is known; its elements, where it is a small tensor of whole
  // numbers.
  struct Facts {
    std::optional<Dims> shape, elements;
  };

  explicit Sizes(sdk::PassContext& p);

  const Facts& Of(sdk::Output edge);
  // "" where nothing is known of what such an op does, or the node is fed.
  const std::string& OpOf(int64_t id) const { return ops_[static_cast<size_t>(id)]; }
  // Whether the node runs in every step, once, of what the graph says: nothing that it depends on chooses, turns round,
  // or is fed in the place of an op's result.
  bool IsStraight(int64_t id) const { return is_straight_[static_cast<size_t>(id)]; }

 private:
  void Read(int64_t id);
  Facts Unknown(sdk::Output edge);
  // The facts of a node's outputs as its op says, all of them or none.
  std::vector<Facts> ByOp(int64_t id, sdk::NodeContext& c);
  std::optional<Dims> ShapeByOp(int64_t id, sdk::NodeContext& c);
  std::optional<Dims> ElementsByOp(int64_t id, sdk::NodeContext& c);

  std::optional<Dims> ShapeOfInput(int64_t id, int index) { return Of(p_.input(id, index)).shape; }
  std::optional<Dims> ElementsOfInput(int64_t id, int index) { return Of(p_.input(id, index)).elements; }
  // An input's elements, where they are numbers.
  std::optional<std::vector<int64_t>> NumbersOfInput(int64_t id, int index);

  std::optional<Dims> OfProduct(int64_t id, bool turned_x, bool turned_y);
  std::optional<Dims> OfReshape(int64_t id);
  std::optional<Dims> OfTranspose(int64_t id);
  std::optional<Dims> OfReduction(int64_t id, int input, int axes_input, bool keeps);
  std::optional<Dims> OfGather(int64_t id, bool has_axis);
  std::optional<Dims> OfEinsum(int64_t id, std::string_view equation, int operands);
  std::optional<Dims> OfImages(int64_t id);
  std::optional<Dims> ElementsOfSlice(int64_t id, sdk::NodeContext& c);

  sdk::PassContext& p_;
  std::vector<std::string> ops_;
  std::vector<bool> is_straight_;
  std::map<std::pair<int64_t, int32_t>, Facts> facts_;
  int64_t names_ = 0;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_AXES_SIZES_H_
