// SPDX-License-Identifier: Apache-2.0
// Operands of attention's kernels, for their tests: rows at any address and distance.
#ifndef TENON_DEVICES_GPU_KERNELS_TESTING_ATTENTION_H_
#define TENON_DEVICES_GPU_KERNELS_TESTING_ATTENTION_H_

#include <cstdint>
#include <memory>

#include "code/attention.h"
#include "tenon/sdk/kernel/half.h"

namespace tenon::gpu {

struct Problem {
  int64_t batches, queries, keys;
  int32_t depth, value_depth;
  int64_t between;  // elements from row to row that are nobody's
  int64_t before;   // and before the first one
  bool has_mask;
};

inline float Number(uint32_t i) { return static_cast<float>(static_cast<int>(i * 2654435761u >> 26) - 32) / 16; }

// Rows of `width` numbers, apart from each other, in memory that ends with the last one.
template <class T>
struct Rows {
  Rows(int64_t rows, int64_t width, const Problem& p, uint32_t seed)
      : step(width + p.between),
        first(p.before),
        size(static_cast<size_t>(first + (rows - 1) * step + width)),
        memory(std::make_unique<T[]>(size)) {
    for (size_t i = 0; i < size; ++i) memory[i] = T(Number(static_cast<uint32_t>(i) + seed));
  }
  T* at() const { return memory.get() + first; }
  double operator()(int64_t row, int64_t i) const {
    return double{static_cast<float>(memory[static_cast<size_t>(first + row * step + i)])};
  }
  int64_t step, first;
  size_t size;
  std::unique_ptr<T[]> memory;
};

// Scores are dots / 4 - mask / 2 + 1 / 8; all batches have one mask, and two blocks. Without an output.
template <class T>
AttentionParams ParamsOf(const Problem& s, const Rows<T>& query, const Rows<T>& key, const Rows<T>& value,
                         const Rows<T>& mask) {
  AttentionParams p = {};
  p.query = query.at();
  p.key = key.at();
  p.value = value.at();
  p.mask = s.has_mask ? mask.at() : nullptr;
  p.queries = s.queries;
  p.keys = s.keys;
  p.depth = s.depth;
  p.value_depth = s.value_depth;
  p.batches = p.dims[0] = s.batches;
  p.batch_blocks = 2;
  p.rank = 1;
  p.query_at = {query.step, {query.step * s.queries}};
  p.key_at = {key.step, {key.step * s.keys}};
  p.value_at = {value.step, {value.step * s.keys}};
  if (s.has_mask) p.mask_at = {mask.step, {0}};
  p.mask_column = s.has_mask ? 1 : 0;
  p.scale = 0.25f;
  p.mask_scale = -0.5f;
  p.shift = 0.125f;
  const uint64_t bytes = (static_cast<uint64_t>(s.depth) | static_cast<uint64_t>(s.value_depth) |
                          static_cast<uint64_t>(s.between) | static_cast<uint64_t>(s.before)) *
                         sizeof(T);
  p.even = bytes % 16 == 0;
  return p;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_TESTING_ATTENTION_H_
