// SPDX-License-Identifier: Apache-2.0
// Slices of variables changed by vectors of indices: ScatterNdUpdate and its like.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// updates have a slice for each vector in the last dim of indices.
void CheckNdUpdates(ShapeContext& c, const Shape& variable) {
  const Shape indices = c.WithRankAtLeast(1, 1), updates = c.Input(2);
  if (!indices.known_rank() || !updates.known_rank()) return;
  const Shape each = indices.Slice(0, -1);
  c.Merge(each, updates.Slice(0, each.rank()), "the leading dims of indices and of updates");
  const int64_t depth = indices[-1];
  if (depth < 0 || !variable.known_rank()) return;
  if (depth > variable.rank())
    return c.Invalid("indices of shape ", indices, " name ", depth, " dims of a variable of shape ", variable);
  c.Merge(Join(each, variable.Slice(static_cast<int>(depth))), updates,
          "the shapes of the named slices and of updates");
}

void ScatterNdShape(ShapeContext& c) {
  CheckNdUpdates(c, c.Input(0));
  c.PassOn(0, 0);
}

void ResourceScatterNdShape(ShapeContext& c) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID && BaseType(handle.dtype) != c.Type("T"))
    return c.Invalid("the variable is of type ", TypeName(handle.dtype), ", but 'T' says ", TypeName(c.Type("T")));
  CheckNdUpdates(c, handle.shape);
}

constexpr std::string_view kConstraints = "rank(indices) >= 1";

consteval tenon_op_definition OfReference(OpDefinition op) {
  op.inputs = "ref: Ref(T), indices: Tindices, updates: T";
  op.outputs = "output_ref: Ref(T)";
  if (op.attrs.empty())
    op.attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; bad_indices_policy: string = ''";
  op.constraints = kConstraints;
  op.traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT;
  op.shape = ShapeFunction<ScatterNdShape>;
  return DefineOp(op);
}
consteval tenon_op_definition OfResource(OpDefinition op) {
  op.inputs = "ref: resource, indices: Tindices, updates: T";
  if (op.attrs.empty())
    op.attrs = "T: type; Tindices: {int32, int64}; use_locking: bool = true; bad_indices_policy: string = ''";
  op.constraints = kConstraints;
  op.traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE;
  op.shape = ShapeFunction<ResourceScatterNdShape>;
  return DefineOp(op);
}

constexpr std::string_view kAny =
    "T: type; Tindices: {int32, int64}; use_locking: bool = true; bad_indices_policy: string = ''";
constexpr std::string_view kUpdate =
    "Gives updates to the slices of the variable that the vectors in the last dim of indices name; of two for one "
    "place the last stays.";
constexpr std::string_view kAdd =
    "Adds updates to the slices of the variable that the vectors in the last dim of indices name.";
constexpr std::string_view kSub =
    "Subtracts updates from the slices of the variable that the vectors in the last dim of indices name.";
constexpr std::string_view kNdMin =
    "The smaller of updates and of the slices of the variable that the vectors in the last dim of indices name stays "
    "there.";
constexpr std::string_view kNdMax =
    "The larger of updates and of the slices of the variable that the vectors in the last dim of indices name stays "
    "there.";

}  // namespace

TENON_OP(kScatterNdUpdate) = OfReference({.name = "ScatterNdUpdate", .attrs = kAny, .doc = kUpdate});
TENON_OP(kScatterNdAdd) = OfReference({.name = "ScatterNdAdd", .doc = kAdd});
TENON_OP(kScatterNdSub) = OfReference({.name = "ScatterNdSub", .doc = kSub});
TENON_OP(kScatterNdMin) = OfReference({.name = "ScatterNdMin", .doc = kNdMin});
TENON_OP(kScatterNdMax) = OfReference({.name = "ScatterNdMax", .doc = kNdMax});
TENON_OP(kResourceScatterNdUpdate) = OfResource({.name = "ResourceScatterNdUpdate", .attrs = kAny, .doc = kUpdate});
TENON_OP(kResourceScatterNdAdd) = OfResource({.name = "ResourceScatterNdAdd", .doc = kAdd});
TENON_OP(kResourceScatterNdSub) = OfResource({.name = "ResourceScatterNdSub", .doc = kSub});
TENON_OP(kResourceScatterNdMin) = OfResource({.name = "ResourceScatterNdMin", .doc = kNdMin});
TENON_OP(kResourceScatterNdMax) = OfResource({.name = "ResourceScatterNdMax", .doc = kNdMax});

}  // namespace tenon::ops
