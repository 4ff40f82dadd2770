// SPDX-License-Identifier: Apache-2.0
// What parse.h declares: for one source file of each library that uses it, as columns_definitions.h.
#ifndef TENON_SDK_EXAMPLE_PARSE_DEFINITIONS_H_
#define TENON_SDK_EXAMPLE_PARSE_DEFINITIONS_H_

#include <numeric>

#include "tenon/extras/example/parse.h"

namespace tenon::sdk::example {

DenseColumn MakeDense(std::string_view key, uint32_t dtype, const Shape& shape, const tenon_tensor_view& fallback,
                      size_t i, bool variable_allowed) {
  DenseColumn column;
  column.key = key;
  column.dtype = dtype;
  column.fallback = fallback;
  column.fallback_count = Count(fallback);
  const bool known = shape.known_rank();
  column.variable = variable_allowed && known && shape.rank() > 0 && shape[0] < 0;
  for (int d = column.variable ? 1 : 0; known && d < shape.rank(); ++d) column.dims.push_back(shape[d]);
  if (!known || std::any_of(column.dims.begin(), column.dims.end(), [](int64_t dim) { return dim < 0; })) {
    Fail(TENON_INVALID_ARGUMENT, "dense_shapes[", i, "] of '", key, "' is ", shape,
         "; its rank must be known, and its dims", variable_allowed ? " but the first" : "");
  }
  column.stride = Count(Dims(column.dims));
  if (column.variable && column.fallback_count != 1)
    Fail(TENON_INVALID_ARGUMENT, "dense_shapes[", i, "] of '", key, "' is ", shape,
         ": shorter rows are padded, so that dense_defaults[", i, "] must be one element; its shape is ",
         DimsOf(fallback));
  if (!column.variable && column.fallback_count > 0 &&
      !std::equal(column.dims.begin(), column.dims.end(), DimsOf(fallback).begin(), DimsOf(fallback).end()))
    Fail(TENON_INVALID_ARGUMENT, "dense_defaults[", i, "] of '", key, "' has shape ", DimsOf(fallback),
         "; dense_shapes[", i, "] is ", shape);
  return column;
}

namespace {  // NOLINT: one file includes it

// What one chunk keeps of the columns that are not fixed.
struct Chunk {
  std::vector<Values> sparse, ragged, variable;
};

class Batch {
 public:
  Batch(const RunContext& c, const std::vector<std::string_view>& messages, const std::vector<std::string_view>& names,
        bool single, ExampleColumns columns)
      : c_(c), messages_(messages), names_(names), single_(single), columns_(std::move(columns)) {
    for (const auto& column : columns_.sparse) index_.Add(column.key, Number());
    for (const auto& column : columns_.ragged) index_.Add(column.key, Number());
    for (const auto& column : columns_.dense) index_.Add(column.key, Number());
    index_.Sort();
  }

  void Run() {
    for (DenseColumn& column : columns_.dense)
      if (!column.variable) memory_.Make(c_, &column, FixedDims(column));
    const auto rows = static_cast<int64_t>(messages_.size());
    const int64_t each = ChunkRows(rows);
    chunks_.resize(static_cast<size_t>((rows + each - 1) / each));
    const uint64_t bytes = std::accumulate(messages_.begin(), messages_.end(), uint64_t{0},
                                           [](uint64_t sum, std::string_view text) { return sum + text.size(); });
    ForEachChunk(c_, rows, bytes, [this](int64_t chunk, int64_t begin, int64_t end) {
      ParseChunk(&chunks_[static_cast<size_t>(chunk)], begin, end);
    });
    for (size_t i = 0; i < columns_.sparse.size(); ++i)
      GiveSparse(c_, columns_.sparse[i], Of(&Chunk::sparse, i), Rows());
    for (size_t i = 0; i < columns_.ragged.size(); ++i) GiveRagged(columns_.ragged[i], Of(&Chunk::ragged, i));
    for (size_t i = 0; i < columns_.dense.size(); ++i) {
      if (columns_.dense[i].variable) GiveVariable(columns_.dense[i], Of(&Chunk::variable, i));
      else memory_.Give(c_, columns_.dense[i], FixedDims(columns_.dense[i]));
    }
  }

