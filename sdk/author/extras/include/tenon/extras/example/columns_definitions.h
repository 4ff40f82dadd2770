// SPDX-License-Identifier: Apache-2.0
// What columns.h declares. One source file of each library that uses it includes this, and nothing else that is worth a
// compiler's attention: what is called from one place becomes one loop there (a fifth of the time of small Examples).
#ifndef TENON_SDK_EXAMPLE_COLUMNS_DEFINITIONS_H_
#define TENON_SDK_EXAMPLE_COLUMNS_DEFINITIONS_H_

#include "tenon/extras/example/columns.h"
#include "tenon/sdk/outcome.h"

namespace tenon::sdk::example {

void GiveValues(const RunContext& c, int32_t index, uint32_t dtype, const ChunkValues& chunks) {
  const int64_t total = TotalOf(chunks);
  if (dtype == TENON_DT_STRING) {
    uint64_t bytes = 0;
    for (const Values* chunk : chunks) bytes += BytesOf(chunk->strings);
    c.AllocOutput(index, {&total, 1}, bytes);
    char* const base = c.output<char>(index);
    auto* cell = reinterpret_cast<tenon_string_cell*>(base);
    uint64_t offset = static_cast<uint64_t>(total) * sizeof(tenon_string_cell);
    for (const Values* chunk : chunks) {
      for (const std::string_view text : chunk->strings) {
        *cell++ = {offset, text.size()};
        if (!text.empty()) std::memcpy(base + offset, text.data(), text.size());
        offset += text.size();
      }
    }
    return;
  }
  c.AllocOutput(index, {&total, 1});
  if (dtype == TENON_DT_INT64) {
    int64_t* to = c.output<int64_t>(index);
    for (const Values* chunk : chunks) to = std::copy(chunk->ints.begin(), chunk->ints.end(), to);
  } else {
    float* to = c.output<float>(index);
    for (const Values* chunk : chunks) to = std::copy(chunk->floats.begin(), chunk->floats.end(), to);
  }
}

void FillFallback(const DenseColumn& column, int64_t row) {
  DispatchKind(column.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = reinterpret_cast<T*>(column.base) + row * column.stride;
    for (int64_t k = 0; k < column.stride; ++k) to[k] = FallbackAt<T>(column, k);
  });
}

void GiveSparse(const RunContext& c, const ListColumn& column, const ChunkValues& chunks, int64_t rows) {
  const int64_t dims[] = {TotalOf(chunks), rows < 0 ? 1 : 2};
  c.AllocOutput(column.indices, dims);
  int64_t* to = c.output<int64_t>(column.indices);
  int64_t most = 0;
  for (const Values* chunk : chunks) {
    for (const Part& part : chunk->parts) {
      most = std::max(most, part.count);
      for (int64_t k = 0; k < part.count; ++k) {
        if (rows >= 0) *to++ = part.row;
        *to++ = k;
      }
    }
  }
  GiveValues(c, column.values, column.dtype, chunks);
  if (rows < 0) GiveNumbers(c, column.shape, {most});
  else GiveNumbers(c, column.shape, {rows, most});
}

void GiveRowSplits(const RunContext& c, int32_t index, uint32_t dtype, const ChunkValues& chunks, int64_t rows) {
  const int64_t count = rows + 1;
  SplitsWriter splits(c, index, dtype, {&count, 1});
  if (rows < 0) return;
  int64_t row = 0, sum = 0;
  for (const Values* chunk : chunks) {
    for (const Part& part : chunk->parts) {
      for (; row <= part.row; ++row) splits.Put(sum);
      sum += part.count;
    }
  }
  for (; row < count; ++row) splits.Put(sum);
}

void DenseMemory::Make(const RunContext& c, DenseColumn* column, const std::vector<int64_t>& dims) {
  if (column->dtype != TENON_DT_STRING) {
    c.AllocOutput(column->output, dims);
    column->base = c.output<char>(column->output);
    return;
  }
  const int64_t bytes = Multiply(Count(Dims(dims)), sizeof(std::string_view));
  views_.push_back(NewTensor(c, TENON_DT_UINT8, {&bytes, 1}));
  column->base = Data<char>(views_.back().view());
  std::uninitialized_fill_n(reinterpret_cast<std::string_view*>(column->base), static_cast<size_t>(Count(Dims(dims))),
                            std::string_view());
}

void DenseMemory::Give(const RunContext& c, const DenseColumn& column, const std::vector<int64_t>& dims) {
  if (column.dtype != TENON_DT_STRING) return;
  const std::span<const std::string_view> texts(reinterpret_cast<const std::string_view*>(column.base),
                                                static_cast<size_t>(Count(Dims(dims))));
  SetStrings(c, column.output, dims, texts);
}

int64_t MostOf(const ChunkValues& chunks) {
  int64_t most = 0;
  for (const Values* chunk : chunks)
    for (const Part& part : chunk->parts) most = std::max(most, part.count);
  return most;
}

void GivePadded(const RunContext& c, const DenseColumn& column, const std::vector<int64_t>& dims, int64_t row,
                int64_t unit, const ChunkValues& chunks) {
  DenseColumn output = column;
  DenseMemory memory;
  memory.Make(c, &output, dims);
  DispatchKind(column.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const to = reinterpret_cast<T*>(output.base);
    std::fill_n(to, Count(Dims(dims)), column.fallback_count > 0 ? FallbackAt<T>(column, 0) : T{});
    for (Values* chunk : chunks) {
      const T* from = chunk->of<T>().data();
      for (const Part& part : chunk->parts) {
        std::copy_n(from, part.count * unit, to + part.row * row);
        from += part.count * unit;
      }
    }
  });
  memory.Give(c, output, dims);
}

void ForEachChunk(const RunContext& c, int64_t rows, uint64_t bytes,
                  const std::function<void(int64_t, int64_t, int64_t)>& function) {
  const int64_t each = ChunkRows(rows), chunks = (rows + each - 1) / each;
  std::vector<Outcome> outcomes(static_cast<size_t>(chunks));
  const double cost = 200.0 * static_cast<double>(each) +
                      static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(chunks, 1));
  c.ParallelFor(chunks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      try {
        function(chunk, chunk * each, std::min(rows, (chunk + 1) * each));
      } catch (...) {
        outcomes[static_cast<size_t>(chunk)] = TakeStatus(CurrentFailure());
      }
    }
  });
  for (const Outcome& outcome : outcomes) Check(ToStatus(outcome));
}

}  // namespace tenon::sdk::example

#endif  // TENON_SDK_EXAMPLE_COLUMNS_DEFINITIONS_H_
