// SPDX-License-Identifier: Apache-2.0
// Columns: what a batch of messages becomes. A feature's values go to the columns that have its name.
//
// A batch is parsed in chunks of rows, on the host's threads; each chunk keeps what it found, and the chunks in their
// order make the outputs. What a chunk keeps grows with what its messages hold, not with the number of columns or rows.
// Values of strings are views into the messages.
#ifndef TENON_SDK_EXAMPLE_COLUMNS_H_
#define TENON_SDK_EXAMPLE_COLUMNS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/extras/example/wire.h"
#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::sdk::example {

// How many values there are, where there are any.
struct Part {
  int64_t row;    // of the batch
  int64_t count;
};

// The values of one column in one chunk, of which one list is in use.
struct Values {
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string_view> strings;
  std::vector<Part> parts;

  template <class T>
  std::vector<T>& of() {
    if constexpr (std::is_same_v<T, int64_t>) return ints;
    else if constexpr (std::is_same_v<T, float>) return floats;
    else return strings;
  }
  int64_t size() const { return static_cast<int64_t>(ints.size() + floats.size() + strings.size()); }
};

// function(T{}) of a dtype that features have.
template <class Function>
auto DispatchKind(uint32_t dtype, Function&& function) {
  if (dtype == TENON_DT_INT64) return function(int64_t{});
  if (dtype == TENON_DT_FLOAT) return function(float{});
  return function(std::string_view{});
}

// Appends the values of a feature that is of this dtype; how many they were, or -1 where the bytes are no list.
inline int64_t AppendValues(std::string_view feature, uint32_t dtype, Values* values) {
  const int64_t before = values->size();
  const bool ok = DispatchKind(dtype, [&](auto zero) {
    using T = decltype(zero);
    Appended<T> sink{values->of<T>()};
    return Take(feature, sink, zero);
  });
  return ok ? values->size() - before : -1;
}

// Which columns have a name. Sorted, so that no choice of names makes it slow.
class KeyIndex {
 public:
  void Add(std::string_view key, int column) { columns_.push_back({key, column}); }
  void Sort() { std::sort(columns_.begin(), columns_.end(), &Before); }
  // hint: which one to try first, which is kept for the next; records of a file are mostly alike.
  struct Column {
    std::string_view key;
    int column;
  };
  std::span<const Column> Find(std::string_view key, size_t* hint) const {
    if (*hint >= columns_.size() || columns_[*hint].key != key) {
      const auto at = std::lower_bound(columns_.begin(), columns_.end(), Column{key, INT32_MIN}, &Before);
      if (at == columns_.end() || at->key != key) return {};
      *hint = static_cast<size_t>(at - columns_.begin());
    }
    size_t end = *hint + 1;
    while (end < columns_.size() && columns_[end].key == key) ++end;
    return {columns_.data() + *hint, end - *hint};
  }

 private:
  static bool Before(const Column& a, const Column& b) {
    if (a.key.size() != b.key.size()) return a.key.size() < b.key.size();
    const int order = a.key.compare(b.key);
    return order != 0 ? order < 0 : a.column < b.column;
  }
  std::vector<Column> columns_;
};

// One value of each feature for each row, of one shape; its memory is there before anything is read.
struct DenseColumn {
  std::string key;
  uint32_t dtype = 0;
  std::vector<int64_t> dims;  // of a row
  bool variable = false;      // the first dim is what the longest row needs; it is not in dims
  int64_t stride = 1;         // elements of dims
  tenon_tensor_view fallback = {};  // of a row that has none; without elements: there must be one
  int64_t fallback_count = 0;
  int32_t output = 0;
  char* base = nullptr;       // numbers of the output, or views of strings
};

// As many values for each row as there are: sparse (three outputs) or ragged (two).
struct ListColumn {
  std::string key;
  uint32_t dtype = 0;
  uint32_t splits_dtype = 0;  // ragged
  int32_t values = 0, indices = 0, shape = 0, splits = 0, inner_splits = 0;  // outputs
};

