// SPDX-License-Identifier: Apache-2.0
// Kernels of Examples: the same columns, whose names are inputs of one string each, vectors, or attributes.
#include "tenon/extras/example/parse.h"

namespace tenon::ops {
using namespace sdk;
using example::DenseColumn;
using example::ExampleColumns;
using example::ListColumn;

namespace {

enum class Form { kFirst, kSecond, kSingle };  // ParseExample, ParseExampleV2, ParseSingleExample

template <Form kForm>
struct ParseKernel {
  explicit ParseKernel(CreateContext& c)
      : sparse_types(c.Types("sparse_types")),
        dense_types(c.Types("Tdense")),
        dense_shapes(c.Shapes("dense_shapes")),
        defaults(c.InputRange("dense_defaults")) {
    if constexpr (kForm == Form::kSecond) {
      ragged_types = c.Types("ragged_value_types");
      splits_types = c.Types("ragged_split_types");
    }
    if constexpr (kForm == Form::kSingle) {
      for (const std::string_view key : c.Strings("sparse_keys")) sparse_keys.emplace_back(key);
      for (const std::string_view key : c.Strings("dense_keys")) dense_keys.emplace_back(key);
      if (sparse_keys.size() != sparse_types.size())
        c.Invalid("there are ", sparse_keys.size(), " sparse_keys and ", sparse_types.size(), " sparse_types");
      if (dense_keys.size() != dense_types.size())
        c.Invalid("there are ", dense_keys.size(), " dense_keys and ", dense_types.size(), " types of Tdense");
    }
    if constexpr (kForm == Form::kFirst) {
      sparse_inputs = c.InputRange("sparse_keys");
      dense_inputs = c.InputRange("dense_keys");
      if (static_cast<size_t>(dense_inputs.count) != dense_types.size())
        c.Invalid("there are ", dense_inputs.count, " dense_keys and ", dense_types.size(), " types of Tdense");
    }
    const int64_t sparse = c.Int(kForm == Form::kFirst ? "Nsparse" : "num_sparse");
    if (c.ok() && sparse != static_cast<int64_t>(sparse_types.size()))
      c.Invalid("there are ", sparse, " sparse features and ", sparse_types.size(), " sparse_types");
    if (dense_shapes.size() != dense_types.size())
      c.Invalid("there are ", dense_shapes.size(), " dense_shapes and ", dense_types.size(), " types of Tdense");
    if (ragged_types.size() != splits_types.size())
      c.Invalid("there are ", ragged_types.size(), " ragged_value_types and ", splits_types.size(),
                " ragged_split_types");
  }

  void Run(RunContext c) const {
    const tenon_tensor_view& serialized = c.input_view(0);
    const std::vector<std::string_view> messages = StringsOf(serialized);
    std::vector<std::string_view> names;
    if constexpr (kForm != Form::kSingle) names = StringsOf(c.input_view(1));
    example::ParseExamples(c, messages, names, serialized.dl.ndim == 0, Columns(c));
  }

 private:
  ExampleColumns Columns(const RunContext& c) const {
    ExampleColumns columns;
    const auto sparse = static_cast<int32_t>(sparse_types.size()), dense = static_cast<int32_t>(dense_types.size()),
               ragged = static_cast<int32_t>(ragged_types.size());
    const auto sparse_names = Keys(c, "sparse_keys", sparse_keys, sparse_inputs, 2, sparse_types.size());
    const auto dense_names = Keys(c, "dense_keys", dense_keys, dense_inputs, 3, dense_types.size());
    for (int32_t i = 0; i < sparse; ++i) {
      const auto at = static_cast<size_t>(i);
      columns.sparse.push_back({.key = std::string(sparse_names[at]),
                                .dtype = sparse_types[at],
                                .values = sparse + i,
                                .indices = i,
                                .shape = 2 * sparse + i});
    }
    for (int32_t i = 0; i < dense; ++i) {
      const auto at = static_cast<size_t>(i);
      columns.dense.push_back(example::MakeDense(dense_names[at], dense_types[at], dense_shapes[at],
                                                 c.input_view(defaults.begin + i), at, true));
      columns.dense.back().output = 3 * sparse + i;
    }
    if constexpr (kForm == Form::kSecond) {
      const auto ragged_names = Keys(c, "ragged_keys", {}, {}, 4, ragged_types.size());
      for (int32_t i = 0; i < ragged; ++i) {
        const auto at = static_cast<size_t>(i);
        columns.ragged.push_back({.key = std::string(ragged_names[at]),
                                  .dtype = ragged_types[at],
                                  .splits_dtype = splits_types[at],
                                  .values = 3 * sparse + dense + i,
                                  .splits = 3 * sparse + dense + ragged + i});
      }
    }
    return columns;
  }
  // Names of columns, wherever this form has them.
  static std::vector<std::string_view> Keys(const RunContext& c, std::string_view what,
                                            const std::vector<std::string>& attribute, Range inputs, int32_t vector,
                                            size_t count) {
    std::vector<std::string_view> keys;
    if constexpr (kForm == Form::kSingle) keys.assign(attribute.begin(), attribute.end());
    if constexpr (kForm == Form::kSecond) keys = StringsOf(c.input_view(vector));
    if constexpr (kForm == Form::kFirst) {
      for (int32_t i = 0; i < inputs.count; ++i) {
        if (Count(c.input_view(inputs.begin + i)) != 1)
          Fail(TENON_INVALID_ARGUMENT, what, "[", i, "] must be one string; its shape is ",
               DimsOf(c.input_view(inputs.begin + i)));
        keys.push_back(StringAt(c.input_view(inputs.begin + i), 0));
      }
    }
    if (keys.size() != count)
      Fail(TENON_INVALID_ARGUMENT, "there are ", keys.size(), " ", what, ", but ", count, " types for them");
    return keys;
  }

  std::vector<uint32_t> sparse_types, dense_types, ragged_types, splits_types;
  std::vector<Shape> dense_shapes;
  std::vector<std::string> sparse_keys, dense_keys;
  Range defaults, sparse_inputs, dense_inputs;
};

constexpr Traits kParses = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE,
                            .dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kParseExampleKernel) = Registration<ParseKernel<Form::kFirst>>("ParseExample", kParses);
TENON_KERNEL(kParseExampleV2Kernel) = Registration<ParseKernel<Form::kSecond>>("ParseExampleV2", kParses);
TENON_KERNEL(kParseSingleExampleKernel) = Registration<ParseKernel<Form::kSingle>>("ParseSingleExample", kParses);

}  // namespace tenon::ops
