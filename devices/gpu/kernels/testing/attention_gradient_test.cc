// SPDX-License-Identifier: Apache-2.0
// The kernels of attention's gradients themselves, on the emulated grid: every type both ways, rows at any address and
// distance, several batches a block. What graphs ask of them is in tests/engine/gpu_attention_gradient_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "code/attention_gradient.h"
#include "emulation/grid.h"
#include "kernels/testing/attention.h"

namespace tenon::gpu {
namespace {

template <class T>
class GradientCase {
 public:
  explicit GradientCase(const Problem& problem)
      : s(problem),
        query(s.batches * s.queries, s.depth, s, 1),
        key(s.batches * s.keys, s.depth, s, 1000),
        value(s.batches * s.keys, s.value_depth, s, 2000),
        mask(s.queries, s.keys, s, 3000),
        incoming(s.batches * s.queries, s.value_depth, s, 5000),
        of_query(s.batches * s.queries, s.depth, s, 6000),
        of_key(s.batches * s.keys, s.depth, s, 7000),
        of_value(s.batches * s.keys, s.value_depth, s, 8000) {}

  void Run(const std::string& kernels, int depth, const std::string& type, const AttentionTile& tile) {
    std::vector<AttentionRow> rows(static_cast<size_t>(s.batches * s.queries));
    AttentionGradientParams p = {};
    p.of = ParamsOf(s, query, key, value, mask);
    p.of.out = incoming.at();
    p.of.out_at = {incoming.step, {incoming.step * s.queries}};
    p.of_query = of_query.at();
    p.of_key = of_key.at();
    p.of_value = of_value.at();
    p.of_query_at = {of_query.step, {of_query.step * s.queries}};
    p.of_key_at = {of_key.step, {of_key.step * s.keys}};
    p.of_value_at = {of_value.step, {of_value.step * s.keys}};
    p.rows = rows.data();
    p.gradient_scale = 0.25f;
    p.even = p.of.even;
    RunOne("AttentionQueryGradient" + kernels + "_" + std::to_string(depth) + type, p, tile, s.queries);
    RunOne("AttentionKeyGradient" + kernels + "_" + std::to_string(depth) + type, p, tile, s.keys);
  }
  void RunOne(const std::string& name, const AttentionGradientParams& p, const AttentionTile& tile, int64_t rows) {
    const uint32_t blocks[] = {static_cast<uint32_t>((rows + tile.queries - 1) / tile.queries), 2, 1};
    const EmulatedKernel* const kernel = EmulatedKernel::Find(name.c_str());
    ASSERT_NE(kernel, nullptr) << name;
    ASSERT_EQ(kernel->Run(blocks, static_cast<uint32_t>(AttentionThreads(tile)), &p), "");
  }

  // The formula, in double.
  void Compute() {
    wanted[0].assign(static_cast<size_t>(s.batches * s.queries * s.depth), 0);
    wanted[1].assign(static_cast<size_t>(s.batches * s.keys * s.depth), 0);
    wanted[2].assign(static_cast<size_t>(s.batches * s.keys * s.value_depth), 0);
    for (int64_t row = 0; row < s.batches * s.queries; ++row) AddRow(row);
  }
  void AddRow(int64_t row) {
    const int64_t first = row / s.queries * s.keys;
    std::vector<double> weights, products;
    double sum = 0, dot = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      double score = 0.125 + (s.has_mask ? mask(row % s.queries, j) * -0.5 : 0), product = 0;
      for (int64_t d = 0; d < s.depth; ++d) score += 0.25 * query(row, d) * key(first + j, d);
      for (int64_t d = 0; d < s.value_depth; ++d) product += incoming(row, d) * value(first + j, d);
      weights.push_back(std::exp(score));
      products.push_back(product);
      sum += weights.back();
    }
    for (size_t j = 0; j < weights.size(); ++j) dot += (weights[j] /= sum) * products[j];
    for (int64_t j = 0; j < s.keys; ++j) {
      const double weight = weights[static_cast<size_t>(j)],
                   of_score = 0.25 * weight * (products[static_cast<size_t>(j)] - dot);
      for (int64_t d = 0; d < s.depth; ++d) {
        wanted[0][static_cast<size_t>(row * s.depth + d)] += of_score * key(first + j, d);
        wanted[1][static_cast<size_t>((first + j) * s.depth + d)] += of_score * query(row, d);
      }
      for (int64_t d = 0; d < s.value_depth; ++d)
        wanted[2][static_cast<size_t>((first + j) * s.value_depth + d)] += weight * incoming(row, d);
    }
  }
  // bound: of the largest element. What is between rows is left as it was.
  void Compare(const Rows<T>& made, const std::vector<double>& from, int64_t width, uint32_t seed, double bound) const {
    double most = 1;
    for (const double each : from) most = std::max(most, std::fabs(each));
    const Rows<T> before(static_cast<int64_t>(from.size()) / width, width, s, seed);
    for (size_t i = 0; i < made.size; ++i) {
      const int64_t place = static_cast<int64_t>(i) - s.before;
      if (place < 0 || place % made.step >= width) {
        ASSERT_EQ(static_cast<float>(made.memory[i]), static_cast<float>(before.memory[i])) << "at " << i;
      } else {
        ASSERT_NEAR(static_cast<float>(made.memory[i]),
                    from[static_cast<size_t>(place / made.step * width + place % made.step)], bound * most)
            << "at " << i;
      }
    }
  }
  void CompareAll(double bound) const {
    Compare(of_query, wanted[0], s.depth, 6000, bound);
    Compare(of_key, wanted[1], s.depth, 7000, bound);
    Compare(of_value, wanted[2], s.value_depth, 8000, bound);
  }

