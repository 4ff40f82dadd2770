// SPDX-License-Identifier: Apache-2.0
// What an equation of Einsum means for operands of known shapes: the sizes of labels, how they walk memory, and their
// groups.
//
// A label of both operands and the output is one of `batch`; of both operands alone, of `contracted`; of one operand
// and the output, of that operand's `free`. What one operand alone has is summed over first. A label that stands twice
// in a tensor walks along its diagonal.
#ifndef TENON_SDK_WALK_EINSUM_SHAPE_H_
#define TENON_SDK_WALK_EINSUM_SHAPE_H_

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/op/einsum.h"

namespace tenon::sdk {

// Strides are in elements. Immutable once made, so that a kernel's plan may hold it.
class EinsumShape {
 public:
  using Labels = std::vector<int>;
  using Strides = std::map<int, int64_t>;  // by label

  // text: the equation. INVALID_ARGUMENT when it does not fit the inputs' shapes; of the output only the shape is read.
  EinsumShape(std::string_view text, const tenon_tensor_view* const* inputs, int32_t input_count,
              const tenon_tensor_view& output)
      : operands(input_count) {
    std::string error;
    const EinsumEquation equation = ParseEinsum(text, input_count, &error);
    for (int32_t i = 0; error.empty() && i < operands; ++i) {
      const Dims dims = DimsOf(*inputs[i]);
      labels.push_back(
          EinsumEquation::Labels(equation.inputs[static_cast<size_t>(i)], static_cast<int>(dims.size()), &error));
      if (error.empty()) AddSizes(labels.back(), dims);
    }
    if (error.empty()) out = equation.OutputLabels(EinsumEquation::EllipsisDims(labels), &error);
    if (!error.empty()) Fail(TENON_INVALID_ARGUMENT, error);
    std::vector<int64_t> out_dims;
    for (int label : out) out_dims.push_back(size(label));
    if (!std::ranges::equal(out_dims, DimsOf(output))) {
      Fail(TENON_INTERNAL, "the equation gives the shape ", out_dims, ", the output has ", DimsOf(output));
    }
    target = StridesOf(out, out_dims);
    for (int32_t i = 0; i < operands; ++i)
      sources.push_back(StridesOf(labels[static_cast<size_t>(i)], DimsOf(*inputs[i])));
    if (operands == 2) Group();
  }

  int64_t size(int label) const { return sizes_.at(label); }
  // The product of their sizes; RESOURCE_EXHAUSTED when int64 does not hold it.
  int64_t Size(const Labels& group) const {
    int64_t size = 1;
    for (int label : group) size = Multiply(size, sizes_.at(label));
    return size;
  }
  // Whether a label stands twice in a tensor of these labels.
  static bool IsDiagonal(const Labels& labels, const Strides& strides) { return strides.size() != labels.size(); }
  // Whether walking the labels in that order walks memory evenly.
  bool LiesAs(const Strides& strides, const Labels& order) const {
    int64_t step = 1;
    for (size_t i = order.size(); i-- > 0;) {
      const int64_t size = sizes_.at(order[i]);
      if (size != 1 && strides.at(order[i]) != step) return false;
      step *= size;
    }
    return true;
  }
  static Labels Chain(std::initializer_list<const Labels*> groups) {
    Labels all;
    for (const Labels* group : groups) all.insert(all.end(), group->begin(), group->end());
    return all;
  }

  const int32_t operands;
  std::vector<Labels> labels;    // of the operands
  std::vector<Strides> sources;  // likewise
  Labels out;
  Strides target;
  Labels batch, contracted, free[2];  // of two operands

 private:
  void AddSizes(const Labels& of_operand, Dims dims) {
    std::map<int, int64_t> own;
    for (size_t i = 0; i < of_operand.size(); ++i) {
      const int64_t dim = own.try_emplace(of_operand[i], dims[i]).first->second;
      if (dim != dims[i]) FailLabel(dim, dims[i]);
    }
    for (const auto& [label, dim] : own) {
      int64_t& size = sizes_.try_emplace(label, dim).first->second;
      if (label >= kEllipsis && size == 1) size = dim;
      if (size != dim && (label < kEllipsis || dim != 1)) FailLabel(size, dim);
    }
  }
  [[noreturn]] static void FailLabel(int64_t a, int64_t b) {
    Fail(TENON_INVALID_ARGUMENT, "a label of the equation has the dims ", a, " and ", b);
  }

  Strides StridesOf(const Labels& order, Dims dims) const {
    Strides strides;
    int64_t step = 1;
    for (size_t i = order.size(); i-- > 0;) {
      // A dim of 1 that broadcasts stays where it is.
      strides[order[i]] += dims[i] == 1 && size(order[i]) != 1 ? 0 : step;
      step *= dims[i];
    }
    return strides;
  }

  void Group() {
    Labels seen;
    const auto fresh = [&](int label) {
      const bool first = std::find(seen.begin(), seen.end(), label) == seen.end();
      if (first) seen.push_back(label);
      return first;
    };
    for (int label : out) {
      if (sources[0].contains(label) && sources[1].contains(label) && fresh(label)) batch.push_back(label);
    }
    for (size_t i = 0; i < 2; ++i) {
      for (int label : labels[i]) {
        const bool both = sources[1 - i].contains(label);
        if (target.contains(label)) {
          if (!both && fresh(label)) free[i].push_back(label);
        } else if (both && fresh(label)) {
          contracted.push_back(label);
        }
      }
    }
  }

  std::map<int, int64_t> sizes_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_EINSUM_SHAPE_H_
