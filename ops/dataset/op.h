// SPDX-License-Identifier: Apache-2.0
// What the definitions of dataset ops have in common.
#ifndef TENON_OPS_DATASET_OP_H_
#define TENON_OPS_DATASET_OP_H_

#include "tenon/sdk/op/op.h"

namespace tenon::ops {

#define TENON_DATASET_TYPES "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
#define TENON_DATASET_METADATA "; metadata: string = ''"
// A function, and what it gets behind an element's components.
#define TENON_DATASET_ARGUMENTS "Targuments: list(type)"

inline void OneDataset(sdk::ShapeContext& c) { c.SetOutput(0, sdk::Shape::Scalar()); }

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

#endif  // TENON_OPS_DATASET_OP_H_
