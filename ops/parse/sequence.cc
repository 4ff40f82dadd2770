// SPDX-License-Identifier: Apache-2.0
#include "sequence.h"

#include <numeric>

namespace tenon::ops::parse {
using namespace sdk;

namespace {

// The values of a column of lists in one chunk: how many each step has, and how many steps each row that has any.
struct Steps {
  Values values;  // its parts are rows and their steps
  std::vector<int64_t> counts;
};

struct Chunk {
  std::vector<Values> context_sparse, context_ragged;
  std::vector<Steps> sparse, ragged, dense;
};

class Batch {
 public:
  Batch(const RunContext& c, const std::vector<std::string_view>& messages, const std::vector<std::string_view>& names,
        bool single, SequenceColumns columns)
      : c_(c), messages_(messages), names_(names), single_(single), columns_(std::move(columns)) {
    const auto number = [](KeyIndex* index, int* count, const auto& list) {
      for (const auto& column : list) index->Add(column.key, (*count)++);
    };
    number(&context_index_, &context_count_, columns_.context_sparse);
    number(&context_index_, &context_count_, columns_.context_ragged);
    number(&context_index_, &context_count_, columns_.context_dense);
    number(&list_index_, &list_count_, columns_.sparse);
    number(&list_index_, &list_count_, columns_.ragged);
    number(&list_index_, &list_count_, columns_.dense);
    context_index_.Sort();
    list_index_.Sort();
  }

  void Run() {
    const auto rows = static_cast<int64_t>(messages_.size());
    for (DenseColumn& column : columns_.context_dense) memory_.Make(c_, &column, WithRows(column.dims));
    const int64_t each = ChunkRows(rows);
    chunks_.resize(static_cast<size_t>((rows + each - 1) / each));
    const uint64_t bytes = std::accumulate(messages_.begin(), messages_.end(), uint64_t{0},
                                           [](uint64_t sum, std::string_view text) { return sum + text.size(); });
    ForEachChunk(c_, rows, bytes, [this](int64_t chunk, int64_t begin, int64_t end) {
      ParseChunk(&chunks_[static_cast<size_t>(chunk)], begin, end);
    });
    for (size_t i = 0; i < columns_.context_sparse.size(); ++i)
      GiveSparse(c_, columns_.context_sparse[i], Of(&Chunk::context_sparse, i), Rows());
    for (size_t i = 0; i < columns_.context_ragged.size(); ++i)
      GiveContextRagged(columns_.context_ragged[i], Of(&Chunk::context_ragged, i));
    for (const DenseColumn& column : columns_.context_dense) memory_.Give(c_, column, WithRows(column.dims));
    for (size_t i = 0; i < columns_.sparse.size(); ++i) GiveStepsSparse(columns_.sparse[i], i);
    for (size_t i = 0; i < columns_.ragged.size(); ++i) GiveRagged(columns_.ragged[i], i);
    for (size_t i = 0; i < columns_.dense.size(); ++i) GiveDense(columns_.dense[i], i);
  }

 private:
  int64_t Rows() const { return single_ ? -1 : static_cast<int64_t>(messages_.size()); }
  std::vector<int64_t> WithRows(std::vector<int64_t> dims) const {
    if (!single_) dims.insert(dims.begin(), static_cast<int64_t>(messages_.size()));
    return dims;
  }
  ChunkValues Of(std::vector<Values> Chunk::*list, size_t i) {
    ChunkValues values;
    for (Chunk& chunk : chunks_) values.push_back(&(chunk.*list)[i]);
    return values;
  }
  ChunkValues Of(std::vector<Steps> Chunk::*list, size_t i) {
    ChunkValues values;
    for (Chunk& chunk : chunks_) values.push_back(&(chunk.*list)[i].values);
    return values;
  }

  // ---- Reading ----

  struct Scratch {
    std::vector<Entry> context, lists;
    std::vector<int64_t> last_context, last_list;  // the last row in which a column was given
    std::vector<size_t> context_hints, list_hints;
  };

