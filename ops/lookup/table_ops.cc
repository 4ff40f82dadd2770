// SPDX-License-Identifier: Apache-2.0
// What the ops of tables mean; how a table behaves stands in table.h.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

constexpr uint64_t kTraits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT;

// A handle refers to the type and the shape of a value.
static void TableShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  c.SetOutputHandle(0, Shape::Scalar(), c.Type("value_dtype"));
}
static void RowsShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  c.SetOutputHandle(0, c.ShapeAttr("value_shape"), c.Type("value_dtype"));
}

TENON_OP(kHashTableV2) = DefineOp({
    .name = "HashTableV2",
    .outputs = "table_handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; key_dtype: type; "
             "value_dtype: type",
    .doc = "A table that is filled once.",
    .traits = kTraits,
    .shape = ShapeFunction<TableShape>,
});

TENON_OP(kMutableHashTableV2) = DefineOp({
    .name = "MutableHashTableV2",
    .outputs = "table_handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; key_dtype: type; "
             "value_dtype: type",
    .doc = "A table that takes and loses entries at any time.",
    .traits = kTraits,
    .shape = ShapeFunction<TableShape>,
});

TENON_OP(kMutableHashTableOfTensorsV2) = DefineOp({
    .name = "MutableHashTableOfTensorsV2",
    .outputs = "table_handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; key_dtype: type; "
             "value_dtype: type; "
             "value_shape: shape = []",
    .doc = "A table that takes and loses entries at any time, whose values are tensors of shape value_shape.",
    .traits = kTraits,
    .shape = ShapeFunction<RowsShape>,
});

TENON_OP(kAnonymousHashTable) = DefineOp({
    .name = "AnonymousHashTable",
    .outputs = "table_handle: resource",
    .attrs = "key_dtype: type; value_dtype: type",
    .doc = "A new table that is filled once, and ends with the step.",
    .traits = kTraits,
    .shape = ShapeFunction<TableShape>,
});

TENON_OP(kAnonymousMutableHashTable) = DefineOp({
    .name = "AnonymousMutableHashTable",
    .outputs = "table_handle: resource",
    .attrs = "key_dtype: type; value_dtype: type",
    .doc = "A new table that takes and loses entries at any time, and ends with the step.",
    .traits = kTraits,
    .shape = ShapeFunction<TableShape>,
});

TENON_OP(kAnonymousMutableHashTableOfTensors) = DefineOp({
    .name = "AnonymousMutableHashTableOfTensors",
    .outputs = "table_handle: resource",
    .attrs = "key_dtype: type; value_dtype: type; value_shape: shape = []",
    .doc = "A new table that takes and loses entries at any time, whose values are tensors of shape value_shape; it "
           "ends with the step.",
    .traits = kTraits,
    .shape = ShapeFunction<RowsShape>,
});

// Keys are scalars, or vectors as long as the reserved ones. What the handle says of values does not say how many dims
// a key has.
static void ReservedShape(ShapeContext& c) {
  const Shape key = c.WithRankAtMost(0, 1);
  c.Merge(key, c.Input(1), "the shapes of empty_key and deleted_key");
  c.SetOutput(0, Shape::Scalar());
  if (key.rank() == 0) c.SetOutputHandle(0, c.ShapeAttr("value_shape"), c.Type("value_dtype"));
}

TENON_OP(kMutableDenseHashTableV2) = DefineOp({
    .name = "MutableDenseHashTableV2",
    .inputs = "empty_key: key_dtype, deleted_key: key_dtype",
    .outputs = "table_handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; key_dtype: type; "
             "value_dtype: type; value_shape: shape = []; "
             "initial_num_buckets: int = 131072; max_load_factor: float = 0.8",
    .constraints = "rank(empty_key) <= 1",
    .doc = "A table that takes and loses entries at any time, whose values are tensors of shape value_shape. Keys have "
           "the shape of empty_key, a scalar or a vector; neither empty_key nor "
           "deleted_key may be one. An export has the entries alone; an import leaves those two keys out, so that one "
           "of TensorFlow's buckets is read.",
    .traits = kTraits,
    .shape = ShapeFunction<ReservedShape>,
});