 private:
  int64_t Rows() const { return single_ ? -1 : static_cast<int64_t>(messages_.size()); }
  // Columns are numbered: sparse, ragged, dense.
  int Number() { return column_count_++; }
  std::vector<int64_t> FixedDims(const DenseColumn& column) const {
    std::vector<int64_t> dims = column.dims;
    if (!single_) dims.insert(dims.begin(), static_cast<int64_t>(messages_.size()));
    return dims;
  }
  ChunkValues Of(std::vector<Values> Chunk::*list, size_t i) {
    ChunkValues values;
    for (Chunk& chunk : chunks_) values.push_back(&(chunk.*list)[i]);
    return values;
  }

  // ---- Reading ----

  void ParseChunk(Chunk* chunk, int64_t begin, int64_t end) const {
    chunk->sparse.resize(columns_.sparse.size());
    chunk->ragged.resize(columns_.ragged.size());
    chunk->variable.resize(columns_.dense.size());
    std::vector<Entry> features;
    std::vector<int64_t> last(static_cast<size_t>(column_count_), -1);  // the last row in which a column was given
    std::vector<size_t> hints;
    CancelPoll poll(c_);
    for (int64_t row = begin; row < end; ++row) {
      const std::string_view message = messages_[static_cast<size_t>(row)];
      poll(static_cast<int64_t>(message.size()) + 100 + 10 * column_count_);
      features.clear();
      if (!TakeMessage(message, &features, nullptr))
        Fail(TENON_INVALID_ARGUMENT, About(row), "it is no Example that can be read: ", message.size(), " bytes");
      if (hints.size() < features.size()) hints.resize(features.size());
      // The last feature of a name counts, as in any map of a message.
      for (size_t i = features.size(); i-- > 0;) ParseFeature(chunk, row, features[i], &hints[i], last.data());
      FillMissing(row, last.data());
    }
  }

  void ParseFeature(Chunk* chunk, int64_t row, const Entry& feature, size_t* hint, int64_t* last) const {
    uint32_t dtype = 0;
    const auto columns = index_.Find(feature.key, hint);
    if (single_ && columns.empty()) return;  // of a batch, TensorFlow looks at what nobody asked for, too
    if (!KindOf(feature.value, &dtype))
      Fail(TENON_INVALID_ARGUMENT, About(row), "feature '", feature.key, "' is of no kind that features have");
    for (const KeyIndex::Column& found : columns) {
      const auto number = static_cast<size_t>(found.column), sparse = columns_.sparse.size(),
                 lists = sparse + columns_.ragged.size();
      if (last[number] == row) continue;
      // A feature without a list is like none, but that it hides an earlier one from a batch's lists.
      if (dtype == TENON_DT_INVALID && (single_ || number >= lists)) continue;
      last[number] = row;
      if (dtype == TENON_DT_INVALID) continue;
      if (number < sparse) AppendList(columns_.sparse[number], row, feature, dtype, &chunk->sparse[number]);
      else if (number < lists)
        AppendList(columns_.ragged[number - sparse], row, feature, dtype, &chunk->ragged[number - sparse]);
      else ParseDense(columns_.dense[number - lists], row, feature, dtype, &chunk->variable[number - lists]);
    }
  }

  void CheckType(int64_t row, const Entry& feature, uint32_t dtype, uint32_t wanted) const {
    if (dtype != wanted)
      Fail(TENON_INVALID_ARGUMENT, About(row, feature.key), "Data types don't match. Data type: ", TypeName(dtype),
           " but expected type: ", TypeName(wanted));
  }
  [[noreturn]] void Unreadable(int64_t row, const Entry& feature) const {
    Fail(TENON_INVALID_ARGUMENT, About(row, feature.key), "Can't parse serialized Example.");
  }

  void AppendList(const ListColumn& column, int64_t row, const Entry& feature, uint32_t dtype, Values* values) const {
    CheckType(row, feature, dtype, column.dtype);
    const int64_t count = AppendValues(feature.value, dtype, values);
    if (count < 0) Unreadable(row, feature);
    if (count > 0) values->parts.push_back({row, count});
  }

