// SPDX-License-Identifier: Apache-2.0
// The kernels of attention themselves, on the emulated grid: every type both ways, rows at any address and distance,
// several batches a block. What graphs ask of them is in tests/engine/gpu_attention_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "emulation/grid.h"
#include "kernels/testing/attention.h"

namespace tenon::gpu {
namespace {

template <class T>
void Expect(const std::string& name, const AttentionTile& tile, const Problem& problem, double bound) {
  const Problem& s = problem;
  const Rows<T> query(s.batches * s.queries, s.depth, s, 1), key(s.batches * s.keys, s.depth, s, 1000),
      value(s.batches * s.keys, s.value_depth, s, 2000), mask(s.queries, s.keys, s, 3000);
  Rows<T> out(s.batches * s.queries, s.value_depth, s, 4000);
  const Rows<T> before(s.batches * s.queries, s.value_depth, s, 4000);
  AttentionParams p = ParamsOf(s, query, key, value, mask);
  p.out = out.at();
  p.out_at = {out.step, {out.step * s.queries}};
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
      for (int64_t j = 0; j < s.keys; ++j)
        total += weights[static_cast<size_t>(j)] / sum * value(batch * s.keys + j, d);
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
  const AttentionTile plain = depth <= 32   ? kShortHeads
                              : depth <= 64 ? kMiddleHeads
                                            : kLongHeads,
                      cores = depth <= 32   ? kShortCores
                              : depth <= 64 ? kMiddleCores
                                            : kLongCores;
  const std::string size = std::to_string(plain.depth);
  Expect<float>("Attention_" + size + "_f32", plain, p, 1e-5);
  Expect<sdk::Half>("Attention_" + size + "_f16", plain, p, 2e-3);
  Expect<sdk::Bfloat16>("Attention_" + size + "_bf16", plain, p, 1.6e-2);
  Expect<sdk::Half>("AttentionCores_" + size + "_f16", cores, p, 4e-3);
  Expect<sdk::Bfloat16>("AttentionCores_" + size + "_bf16", cores, p, 3.2e-2);
}

TEST(GpuAttentionKernels, TakeHeadsOfAllSizesAndLengthsWithTails) {
  for (const Problem& p : {Problem{3, 1, 1, 8, 8, 0, 0, false}, Problem{3, 65, 66, 32, 24, 0, 0, true},
                           Problem{2, 17, 130, 64, 56, 0, 0, true}, Problem{1, 66, 65, 128, 120, 0, 0, true},
                           Problem{1, 5, 30, 72, 104, 0, 0, false}, Problem{1, 20, 64, 16, 64, 0, 0, false}}) {
    ExpectAll(p);
  }
}
TEST(GpuAttentionKernels, TakeRowsAtAnyDistanceAndAddress) {
  for (const Problem& p : {Problem{3, 7, 9, 16, 16, 16, 8, true}, Problem{2, 65, 70, 40, 32, 1, 0, true},
                           Problem{2, 20, 67, 64, 48, 3, 1, false}, Problem{1, 35, 40, 128, 128, 5, 7, true}})
    ExpectAll(p);
}

}  // namespace
}  // namespace tenon::gpu