  void ParseChunk(Chunk* chunk, int64_t begin, int64_t end) const {
    chunk->context_sparse.resize(columns_.context_sparse.size());
    chunk->context_ragged.resize(columns_.context_ragged.size());
    chunk->sparse.resize(columns_.sparse.size());
    chunk->ragged.resize(columns_.ragged.size());
    chunk->dense.resize(columns_.dense.size());
    Scratch scratch;
    scratch.last_context.assign(static_cast<size_t>(context_count_), -1);
    scratch.last_list.assign(static_cast<size_t>(list_count_), -1);
    CancelPoll poll(c_);
    for (int64_t row = begin; row < end; ++row) {
      const std::string_view message = messages_[static_cast<size_t>(row)];
      poll(static_cast<int64_t>(message.size()) + 100 + 10 * (context_count_ + list_count_));
      ParseRow(chunk, row, message, &scratch);
    }
  }

  void ParseRow(Chunk* chunk, int64_t row, std::string_view message, Scratch* s) const {
    s->context.clear();
    s->lists.clear();
    if (!TakeMessage(message, &s->context, &s->lists))
      Fail(TENON_INVALID_ARGUMENT, "Invalid protocol message input, example id: ", NameOf(row), ": row ", row,
           " is no SequenceExample that can be read: ", message.size(), " bytes");
    if (s->context_hints.size() < s->context.size()) s->context_hints.resize(s->context.size());
    if (s->list_hints.size() < s->lists.size()) s->list_hints.resize(s->lists.size());
    // The last one of a name counts, as in any map of a message.
    for (size_t i = s->context.size(); i-- > 0;) {
      for (const KeyIndex::Column& found : context_index_.Find(s->context[i].key, &s->context_hints[i])) {
        const auto number = static_cast<size_t>(found.column);
        if (std::exchange(s->last_context[number], row) != row) ParseContext(chunk, row, s->context[i], number);
      }
    }
    for (size_t i = s->lists.size(); i-- > 0;) {
      for (const KeyIndex::Column& found : list_index_.Find(s->lists[i].key, &s->list_hints[i])) {
        const auto number = static_cast<size_t>(found.column);
        if (std::exchange(s->last_list[number], row) != row) ParseList(chunk, row, s->lists[i], number);
      }
    }
    FillMissing(row, *s);
  }

  void ParseContext(Chunk* chunk, int64_t row, const Entry& feature, size_t number) const {
    const size_t sparse = columns_.context_sparse.size(), lists = sparse + columns_.context_ragged.size();
    const bool dense = number >= lists;
    const uint32_t wanted = dense            ? columns_.context_dense[number - lists].dtype
                            : number < sparse ? columns_.context_sparse[number].dtype
                                              : columns_.context_ragged[number - sparse].dtype;
    uint32_t dtype = 0;
    if (!KindOf(feature.value, &dtype) || (dtype != TENON_DT_INVALID && dtype != wanted))
      Fail(TENON_INVALID_ARGUMENT, "Name: ", NameOf(row), ", Context feature: ", feature.key, ", Index: ", row,
           ".  Data types don't match. Expected type: ", TypeName(wanted));
    if (dense) return ParseContextDense(columns_.context_dense[number - lists], row, feature, dtype);
    if (dtype == TENON_DT_INVALID) return;
    Values* const values = number < sparse ? &chunk->context_sparse[number] : &chunk->context_ragged[number - sparse];
    const int64_t count = AppendValues(feature.value, dtype, values);
    if (count < 0) Unreadable(row, "context feature", feature.key);
    if (count > 0) values->parts.push_back({row, count});
  }