  void ParseDense(const DenseColumn& column, int64_t row, const Entry& feature, uint32_t dtype, Values* values) const {
    CheckType(row, feature, dtype, column.dtype);
    if (column.variable) return AppendVariable(column, row, feature, values);
    DispatchKind(dtype, [&](auto zero) {
      using T = decltype(zero);
      Limited<T> sink{reinterpret_cast<T*>(column.base) + row * column.stride, static_cast<size_t>(column.stride)};
      if (!Take(feature.value, sink, zero)) Unreadable(row, feature);
      if (sink.count != static_cast<size_t>(column.stride))
        Fail(TENON_INVALID_ARGUMENT, About(row, feature.key), "Number of ", TypeName(dtype),
             " values != expected.  Values size: ", sink.count, " but output shape: ", Dims(column.dims));
    });
  }

  void AppendVariable(const DenseColumn& column, int64_t row, const Entry& feature, Values* values) const {
    const int64_t count = AppendValues(feature.value, column.dtype, values);
    if (count < 0) Unreadable(row, feature);
    if (column.stride == 0 ? count != 0 : count % column.stride != 0)
      Fail(TENON_INVALID_ARGUMENT, About(row, feature.key), "Number of ", TypeName(column.dtype),
           " values is not a multiple of stride length.  Values size: ", count, " but output shape: [?",
           column.dims.empty() ? "" : ", ...", "] with ", column.stride, " a step");
    if (count > 0) values->parts.push_back({row, count});
  }

  void FillMissing(int64_t row, const int64_t* last) const {
    const size_t lists = columns_.sparse.size() + columns_.ragged.size();
    for (size_t i = 0; i < columns_.dense.size(); ++i) {
      const DenseColumn& column = columns_.dense[i];
      if (column.variable || last[lists + i] == row) continue;
      if (column.fallback_count == 0)
        Fail(TENON_INVALID_ARGUMENT, single_ ? "" : Concat("Name: ", NameOf(row), ", Index: ", row, ".  "),
             "Feature: ", column.key, " (data type: ", TypeName(column.dtype), ") is required but could not be found.");
      FillFallback(column, row);
    }
  }

  // ---- Outputs ----

  void GiveRagged(const ListColumn& column, const ChunkValues& chunks) const {
    GiveValues(c_, column.values, column.dtype, chunks);
    GiveRowSplits(c_, column.splits, column.splits_dtype, chunks, Rows());
  }

  void GiveVariable(const DenseColumn& column, const ChunkValues& chunks) const {
    const int64_t most = MostOf(chunks);
    std::vector<int64_t> dims = column.dims;
    dims.insert(dims.begin(), column.stride == 0 ? 0 : most / column.stride);
    if (!single_) dims.insert(dims.begin(), static_cast<int64_t>(messages_.size()));
    GivePadded(c_, column, dims, most, 1, chunks);
  }

  // ---- Messages, as TensorFlow begins them ----

  std::string_view NameOf(int64_t row) const { return names_.empty() ? "<unknown>" : names_[static_cast<size_t>(row)]; }
  std::string About(int64_t row) const {
    return single_ ? std::string() : Concat("Name: ", NameOf(row), ", Index: ", row, ".  ");
  }
  std::string About(int64_t row, std::string_view key) const {
    return single_ ? Concat("Key: ", key, ".  ")
                   : Concat("Name: ", NameOf(row), ", Key: ", key, ", Index: ", row, ".  ");
  }

  const RunContext& c_;
  const std::vector<std::string_view>& messages_;
  const std::vector<std::string_view>& names_;
  const bool single_;
  ExampleColumns columns_;
  int column_count_ = 0;
  KeyIndex index_;
  std::vector<Chunk> chunks_;
  DenseMemory memory_;
};

}  // namespace

void ParseExamples(const RunContext& c, const std::vector<std::string_view>& messages,
                   const std::vector<std::string_view>& names, bool single, ExampleColumns columns) {
  if (!names.empty() && names.size() != messages.size())
    Fail(TENON_INVALID_ARGUMENT, "there are ", names.size(), " names for ", messages.size(),
         " serialized examples; give each its own, or none at all");
  Batch(c, messages, names, single, std::move(columns)).Run();
}

}  // namespace tenon::sdk::example

#endif  // TENON_SDK_EXAMPLE_PARSE_DEFINITIONS_H_
