// SPDX-License-Identifier: Apache-2.0
// DecodeCSV: lines of CSV as columns.
#include <algorithm>

#include "tenon/extras/example/columns.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"
#include "tenon/extras/text/csv.h"
#include "tenon/extras/text/number_text.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct DecodeCsv {
  explicit DecodeCsv(CreateContext& c) : types(c.Types("OUT_TYPE")), missing(c.String("na_value")) {
    const std::string_view delimiter = c.String("field_delim");
    rules.quotes = c.Bool("use_quote_delim");
    rules.columns = c.Ints("select_cols");
    if (!c.ok()) return;
    if (delimiter.size() != 1) c.Invalid("field_delim is '", delimiter, "'; it must be one byte");
    else rules.delimiter = delimiter[0];
    for (size_t i = 0; i < rules.columns.size(); ++i) {
      if (rules.columns[i] < 0) c.Invalid("select_cols[", i, "] is ", rules.columns[i]);
      else if (i > 0 && rules.columns[i] <= rules.columns[i - 1])
        c.Invalid("select_cols must rise; [", i, "] is ", rules.columns[i], " behind ", rules.columns[i - 1]);
    }
    if (!rules.columns.empty() && rules.columns.size() != types.size())
      c.Invalid("there are ", rules.columns.size(), " select_cols and ", types.size(), " outputs");
  }

  void Run(RunContext c) const {
    const tenon_tensor_view& records = c.input_view(0);
    const int64_t rows = Count(records);
    const Dims given = DimsOf(records);
    const std::vector<int64_t> dims(given.begin(), given.end());
    CheckDefaults(c);
    example::DenseMemory memory;
    std::vector<example::DenseColumn> columns(types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      columns[i].dtype = types[i];
      columns[i].output = static_cast<int32_t>(i);
      columns[i].fallback = c.input_view(1 + static_cast<int32_t>(i));
      columns[i].fallback_count = Count(columns[i].fallback);
      memory.Make(c, &columns[i], dims);
    }
    std::vector<std::deque<std::string>> unquoted(static_cast<size_t>(example::kMostChunks) +
                                                  1);  // lives until the outputs are made
    example::ForEachChunk(c, rows, records.byte_size, [&](int64_t chunk, int64_t begin, int64_t end) {
      std::vector<std::string_view> fields;
      CancelPoll poll(c);
      for (int64_t row = begin; row < end; ++row)
        ReadRow(StringAt(records, row), row, columns, &fields, &unquoted[static_cast<size_t>(chunk)], &poll);
    });
    for (const example::DenseColumn& column : columns) memory.Give(c, column, dims);
  }

 private:
  void CheckDefaults(const RunContext& c) const {
    for (size_t i = 0; i < types.size(); ++i) {
      const Dims dims = DimsOf(c.input_view(1 + static_cast<int32_t>(i)));
      if (dims.size() > 1 || Count(dims) > 1)
        Fail(TENON_INVALID_ARGUMENT, "record_defaults[", i, "] has shape ", dims,
             "; it must be one element, or none for a field that must be there");
    }
  }
  void ReadRow(std::string_view line, int64_t row, const std::vector<example::DenseColumn>& columns,
               std::vector<std::string_view>* fields, std::deque<std::string>* unquoted, CancelPoll* poll) const {
    (*poll)(static_cast<int64_t>(line.size()) + 100);
    fields->clear();
    const char* problem = nullptr;
    const size_t found = SplitCsv(line, rules, types.size(), fields, unquoted, &problem);
    if (problem != nullptr) Fail(TENON_INVALID_ARGUMENT, problem, ": record ", row);
    if (found != types.size())
      Fail(TENON_INVALID_ARGUMENT, "Expect ", types.size(), " fields but have ", found, " in record ", row);
    for (size_t i = 0; i < types.size(); ++i) {
      DispatchCsvType(types[i], [&](auto zero) {
        using T = decltype(zero);
        Put<T>((*fields)[i], row, i, columns[i]);
      });
    }
  }
  template <class T>
  void Put(std::string_view field, int64_t row, size_t i, const example::DenseColumn& column) const {
    T& to = reinterpret_cast<T*>(column.base)[row];
    if (field.empty() || field == missing) {
      if (column.fallback_count == 0)
        Fail(TENON_INVALID_ARGUMENT, "Field ", i, " is required but missing in record ", row, "!");
      to = example::FallbackAt<T>(column, 0);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      to = field;
    } else if (!ReadNumber(field, &to)) {
      Fail(TENON_INVALID_ARGUMENT, "Field ", i, " in record ", row, " is not a valid ", TypeName(types[i]), ": ",
           field.substr(0, 100));
    }
  }

  CsvRules rules;
  std::vector<uint32_t> types;
  std::string missing;
};

}  // namespace

TENON_KERNEL(kDecodeCsvKernel) = Registration<DecodeCsv>("DecodeCSV", {.dynamic_outputs = TENON_DYNAMIC_ALL});

static void DecodeCsvShape(ShapeContext& c) {
  for (int i = 1; i < c.input_count(); ++i) {
    const Shape fallback = c.WithRankAtMost(i, 1);
    if (fallback.rank() == 1 && fallback[0] > 1)
      return c.Invalid("record_defaults[", i - 1, "] has ", fallback[0], " elements; it must have one, or none");
  }
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, c.Input(0));
}

TENON_OP(kDecodeCSV) = DefineOp({
    .name = "DecodeCSV",
    .inputs = "records: string, record_defaults: OUT_TYPE",
    .outputs = "output: OUT_TYPE",
    .attrs = "OUT_TYPE: list({float, double, int32, int64, string}) >= 1; field_delim: string = ','; use_quote_delim: "
             "bool = true; na_value: string = ''; select_cols: list(int) = []",
    .doc = "Lines of CSV as columns; a field that is empty, or na_value, is its column's default.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DecodeCsvShape>,
});

}  // namespace tenon::ops
