// SPDX-License-Identifier: Apache-2.0
// Kernels of SequenceExamples: the same columns, whose names are attributes, vectors, or inputs of one string each.
#include <algorithm>

#include "sequence.h"
#include "tenon/extras/example/parse.h"

namespace tenon::ops {
using namespace sdk;
using example::ListColumn;
using parse::SequenceColumns;

namespace {

enum class SequenceForm {
  kFirst,
  kSecond,
  kSingle
};  // ParseSequenceExample, ParseSequenceExampleV2, ParseSingleSequenceExample

template <SequenceForm kForm>
struct ParseSequencesKernel {
  // Columns of one kind: of which types, and where their names come from.
  struct Group {
    std::string what;  // "context_sparse_keys"
    std::vector<uint32_t> types, splits;
    std::vector<std::string> names;  // of attributes
    Range inputs;
  };

  explicit ParseSequencesKernel(CreateContext& c)
      : context_shapes(c.Shapes("context_dense_shapes")),
        list_shapes(c.Shapes("feature_list_dense_shapes")),
        defaults(c.InputRange("context_dense_defaults")) {
    Fill(c, &context_sparse, "context_sparse_keys", "context_sparse_types");
    Fill(c, &context_dense, "context_dense_keys", "Tcontext_dense");
    Fill(c, &list_sparse, "feature_list_sparse_keys", "feature_list_sparse_types");
    Fill(c, &list_dense, "feature_list_dense_keys", "feature_list_dense_types");
    if constexpr (kForm == SequenceForm::kSecond) {
      Fill(c, &context_ragged, "context_ragged_keys", "context_ragged_value_types", "context_ragged_split_types");
      Fill(c, &list_ragged, "feature_list_ragged_keys", "feature_list_ragged_value_types",
           "feature_list_ragged_split_types");
    }
    if constexpr (kForm == SequenceForm::kFirst) {
      for (const std::string_view key : c.Strings("feature_list_dense_missing_assumed_empty"))
        may_be_missing.emplace_back(key);
    }
    if (context_shapes.size() != context_dense.types.size())
      c.Invalid("there are ", context_shapes.size(), " context_dense_shapes and ", context_dense.types.size(),
                " types of Tcontext_dense");
    if (list_shapes.size() != list_dense.types.size())
      c.Invalid("there are ", list_shapes.size(), " feature_list_dense_shapes and ", list_dense.types.size(),
                " feature_list_dense_types");
    CheckCount(c, "Ncontext_sparse", context_sparse);
    CheckCount(c, "Nfeature_list_sparse", list_sparse);
    CheckCount(c, "Nfeature_list_dense", list_dense);
  }

  void Run(RunContext c) const {
    const tenon_tensor_view& serialized = c.input_view(0);
    const std::vector<std::string_view> messages = StringsOf(serialized),
                                        names = StringsOf(
                                            c.input_view(kForm == SequenceForm::kSingle ? c.input_count() - 1 : 1));
    if (kForm == SequenceForm::kSingle && names.size() > 1)
      Fail(TENON_INVALID_ARGUMENT, "debug_name must be one string");
    const bool unnamed = kForm == SequenceForm::kSingle && names.size() == 1 && names[0].empty();
    parse::ParseSequences(c, messages, unnamed ? std::vector<std::string_view>() : names, serialized.dl.ndim == 0,
                          Columns(c));
  }

 private:
  static void CheckCount(CreateContext& c, std::string_view attr, const Group& group) {
    if (const int64_t count = c.Int(attr); c.ok() && count != static_cast<int64_t>(group.types.size()))
      c.Invalid(attr, " is ", count, ", but ", group.what, " have ", group.types.size(), " types");
  }
  static void Fill(CreateContext& c, Group* group, std::string_view keys, std::string_view types,
                   std::string_view splits = {}) {
    group->what = keys;
    group->types = c.Types(types);
    if (!splits.empty()) group->splits = c.Types(splits);
    if (!splits.empty() && group->splits.size() != group->types.size())
      c.Invalid("there are ", group->types.size(), " ", types, " and ", group->splits.size(), " ", splits);
    if constexpr (kForm == SequenceForm::kFirst) {
      for (const std::string_view key : c.Strings(keys)) group->names.emplace_back(key);
      if (group->names.size() != group->types.size())
        c.Invalid("there are ", group->names.size(), " ", keys, " and ", group->types.size(), " types for them");
    } else {
      group->inputs = c.InputRange(keys);
    }
  }
  static std::vector<std::string_view> Keys(const RunContext& c, const Group& group) {
    std::vector<std::string_view> keys;
    if constexpr (kForm == SequenceForm::kFirst) keys.assign(group.names.begin(), group.names.end());
    if constexpr (kForm == SequenceForm::kSecond) keys = StringsOf(c.input_view(group.inputs.begin));
    if constexpr (kForm == SequenceForm::kSingle) {
      for (int32_t i = 0; i < group.inputs.count; ++i) {
        if (Count(c.input_view(group.inputs.begin + i)) != 1)
          Fail(TENON_INVALID_ARGUMENT, group.what, "[", i, "] must be one string");
        keys.push_back(StringAt(c.input_view(group.inputs.begin + i), 0));
      }
    }
    if (keys.size() != group.types.size())
      Fail(TENON_INVALID_ARGUMENT, "there are ", keys.size(), " ", group.what, ", but ", group.types.size(),
           " types for them");
    return keys;
  }