  void ParseContextDense(const DenseColumn& column, int64_t row, const Entry& feature, uint32_t dtype) const {
    DispatchKind(column.dtype, [&](auto zero) {
      using T = decltype(zero);
      Limited<T> sink{reinterpret_cast<T*>(column.base) + row * column.stride, static_cast<size_t>(column.stride)};
      if (dtype != TENON_DT_INVALID && !Take(feature.value, sink, zero))
        Unreadable(row, "context feature", feature.key);
      if (sink.count != static_cast<size_t>(column.stride))
        Fail(TENON_INVALID_ARGUMENT, "Name: ", NameOf(row), ", Context feature: ", feature.key, ", Index: ", row,
             ".  Unexpected number of elements: ", sink.count, ", where shape ", Dims(column.dims), " is expected");
    });
  }

  void ParseList(Chunk* chunk, int64_t row, const Entry& list, size_t number) const {
    const size_t sparse = columns_.sparse.size(), lists = sparse + columns_.ragged.size();
    if (number < sparse) AppendSteps(columns_.sparse[number].dtype, -1, row, list, &chunk->sparse[number]);
    else if (number < lists)
      AppendSteps(columns_.ragged[number - sparse].dtype, -1, row, list, &chunk->ragged[number - sparse]);
    else
      AppendSteps(columns_.dense[number - lists].dtype, columns_.dense[number - lists].stride, row, list,
                  &chunk->dense[number - lists]);
  }

  // stride: how many values each step must have; -1: any number.
  void AppendSteps(uint32_t wanted, int64_t stride, int64_t row, const Entry& list, Steps* steps) const {
    std::string_view rest = list.value, feature;
    int64_t step = 0;
    for (; !rest.empty(); ++step) {
      if (!TakeField(rest, kDelimited(1), &feature)) Unreadable(row, "sequence feature", list.key);
      uint32_t dtype = 0;
      if (!KindOf(feature, &dtype) || (dtype != TENON_DT_INVALID && dtype != wanted))
        Fail(TENON_INVALID_ARGUMENT, "Name: ", NameOf(row), ", Feature list: ", list.key, ", Index: ", step,
             ".  Data types don't match. Expected type: ", TypeName(wanted));
      const int64_t count = dtype == TENON_DT_INVALID ? 0 : AppendValues(feature, dtype, &steps->values);
      if (count < 0) Unreadable(row, "sequence feature", list.key);
      if (stride < 0) steps->counts.push_back(count);
      else if (count != stride)
        Fail(TENON_INVALID_ARGUMENT, "Name: ", NameOf(row), ", Key: ", list.key, ", Index: ", step,
             ".  Number of values != expected.  values size: ", count, " but ", stride, " are expected");
    }
    if (step > 0) steps->values.parts.push_back({row, step});
  }

  void FillMissing(int64_t row, const Scratch& s) const {
    const size_t context = columns_.context_sparse.size() + columns_.context_ragged.size(),
                 lists = columns_.sparse.size() + columns_.ragged.size();
    for (size_t i = 0; i < columns_.context_dense.size(); ++i) {
      const DenseColumn& column = columns_.context_dense[i];
      if (s.last_context[context + i] == row) continue;
      if (column.fallback_count == 0)
        Fail(TENON_INVALID_ARGUMENT, "Name: ", NameOf(row), ", Index: ", row, ".  Feature: ", column.key,
             " (data type: ", TypeName(column.dtype), ") is required but could not be found.");
      FillFallback(column, row);
    }
    for (size_t i = 0; i < columns_.dense.size(); ++i) {
      if (s.last_list[lists + i] == row || columns_.dense[i].missing_is_empty) continue;
      Fail(TENON_INVALID_ARGUMENT, "Name: ", NameOf(row), ", Feature list '", columns_.dense[i].key,
           "' is required but could not be found.  Did you mean to include it in "
           "feature_list_dense_missing_assumed_empty?");
    }
  }

  // ---- Outputs ----

  void GiveContextRagged(const ListColumn& column, const ChunkValues& chunks) const {
    GiveValues(c_, column.values, column.dtype, chunks);
    GiveRowSplits(c_, column.splits, column.splits_dtype, chunks, Rows());
  }