TENON_OP(kAnonymousMutableDenseHashTable) = DefineOp({
    .name = "AnonymousMutableDenseHashTable",
    .inputs = "empty_key: key_dtype, deleted_key: key_dtype",
    .outputs = "table_handle: resource",
    .attrs = "key_dtype: type; value_dtype: type; value_shape: shape = []; initial_num_buckets: int = 131072; "
             "max_load_factor: float = 0.8",
    .constraints = "rank(empty_key) <= 1",
    .doc = "A new MutableDenseHashTableV2, which ends with the step.",
    .traits = kTraits,
    .shape = ShapeFunction<ReservedShape>,
});

static void NothingShape(ShapeContext&) {}

TENON_OP(kInitializeTableV2) = DefineOp({
    .name = "InitializeTableV2",
    .inputs = "table_handle: resource, keys: Tkey, values: Tval",
    .attrs = "Tkey: type; Tval: type",
    .doc = "Fills a table; a key that comes twice must have one value.",
    .traits = kTraits | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<NothingShape>,
});

TENON_OP(kInitializeTableFromTextFileV2) = DefineOp({
    .name = "InitializeTableFromTextFileV2",
    .inputs = "table_handle: resource, filename: string",
    .attrs = "key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; delimiter: string = '\t'; "
             "offset: int = 0",
    .constraints = "path(filename); rank(filename) == 0",
    .doc = "Fills a table from the lines of a text file. key_index and value_index: a column between delimiters, -2 "
           "for the whole line, -1 for the line's "
           "number, to which offset is added.",
    .traits = kTraits | TENON_OP_WRITES_STATE | TENON_OP_IO,
    .shape = ShapeFunction<NothingShape>,
});

static void FindShape(ShapeContext& c) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype == TENON_DT_INVALID) return;
  if (handle.dtype != c.Type("Tout"))
    return c.Invalid("the table has values of ", TypeName(handle.dtype), ", not ", TypeName(c.Type("Tout")));
  c.SetOutput(0, Join(c.Input(1), handle.shape));
}

TENON_OP(kLookupTableFindV2) = DefineOp({
    .name = "LookupTableFindV2",
    .inputs = "table_handle: resource, keys: Tin, default_value: Tout",
    .outputs = "values: Tout",
    .attrs = "Tin: type; Tout: type",
    .doc = "The values of keys; default_value for those that are not there.",
    .traits = kTraits,
    .shape = ShapeFunction<FindShape>,
});

TENON_OP(kLookupTableImportV2) = DefineOp({
    .name = "LookupTableImportV2",
    .inputs = "table_handle: resource, keys: Tin, values: Tout",
    .attrs = "Tin: type; Tout: type",
    .doc = "Gives a table these entries alone.",
    .traits = kTraits | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<NothingShape>,
});

TENON_OP(kLookupTableInsertV2) = DefineOp({
    .name = "LookupTableInsertV2",
    .inputs = "table_handle: resource, keys: Tin, values: Tout",
    .attrs = "Tin: type; Tout: type",
    .doc = "Adds entries to a mutable table.",
    .traits = kTraits | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<NothingShape>,
});

TENON_OP(kLookupTableRemoveV2) = DefineOp({
    .name = "LookupTableRemoveV2",
    .inputs = "table_handle: resource, keys: Tin",
    .attrs = "Tin: type",
    .doc = "Removes the entries of keys, as far as they are there, from a mutable table.",
    .traits = kTraits | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<NothingShape>,
});

static void ExportShape(ShapeContext& c) {
  c.SetOutput(0, {kUnknown});
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID) c.SetOutput(1, Join({kUnknown}, handle.shape));
}

TENON_OP(kLookupTableExportV2) = DefineOp({
    .name = "LookupTableExportV2",
    .inputs = "table_handle: resource",
    .outputs = "keys: Tkeys, values: Tvalues",
    .attrs = "Tkeys: type; Tvalues: type",
    .doc = "All entries, in any order.",
    .traits = kTraits,
    .shape = ShapeFunction<ExportShape>,
});

TENON_OP(kLookupTableSizeV2) = DefineOp({
    .name = "LookupTableSizeV2",
    .inputs = "table_handle: resource",
    .outputs = "size: int64",
    .doc = "How many entries the table has.",
    .traits = kTraits,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
