// SPDX-License-Identifier: Apache-2.0
// oneDNN's kernels in bfloat16 against the plain ones of devices/cpu, which sum in float32 and round once. Covers N4.
#include <gtest/gtest.h>

#include "against_plain.h"
#include "program.h"
#include "tenon/testing/samples.h"
#include "testing/kernel.h"

namespace tenon::cpu_onednn::bfloat16_test {
namespace {

using cpu::Kernel;
using testing::Tensor;
using testing::Vector;
using I = std::vector<int64_t>;

Tensor Numbers(I dims, uint32_t seed) {
  return testing::ValuesOf(TENON_DT_BFLOAT16, testing::RandomFloatsOf(std::move(dims), seed));
}

class OnednnBfloat16 : public ::testing::Test {
 protected:
  void SetUp() override {
    use_always = true;
    if (!HasBfloat16()) GTEST_SKIP() << "this processor has no bfloat16";
  }
  void TearDown() override { use_always = false; }

  template <class T = sdk::Bfloat16, class Configure>
  static void Compare(const char* op, const std::vector<Tensor>& inputs, const I& out, const Configure& configure,
                      int constant = -1) {
    CompareWithPlain<T>(op, TENON_DT_BFLOAT16, inputs, out, configure, constant);
  }
};

TEST_F(OnednnBfloat16, MultipliesMatricesOfEveryTransposition) {
  for (int t = 0; t < 4; ++t) {
    const bool ta = (t & 1) != 0, tb = (t & 2) != 0;
    const auto configure = [&](Kernel& k) { k.Attr("transpose_a", ta).Attr("transpose_b", tb); };
    for (const auto& [m, n, k] :
         {std::tuple{1, 1, 1}, {5, 300, 17}, {300, 5, 64}, {130, 257, 100}, {1, 512, 300}, {300, 1, 70}}) {
      const Tensor a = Numbers(ta ? I{k, m} : I{m, k}, 1), b = Numbers(tb ? I{n, k} : I{k, n}, 2);
      Compare("MatMul", {a, b}, {m, n}, configure);
      Compare("MatMul", {a, b}, {m, n}, configure, 1);
    }
  }
}

TEST_F(OnednnBfloat16, MultipliesStacksAndGivesSums) {
  struct Case {
    I a, b, out;
  };
  for (const Case& c : {Case{{2, 3, 20, 16}, {2, 3, 16, 40}, {2, 3, 20, 40}},
                        {{7, 20, 16}, {16, 40}, {7, 20, 40}},
                        {{2, 1, 20, 16}, {3, 16, 8}, {2, 3, 20, 8}},
                        {{1, 5, 20, 16}, {1, 1, 16, 8}, {1, 5, 20, 8}},
                        {{20, 16}, {16, 40}, {20, 40}}}) {
    for (int t = 0; t < 4; ++t) {
      I a = c.a, b = c.b;
      if ((t & 1) != 0) std::swap(a[a.size() - 1], a[a.size() - 2]);
      if ((t & 2) != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
      const auto configure = [&](Kernel& k) { k.Attr("adj_x", (t & 1) != 0).Attr("adj_y", (t & 2) != 0); };
      Compare("BatchMatMulV2", {Numbers(a, 1), Numbers(b, 2)}, c.out, configure);
      const auto third = [&](auto tag) {
        return [&, tag](Kernel& k) {
          configure(k);
          k.Attr("Ta", testing::Type{TENON_DT_BFLOAT16})
              .Attr("Tb", testing::Type{TENON_DT_BFLOAT16})
              .Attr("Tout", testing::Type{sdk::DtypeOf<decltype(tag)>::value});
        };
      };
      Compare<float>("BatchMatMulV3", {Numbers(a, 1), Numbers(b, 2)}, c.out, third(float{}));
      Compare("BatchMatMulV3", {Numbers(a, 1), Numbers(b, 2)}, c.out, third(sdk::Bfloat16{}));
    }
  }
}

TEST_F(OnednnBfloat16, ConvolvesForwardAndBackward) {
  for (const ConvCase& c : kConvCases) {
    const I in = c.image(c.size, c.in), out = c.image(c.to(), c.out);
    const Tensor x = Numbers(in, 1), f = Numbers(c.filter(), 2), dy = Numbers(out, 3),
                 sizes = Vector<int32_t>({0, 0, 0, 0});
    Compare("Conv2D", {x, f}, out, c);
    Compare("Conv2D", {x, f}, out, c, 1);
    Compare("Conv2DBackpropInput", {sizes, f, dy}, in, c);
    Compare<float>("Tenon>Conv2DBackpropFilterSums", {x, sizes, dy}, c.filter(), c);
    if (!c.channels_first && c.groups == 1 && c.dilation == 1)
      Compare("DepthwiseConv2dNative", {x, Numbers({c.kernel, c.kernel, c.in, 2}, 4)}, c.image(c.to(), 2 * c.in), c);
  }
}

TEST_F(OnednnBfloat16, Pools) {
  ForPools(
      [](const auto& configure, const I& in, const I& out) { Compare("AvgPool", {Numbers(in, 1)}, out, configure); });
}

}  // namespace
}  // namespace tenon::cpu_onednn::bfloat16_test