// Of a chunk for outputs of chunks: `column` of each.
using ChunkValues = std::vector<Values*>;

inline int64_t TotalOf(const ChunkValues& chunks) {
  int64_t total = 0;
  for (const Values* chunk : chunks) total = Add(total, chunk->size());
  return total;
}

// All values in a row as output `index`.
void GiveValues(const RunContext& c, int32_t index, uint32_t dtype, const ChunkValues& chunks);
// int32 or int64 numbers as output `index`, [count]; INVALID_ARGUMENT where int32 does not hold one. fill(put) calls
// put(number) `count` times.
class SplitsWriter {
 public:
  SplitsWriter(const RunContext& c, int32_t index, uint32_t dtype, Dims dims) : wide_(dtype == TENON_DT_INT64) {
    c.AllocOutput(index, dims);
    at_ = c.output<char>(index);
  }
  void Put(int64_t number) {
    if (wide_) {
      std::memcpy(at_, &number, sizeof number);
      at_ += sizeof number;
      return;
    }
    const auto narrow = static_cast<int32_t>(number);
    if (narrow != number) Fail(TENON_INVALID_ARGUMENT, "row splits of int32 would hold ", number, "; ask for int64");
    std::memcpy(at_, &narrow, sizeof narrow);
    at_ += sizeof narrow;
  }

 private:
  bool wide_;
  char* at_ = nullptr;
};

inline void GiveNumbers(const RunContext& c, int32_t index, std::initializer_list<int64_t> numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  c.AllocOutput(index, {&count, 1});
  std::copy(numbers.begin(), numbers.end(), c.output<int64_t>(index));
}

// A tensor's fallback, when it has one element or the shape: what a row gets.
template <class T>
T FallbackAt(const DenseColumn& column, int64_t i) {
  if constexpr (std::is_same_v<T, std::string_view>) return StringAt(column.fallback, i);
  else return Data<const T>(column.fallback)[i];
}

void FillFallback(const DenseColumn& column, int64_t row);

// rows: of the batch; -1: one message, whose outputs have no dim for it. The three outputs of a sparse column.
void GiveSparse(const RunContext& c, const ListColumn& column, const ChunkValues& chunks, int64_t rows);
// The sums of the parts' counts up to each row; of one message none, as in TensorFlow's ParseExampleV2.
void GiveRowSplits(const RunContext& c, int32_t index, uint32_t dtype, const ChunkValues& chunks, int64_t rows);

// The memory of a fixed column for `rows` rows: the output itself, or for strings a tensor of views, which GiveTexts
// makes the output of.
class DenseMemory {
 public:
  // dims: of the output. Elements of strings are empty views.
  void Make(const RunContext& c, DenseColumn* column, const std::vector<int64_t>& dims);
  // Makes the output of strings.
  void Give(const RunContext& c, const DenseColumn& column, const std::vector<int64_t>& dims);

 private:
  std::vector<KeptTensor> views_;
};

// The output of a column whose rows have as many values as there are, each `row` elements of the output, behind its own
// the fallback (zeros or empty strings, where there is none). unit: elements for each that a part counts.
void GivePadded(const RunContext& c, const DenseColumn& column, const std::vector<int64_t>& dims, int64_t row,
                int64_t unit, const ChunkValues& chunks);
// The most that a part of these counts.
int64_t MostOf(const ChunkValues& chunks);

// rows: of the batch. chunk(i, begin, end) for parts of them on the host's threads; gives how many chunks there are at
// most.
inline constexpr int64_t kMostChunks = 64;
inline int64_t ChunkRows(int64_t rows) { return std::max<int64_t>(1, (rows + kMostChunks - 1) / kMostChunks); }

// Why a chunk ended, if it did: the first one's counts, whatever thread was first.
void ForEachChunk(const RunContext& c, int64_t rows, uint64_t bytes,
                  const std::function<void(int64_t chunk, int64_t begin, int64_t end)>& function);

}  // namespace tenon::sdk::example

#endif  // TENON_SDK_EXAMPLE_COLUMNS_H_
