// SPDX-License-Identifier: Apache-2.0
// What the ops of SequenceExamples mean.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

Shape PrependedAll(std::vector<int64_t> dims, const Shape& shape) {
  if (!shape.known_rank()) return Shape();
  const std::vector<int64_t> more = shape.dims();
  dims.insert(dims.end(), more.begin(), more.end());
  return Shape(dims);
}

size_t Types(ShapeContext& c, std::string_view attr) { return c.Types(attr).size(); }

// The outputs in their order. batch: a scalar or a vector, or unknown.
struct Setter {
  ShapeContext& c;
  const Shape& batch;
  int output = 0;

  bool known() const { return batch.known_rank(); }
  std::vector<int64_t> lead() const {
    return batch.rank() == 1 ? std::vector<int64_t>{batch[0]} : std::vector<int64_t>();
  }
  // dims: besides the batch's.
  void Sparse(size_t count, int64_t dims) {
    const int64_t rank = known() ? batch.rank() + dims : -1;
    for (size_t i = 0; i < count; ++i) c.SetOutput(output++, Shape({-1, rank}));
    for (size_t i = 0; i < count; ++i) c.SetOutput(output++, Shape::OfRank(1));
    for (size_t i = 0; i < count; ++i) c.SetOutput(output++, Shape({rank}));
  }
  void Dense(std::string_view attr, size_t count, bool steps) {
    const std::vector<Shape> shapes = c.Shapes(attr);
    if (shapes.size() != count) return c.Invalid("there are ", shapes.size(), " ", attr, " for ", count, " types");
    for (const Shape& shape : shapes) {
      std::vector<int64_t> dims = lead();
      if (steps) dims.push_back(-1);
      c.SetOutput(output++, known() ? PrependedAll(dims, shape) : Shape());
    }
  }
  void Vectors(size_t count) {
    for (size_t i = 0; i < count; ++i) c.SetOutput(output++, Shape::OfRank(1));
  }
  void Lengths(size_t count) {
    for (size_t i = 0; i < count; ++i) c.SetOutput(output++, batch);
  }
  void RowSplits(size_t count) {
    for (size_t i = 0; i < count; ++i)
      c.SetOutput(output++, !known() ? Shape::OfRank(1) : Shape({batch.rank() == 0 ? 0 : c.Add(batch[0], 1)}));
  }
};

}  // namespace

static void ParseSequenceExampleShape(ShapeContext& c) {
  const Shape batch = c.WithRank(0, 1);
  c.WithRank(1, 1);
  Setter set{c, batch};
  set.Sparse(Types(c, "context_sparse_types"), 1);
  set.Dense("context_dense_shapes", Types(c, "Tcontext_dense"), false);
  set.Sparse(Types(c, "feature_list_sparse_types"), 2);
  set.Dense("feature_list_dense_shapes", Types(c, "feature_list_dense_types"), true);
  set.Lengths(Types(c, "feature_list_dense_types"));
}

TENON_OP(kParseSequenceExample) = DefineOp({
    .name = "ParseSequenceExample",
    .inputs = "serialized: string, debug_name: string, context_dense_defaults: Tcontext_dense",
    .outputs = "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
               "context_sparse_shapes: Ncontext_sparse * int64, "
               "context_dense_values: Tcontext_dense, feature_list_sparse_indices: Nfeature_list_sparse * int64, "
               "feature_list_sparse_values: feature_list_sparse_types, "
               "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: "
               "feature_list_dense_types, feature_list_dense_lengths: Nfeature_list_dense * int64",
    .attrs =
        "feature_list_dense_missing_assumed_empty: list(string); context_sparse_keys: list(string); "
        "context_dense_keys: list(string); "
        "feature_list_sparse_keys: list(string); feature_list_dense_keys: list(string); Ncontext_sparse: int >= 0 = 0; "
        "Ncontext_dense: int >= 0 = 0; "
        "Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= 0 = 0; context_sparse_types: list({float, "
        "int64, string}) = []; "
        "Tcontext_dense: list({float, int64, string}) = []; feature_list_dense_types: list({float, int64, string}) = "
        "[]; context_dense_shapes: list(shape) = []; "
        "feature_list_sparse_types: list({float, int64, string}) = []; feature_list_dense_shapes: list(shape) = []",
    .constraints = "rank(serialized) == 1; rank(debug_name) == 1",
    .doc = "A batch of serialized SequenceExamples as tensors: features of their contexts, and lists of features, "
           "which have a dim for their steps.",
    .traits = TENON_OP_EXPENSIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseSequenceExampleShape>,
});

static void ParseSequenceExampleV2Shape(ShapeContext& c) {
  const Shape batch = c.WithRankAtMost(0, 1);
  c.WithRankAtMost(1, 1);
  for (int i = 2; i < 9; ++i) c.WithRank(i, 1);
  Setter set{c, batch};
  set.Sparse(Types(c, "context_sparse_types"), 1);
  set.Dense("context_dense_shapes", Types(c, "Tcontext_dense"), false);
  set.Vectors(Types(c, "context_ragged_value_types"));
  set.RowSplits(Types(c, "context_ragged_split_types"));
  set.Sparse(Types(c, "feature_list_sparse_types"), 2);
  set.Dense("feature_list_dense_shapes", Types(c, "feature_list_dense_types"), true);
  set.Lengths(Types(c, "feature_list_dense_types"));
  set.Vectors(Types(c, "feature_list_ragged_value_types"));
  set.RowSplits(Types(c, "feature_list_ragged_split_types"));
  set.Vectors(Types(c, "feature_list_ragged_split_types"));
}