  const Problem s;
  const Rows<T> query, key, value, mask, incoming;
  Rows<T> of_query, of_key, of_value;
  std::vector<double> wanted[3];
};

template <class T>
void Expect(const Problem& problem, const std::string& kernels, int depth, const std::string& type,
            const AttentionTile& tile, double bound) {
  SCOPED_TRACE(kernels + type + " " + std::to_string(problem.queries) + " " + std::to_string(problem.keys) + " " +
               std::to_string(problem.depth) + " " + std::to_string(problem.value_depth));
  GradientCase<T> now(problem);
  now.Compute();
  now.Run(kernels, depth, type, tile);
  now.CompareAll(bound);
}

void ExpectAll(const Problem& p) {
  const int depth = std::max(p.depth, p.value_depth) <= 32 ? 32 : std::max(p.depth, p.value_depth) <= 64 ? 64 : 128;
  const AttentionTile plain = depth == 32 ? kShortGradients : depth == 64 ? kMiddleGradients : kLongGradients;
  const AttentionTile cores = depth == 32   ? kShortGradientCores
                              : depth == 64 ? kMiddleGradientCores
                                            : kLongGradientCores;
  Expect<float>(p, "", depth, "_f32", plain, 1e-5);
  Expect<sdk::Half>(p, "", depth, "_f16", plain, 1e-3);
  Expect<sdk::Bfloat16>(p, "", depth, "_bf16", plain, 8e-3);
  Expect<sdk::Half>(p, "Cores", depth, "_f16", cores, 2e-3);
  Expect<sdk::Bfloat16>(p, "Cores", depth, "_bf16", cores, 1.2e-2);
}

TEST(GpuAttentionGradientKernels, TakeHeadsOfAllSizesAndLengthsWithTails) {
  for (const Problem& p : {Problem{3, 1, 1, 8, 8, 0, 0, false}, Problem{3, 65, 66, 32, 24, 0, 0, true},
                           Problem{2, 17, 130, 64, 56, 0, 0, true}, Problem{1, 66, 65, 128, 120, 0, 0, true},
                           Problem{1, 5, 30, 72, 104, 0, 0, false}, Problem{1, 20, 64, 16, 64, 0, 0, false}}) {
    ExpectAll(p);
  }
}
TEST(GpuAttentionGradientKernels, TakeRowsAtAnyDistanceAndAddress) {
  for (const Problem& p : {Problem{3, 7, 9, 16, 16, 16, 8, true}, Problem{2, 65, 70, 40, 32, 1, 0, true},
                           Problem{2, 20, 67, 64, 48, 3, 1, false}, Problem{1, 35, 40, 128, 128, 5, 7, true}})
    ExpectAll(p);
}

}  // namespace
}  // namespace tenon::gpu
