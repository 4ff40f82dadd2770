// SPDX-License-Identifier: Apache-2.0
// What the definitions of dataset ops have in common.
#ifndef TENON_OPS_DATASET_BASE_OP_H_
#define TENON_OPS_DATASET_BASE_OP_H_

#include "tenon/sdk/op/op.h"

namespace tenon::ops {

#define TENON_DATASET_TYPES "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
#define TENON_DATASET_METADATA "; metadata: string = ''"
// A function, and what it gets behind an element's components.
#define TENON_DATASET_ARGUMENTS "Targuments: list(type)"

inline void OneDataset(sdk::ShapeContext& c) { c.SetOutput(0, sdk::Shape::Scalar()); }

// Of the components of an element.
inline void ElementShapes(sdk::ShapeContext& c) {
  const std::vector<sdk::Shape> shapes = c.Shapes("output_shapes");
  if (c.ok() && static_cast<int>(shapes.size()) != c.output_count())
    return c.Invalid("`output_shapes` must be the same length as `output_types` (", shapes.size(), " vs. ",
                     c.output_count(), ")");
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, shapes[static_cast<size_t>(i)]);
}
// Handles, and what ends them.
inline void AllScalars(sdk::ShapeContext& c) {
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, sdk::Shape::Scalar());
}

struct DatasetOp {
  std::string_view name;
  std::string_view inputs;
  std::string_view attrs;
  std::string_view constraints = {};
  std::string_view doc = {};
  uint64_t traits = 0;
  std::string_view outputs = "handle: variant";
};

// An op whose output is a dataset.
consteval tenon_op_definition DefineDataset(const DatasetOp& op) {
  return sdk::DefineOp({.name = op.name,
                        .inputs = op.inputs,
                        .outputs = op.outputs,
                        .attrs = op.attrs,
                        .constraints = op.constraints,
                        .doc = op.doc,
                        .traits = op.traits | TENON_OP_NO_GRADIENT | TENON_OP_NO_FOLD,
                        .shape = sdk::ShapeFunction<OneDataset>});
}

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_OP_H_