TENON_OP(kParseSequenceExampleV2) = DefineOp({
    .name = "ParseSequenceExampleV2",
    .inputs = "serialized: string, debug_name: string, context_sparse_keys: string, context_dense_keys: string, "
              "context_ragged_keys: string, feature_list_sparse_keys: string, "
              "feature_list_dense_keys: string, feature_list_ragged_keys: string, "
              "feature_list_dense_missing_assumed_empty: bool, context_dense_defaults: Tcontext_dense",
    .outputs = "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
               "context_sparse_shapes: Ncontext_sparse * int64, "
               "context_dense_values: Tcontext_dense, context_ragged_values: context_ragged_value_types, "
               "context_ragged_row_splits: context_ragged_split_types, "
               "feature_list_sparse_indices: Nfeature_list_sparse * int64, feature_list_sparse_values: "
               "feature_list_sparse_types, "
               "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: "
               "feature_list_dense_types, "
               "feature_list_dense_lengths: Nfeature_list_dense * int64, feature_list_ragged_values: "
               "feature_list_ragged_value_types, "
               "feature_list_ragged_outer_splits: feature_list_ragged_split_types, feature_list_ragged_inner_splits: "
               "feature_list_ragged_split_types",
    .attrs = "Ncontext_sparse: int >= 0 = 0; Tcontext_dense: list({float, int64, string}) = []; context_sparse_types: "
             "list({float, int64, string}) = []; "
             "context_ragged_value_types: list({float, int64, string}) = []; context_ragged_split_types: list({int32, "
             "int64}) = []; "
             "context_dense_shapes: list(shape) = []; Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= "
             "0 = 0; "
             "feature_list_dense_types: list({float, int64, string}) = []; feature_list_sparse_types: list({float, "
             "int64, string}) = []; "
             "feature_list_ragged_value_types: list({float, int64, string}) = []; feature_list_ragged_split_types: "
             "list({int32, int64}) = []; "
             "feature_list_dense_shapes: list(shape) = []",
    .constraints =
        "rank(serialized) <= 1; rank(debug_name) <= 1; rank(context_sparse_keys) == 1; rank(context_dense_keys) == 1; "
        "rank(context_ragged_keys) == 1; "
        "rank(feature_list_sparse_keys) == 1; rank(feature_list_dense_keys) == 1; rank(feature_list_ragged_keys) == 1; "
        "rank(feature_list_dense_missing_assumed_empty) == 1",
    .doc = "A batch of serialized SequenceExamples, or one, as tensors: features of their contexts, and lists of "
           "features, which have a dim for their steps.",
    .traits = TENON_OP_EXPENSIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseSequenceExampleV2Shape>,
});

static void ParseSingleSequenceExampleShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.WithRank(1, 1);
  const Shape batch = Shape::Scalar();
  Setter set{c, batch};
  set.Sparse(Types(c, "context_sparse_types"), 1);
  set.Dense("context_dense_shapes", Types(c, "Tcontext_dense"), false);
  set.Sparse(Types(c, "feature_list_sparse_types"), 2);
  set.Dense("feature_list_dense_shapes", Types(c, "feature_list_dense_types"), true);
}

TENON_OP(kParseSingleSequenceExample) = DefineOp({
    .name = "ParseSingleSequenceExample",
    .inputs = "serialized: string, feature_list_dense_missing_assumed_empty: string, context_sparse_keys: "
              "Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, "
              "feature_list_sparse_keys: Nfeature_list_sparse * string, feature_list_dense_keys: Nfeature_list_dense * "
              "string, context_dense_defaults: Tcontext_dense, debug_name: string",
    .outputs =
        "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
        "context_sparse_shapes: Ncontext_sparse * int64, "
        "context_dense_values: Tcontext_dense, feature_list_sparse_indices: Nfeature_list_sparse * int64, "
        "feature_list_sparse_values: feature_list_sparse_types, "
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: feature_list_dense_types",
    .attrs =
        "Ncontext_sparse: int >= 0 = 0; Ncontext_dense: int >= 0 = 0; Nfeature_list_sparse: int >= 0 = 0; "
        "Nfeature_list_dense: int >= 0 = 0; "
        "context_sparse_types: list({float, int64, string}) = []; Tcontext_dense: list({float, int64, string}) = []; "
        "feature_list_dense_types: list({float, int64, string}) = []; context_dense_shapes: list(shape) = []; "
        "feature_list_sparse_types: list({float, int64, string}) = []; feature_list_dense_shapes: list(shape) = []",
    .constraints = "rank(serialized) == 0; rank(feature_list_dense_missing_assumed_empty) == 1; rank(debug_name) == 0",
    .doc = "One serialized SequenceExample as tensors.",
    .traits = TENON_OP_EXPENSIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseSingleSequenceExampleShape>,
});

}  // namespace tenon::ops
