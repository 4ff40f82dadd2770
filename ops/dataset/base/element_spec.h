// SPDX-License-Identifier: Apache-2.0
// ElementSpec: what a node says of the elements that it gives, output_types and output_shapes, against what there is.
#ifndef TENON_OPS_DATASET_BASE_ELEMENT_SPEC_H_
#define TENON_OPS_DATASET_BASE_ELEMENT_SPEC_H_

#include <string_view>
#include <vector>

#include "base/dataset.h"

namespace tenon::ops {

struct ElementSpec {
  explicit ElementSpec(sdk::CreateContext& c) : types(c.Types("output_types")), shapes(c.Shapes("output_shapes")) {
    if (c.ok() && types.size() != shapes.size())
      c.Invalid(c.op(), " has ", types.size(), " output_types and ", shapes.size(), " output_shapes");
  }
  // INVALID_ARGUMENT, thrown: its elements are of other types.
  void CheckDataset(const Dataset& dataset) const {
    if (dataset.types().size() != types.size())
      sdk::Fail(TENON_INVALID_ARGUMENT, "Number of components does not match: expected ", types.size(),
                " types but got ", dataset.types().size(), " from ", dataset.who());
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != dataset.types()[i])
        sdk::Fail(TENON_INVALID_ARGUMENT, "Data type mismatch at component ", i, ": expected ", sdk::TypeName(types[i]),
                  " but got ", sdk::TypeName(dataset.types()[i]), " from ", dataset.who());
    }
  }
  // INVALID_ARGUMENT, thrown: it is none of these. whose: "the iterator".
  void CheckElement(const Element& element, std::string_view whose) const {
    if (element.size() != types.size())
      sdk::Fail(TENON_INVALID_ARGUMENT, whose, " gives ", element.size(), " components, ", types.size(),
                " are asked for");
    for (size_t i = 0; i < types.size(); ++i) {
      const tenon_tensor_view view = element[i].view();
      if (view.dtype != types[i])
        sdk::Fail(TENON_INVALID_ARGUMENT, "component ", i, " of ", whose, " is ", sdk::TypeName(view.dtype), "; ",
                  sdk::TypeName(types[i]), " is asked for");
      if (!sdk::Fits(sdk::ShapeOf(view), shapes[i]))
        sdk::Fail(TENON_INVALID_ARGUMENT, "component ", i, " of ", whose, " has shape ", sdk::ShapeOf(view), "; ",
                  shapes[i], " is asked for");
    }
  }
  // The components of an element, which are checked, as the node's outputs.
  void Give(const sdk::RunContext& c, const Element& element, std::string_view whose) const {
    CheckElement(element, whose);
    for (size_t i = 0; i < element.size(); ++i) {
      const tenon_tensor_view view = element[i].view();
      sdk::Check(c.services().set_output(c.frame(), static_cast<int32_t>(i), &view));
    }
  }

  // What a copy takes.
  uint64_t bytes() const {
    uint64_t all = sizeof *this + types.size() * sizeof(uint32_t);
    for (const sdk::Shape& shape : shapes)
      all += sizeof shape + static_cast<uint64_t>(std::max(shape.rank(), 0)) * sizeof(int64_t);
    return all;
  }

  std::vector<uint32_t> types;
  std::vector<sdk::Shape> shapes;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_ELEMENT_SPEC_H_
