// SPDX-License-Identifier: Apache-2.0
// The kernels of attention themselves, on the emulated grid: every type both ways, rows at any address and distance, several batches a block. What
// graphs ask of them is in tests/engine/gpu_attention_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "code/attention.h"
#include "emulation/grid.h"
#include "tenon/sdk/kernel/half.h"

namespace tenon::gpu {
namespace {

struct Problem {
  int64_t batches, queries, keys;
  int32_t depth, value_depth;
  int64_t between;  // elements from row to row that are nobody's
  int64_t before;   // and before the first one
  bool has_mask;
};

float Number(uint32_t i) { return static_cast<float>(static_cast<int>(i * 2654435761u >> 26) - 32) / 16; }

// Rows of `width` numbers, apart from each other, in memory that ends with the last one.
template <class T>
struct Rows {
  Rows(int64_t rows, int64_t width, const Problem& p, uint32_t seed) : step(width + p.between), first(p.before), size(static_cast<size_t>(first + (rows - 1) * step + width)),
        memory(std::make_unique<T[]>(size)) {
    for (size_t i = 0; i < size; ++i) memory[i] = T(Number(static_cast<uint32_t>(i) + seed));
  }
  T* at() const { return memory.get() + first; }
  double operator()(int64_t row, int64_t i) const { return double{static_cast<float>(memory[static_cast<size_t>(first + row * step + i)])}; }
  int64_t step, first;
  size_t size;
  std::unique_ptr<T[]> memory;
};

template <class T>
void Expect(const std::string& name, const AttentionTile& tile, const Problem& problem, double bound) {
  const Problem& s = problem;
  const Rows<T> query(s.batches * s.queries, s.depth, s, 1), key(s.batches * s.keys, s.depth, s, 1000), value(s.batches * s.keys, s.value_depth, s, 2000), mask(s.queries, s.keys, s, 3000);
  Rows<T> out(s.batches * s.queries, s.value_depth, s, 4000);
  const Rows<T> before(s.batches * s.queries, s.value_depth, s, 4000);
  AttentionParams p = {};
  p.query = query.at();
  p.key = key.at();
  p.value = value.at();
  p.mask = s.has_mask ? mask.at() : nullptr;
  p.out = out.at();
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
  p.out_at = {out.step, {out.step * s.queries}};
  if (s.has_mask) p.mask_at = {mask.step, {0}};
  p.mask_column = s.has_mask ? 1 : 0;
  p.scale = 0.25f;
  p.mask_scale = -0.5f;
  p.shift = 0.125f;
  const uint64_t bytes = (static_cast<uint64_t>(s.depth) | static_cast<uint64_t>(s.value_depth) | static_cast<uint64_t>(s.between) | static_cast<uint64_t>(s.before)) * sizeof(T);
  p.even = bytes % 16 == 0;
  const uint32_t blocks[] = {static_cast<uint32_t>((s.queries + tile.queries - 1) / tile.queries), 2, 1};
  const EmulatedKernel* const kernel = EmulatedKernel::Find(name.c_str());
  ASSERT_NE(kernel, nullptr) << name;
  ASSERT_EQ(kernel->Run(blocks, static_cast<uint32_t>(AttentionThreads(tile)), &p), "");
  for (int64_t row = 0; row < s.batches * s.queries; ++row) {
    const int64_t batch = row / s.queries;
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < s.depth; ++d) dot += query(row, d) * key(batch * s.keys + j, d);
      weights.push_back(std::exp(dot * 0.25 + 0.125 + (s.has_mask ? mask(row % s.queries, j) * -0.5 : 0)));
      sum += weights.back();
    }
    for (int64_t d = 0; d < s.value_depth; ++d) {
      double total = 0;
      for (int64_t j = 0; j < s.keys; ++j) total += weights[static_cast<size_t>(j)] / sum * value(batch * s.keys + j, d);
      ASSERT_NEAR(out(row, d), total, bound) << name << " row " << row << " element " << d;
    }
  }
  // What is between rows is left as it was.
  for (size_t i = 0; i < out.size; ++i) {
    const int64_t place = static_cast<int64_t>(i) - s.before;
    if (place < 0 || place % out.step >= s.value_depth) {
      ASSERT_EQ(static_cast<float>(out.memory[i]), static_cast<float>(before.memory[i])) << name << " at " << i;
    }
  }
}

void ExpectAll(const Problem& p) {
  const int32_t depth = std::max(p.depth, p.value_depth);
  const AttentionTile plain = depth <= 32 ? kShortHeads : depth <= 64 ? kMiddleHeads : kLongHeads, cores = depth <= 32 ? kShortCores : depth <= 64 ? kMiddleCores : kLongCores;
  const std::string size = std::to_string(plain.depth);
  Expect<float>("Attention_" + size + "_f32", plain, p, 1e-5);
  Expect<sdk::Half>("Attention_" + size + "_f16", plain, p, 2e-3);
  Expect<sdk::Bfloat16>("Attention_" + size + "_bf16", plain, p, 1.6e-2);
  Expect<sdk::Half>("AttentionCores_" + size + "_f16", cores, p, 4e-3);
  Expect<sdk::Bfloat16>("AttentionCores_" + size + "_bf16", cores, p, 3.2e-2);
}

TEST(GpuAttentionKernels, TakeHeadsOfAllSizesAndLengthsWithTails) {
  for (const Problem& p : {Problem{3, 1, 1, 8, 8, 0, 0, false}, Problem{3, 65, 66, 32, 24, 0, 0, true}, Problem{2, 17, 130, 64, 56, 0, 0, true}, Problem{1, 66, 65, 128, 120, 0, 0, true},
                           Problem{1, 5, 30, 72, 104, 0, 0, false}, Problem{1, 20, 64, 16, 64, 0, 0, false}}) {
    ExpectAll(p);
  }
}
TEST(GpuAttentionKernels, TakeRowsAtAnyDistanceAndAddress) {
  for (const Problem& p : {Problem{3, 7, 9, 16, 16, 16, 8, true}, Problem{2, 65, 70, 40, 32, 1, 0, true}, Problem{2, 20, 67, 64, 48, 3, 1, false}, Problem{1, 35, 40, 128, 128, 5, 7, true}}) ExpectAll(p);
}

}  // namespace
}  // namespace tenon::gpu