  void GiveStepsSparse(const ListColumn& column, size_t i) {
    const ChunkValues chunks = Of(&Chunk::sparse, i);
    const int64_t dims[] = {TotalOf(chunks), single_ ? 2 : 3};
    c_.AllocOutput(column.indices, dims);
    int64_t* to = c_.output<int64_t>(column.indices);
    int64_t most_steps = 0, most = 0;
    for (const Chunk& chunk : chunks_) {
      const int64_t* count = chunk.sparse[i].counts.data();
      for (const Part& part : chunk.sparse[i].values.parts) {
        most_steps = std::max(most_steps, part.count);
        for (int64_t step = 0; step < part.count; ++step, ++count) {
          most = std::max(most, *count);
          for (int64_t k = 0; k < *count; ++k) {
            if (!single_) *to++ = part.row;
            *to++ = step;
            *to++ = k;
          }
        }
      }
    }
    GiveValues(c_, column.values, column.dtype, chunks);
    if (single_) GiveNumbers(c_, column.shape, {most_steps, most});
    else GiveNumbers(c_, column.shape, {static_cast<int64_t>(messages_.size()), most_steps, most});
  }

  void GiveRagged(const ListColumn& column, size_t i) {
    const ChunkValues chunks = Of(&Chunk::ragged, i);
    GiveValues(c_, column.values, column.dtype, chunks);
    GiveRowSplits(c_, column.splits, column.splits_dtype, chunks, Rows());
    int64_t steps = 1;
    for (const Chunk& chunk : chunks_) steps += static_cast<int64_t>(chunk.ragged[i].counts.size());
    SplitsWriter inner(c_, column.inner_splits, column.splits_dtype, {&steps, 1});
    int64_t sum = 0;
    inner.Put(0);
    for (const Chunk& chunk : chunks_)
      for (const int64_t count : chunk.ragged[i].counts) inner.Put(sum += count);
  }

  // Rows with fewer steps than the longest end in zeros or empty strings.
  void GiveDense(const SequenceDense& column, size_t i) {
    const ChunkValues chunks = Of(&Chunk::dense, i);
    const int64_t most = MostOf(chunks);
    std::vector<int64_t> dims = column.dims;
    dims.insert(dims.begin(), most);
    GivePadded(c_, column, WithRows(dims), most * column.stride, column.stride, chunks);
    if (column.lengths >= 0) GiveLengths(column.lengths, chunks);
  }

  void GiveLengths(int32_t index, const ChunkValues& chunks) const {
    const std::vector<int64_t> dims = WithRows({});
    c_.AllocOutput(index, dims);
    int64_t* const to = c_.output<int64_t>(index);
    std::fill_n(to, Count(Dims(dims)), 0);
    for (const Values* chunk : chunks)
      for (const Part& part : chunk->parts) to[part.row] = part.count;
  }

  std::string_view NameOf(int64_t row) const { return names_.empty() ? "<unknown>" : names_[static_cast<size_t>(row)]; }
  [[noreturn]] void Unreadable(int64_t row, std::string_view what, std::string_view key) const {
    Fail(TENON_INVALID_ARGUMENT, "Error in ", what, " ", key, " in example ", NameOf(row), ": row ", row,
         " has bytes there that cannot be read");
  }

  const RunContext& c_;
  const std::vector<std::string_view>& messages_;
  const std::vector<std::string_view>& names_;
  const bool single_;
  SequenceColumns columns_;
  int context_count_ = 0, list_count_ = 0;
  KeyIndex context_index_, list_index_;
  std::vector<Chunk> chunks_;
  DenseMemory memory_;
};

}  // namespace

void ParseSequences(const RunContext& c, const std::vector<std::string_view>& messages,
                    const std::vector<std::string_view>& names, bool single, SequenceColumns columns) {
  if (!names.empty() && names.size() != messages.size())
    Fail(TENON_INVALID_ARGUMENT, "there are ", names.size(), " debug_names for ", messages.size(),
         " serialized examples; give each its own, or none at all");
  Batch(c, messages, names, single, std::move(columns)).Run();
}

}  // namespace tenon::ops::parse