  static std::vector<ListColumn> Lists(const RunContext& c, const Group& group) {
    std::vector<ListColumn> columns;
    const auto keys = Keys(c, group);
    for (size_t i = 0; i < keys.size(); ++i)
      columns.push_back({.key = std::string(keys[i]),
                         .dtype = group.types[i],
                         .splits_dtype = group.splits.empty() ? 0 : group.splits[i]});
    return columns;
  }
  // Outputs are numbered as they come: `next` is the next one's.
  static void Number(std::vector<ListColumn>* columns, int32_t ListColumn::*output, int32_t* next) {
    for (ListColumn& column : *columns) column.*output = (*next)++;
  }
  static void NumberSparse(std::vector<ListColumn>* columns, int32_t* next) {
    Number(columns, &ListColumn::indices, next);
    Number(columns, &ListColumn::values, next);
    Number(columns, &ListColumn::shape, next);
  }

  SequenceColumns Columns(const RunContext& c) const {
    SequenceColumns columns;
    int32_t next = 0;
    columns.context_sparse = Lists(c, context_sparse);
    NumberSparse(&columns.context_sparse, &next);
    const auto dense_keys = Keys(c, context_dense);
    for (size_t i = 0; i < dense_keys.size(); ++i) {
      columns.context_dense.push_back(example::MakeDense(dense_keys[i], context_dense.types[i], context_shapes[i],
                                                         c.input_view(defaults.begin + static_cast<int32_t>(i)), i,
                                                         false));
      columns.context_dense.back().output = next++;
    }
    if constexpr (kForm == SequenceForm::kSecond) columns.context_ragged = Lists(c, context_ragged);
    Number(&columns.context_ragged, &ListColumn::values, &next);
    Number(&columns.context_ragged, &ListColumn::splits, &next);
    columns.sparse = Lists(c, list_sparse);
    NumberSparse(&columns.sparse, &next);
    AddDense(c, &columns, &next);
    if constexpr (kForm == SequenceForm::kSecond) columns.ragged = Lists(c, list_ragged);
    Number(&columns.ragged, &ListColumn::values, &next);
    Number(&columns.ragged, &ListColumn::splits, &next);
    Number(&columns.ragged, &ListColumn::inner_splits, &next);
    return columns;
  }
  void AddDense(const RunContext& c, SequenceColumns* columns, int32_t* next) const {
    const auto keys = Keys(c, list_dense);
    for (size_t i = 0; i < keys.size(); ++i) {
      const Shape& shape = list_shapes[i];
      if (!shape.fully_known())
        Fail(TENON_INVALID_ARGUMENT, "feature_list_dense_shapes[", i, "] of '", keys[i], "' is ", shape,
             ", which must be fully known");
      parse::SequenceDense column;
      column.key = keys[i];
      column.dtype = list_dense.types[i];
      column.dims = shape.dims();
      column.stride = Count(Dims(column.dims));
      column.output = (*next)++;
      columns->dense.push_back(std::move(column));
    }
    MarkMissing(c, columns);
    for (auto& column : columns->dense)
      if constexpr (kForm != SequenceForm::kSingle) column.lengths = (*next)++;
  }
  void MarkMissing(const RunContext& c, SequenceColumns* columns) const {
    if constexpr (kForm == SequenceForm::kSecond) {
      const int32_t input = list_ragged.inputs.begin + 1;
      if (Count(c.input_view(input)) != static_cast<int64_t>(columns->dense.size()))
        Fail(TENON_INVALID_ARGUMENT, "there are ", Count(c.input_view(input)),
             " feature_list_dense_missing_assumed_empty for ", columns->dense.size(), " feature_list_dense_keys");
      for (size_t i = 0; i < columns->dense.size(); ++i) columns->dense[i].missing_is_empty = c.input<bool>(input)[i];
    } else {
      std::vector<std::string_view> names(may_be_missing.begin(), may_be_missing.end());
      if constexpr (kForm == SequenceForm::kSingle) names = StringsOf(c.input_view(1));
      std::sort(names.begin(), names.end());
      for (auto& column : columns->dense)
        column.missing_is_empty = std::binary_search(names.begin(), names.end(), column.key);
    }
  }
  std::vector<Shape> context_shapes, list_shapes;
  Range defaults;
  Group context_sparse, context_dense, context_ragged, list_sparse, list_dense, list_ragged;
  std::vector<std::string> may_be_missing;
};

constexpr Traits kParsesSequences = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE,
                                     .dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kParseSequenceExampleKernel) =
    Registration<ParseSequencesKernel<SequenceForm::kFirst>>("ParseSequenceExample", kParsesSequences);
TENON_KERNEL(kParseSequenceExampleV2Kernel) =
    Registration<ParseSequencesKernel<SequenceForm::kSecond>>("ParseSequenceExampleV2", kParsesSequences);
TENON_KERNEL(kParseSingleSequenceExampleKernel) =
    Registration<ParseSequencesKernel<SequenceForm::kSingle>>("ParseSingleSequenceExample", kParsesSequences);

}  // namespace tenon::ops
