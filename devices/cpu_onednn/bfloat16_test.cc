// SPDX-License-Identifier: Apache-2.0
// oneDNN's kernels in bfloat16 against the plain ones of devices/cpu, which sum in float32 and round once. Covers N4.
#include <gtest/gtest.h>

#include <cmath>

#include "package.h"
#include "program.h"
#include "tenon/testing/samples.h"
#include "testing/kernel.h"

namespace tenon::cpu_onednn {
namespace {

using cpu::Kernel;
using testing::Out;
using testing::Result;
using testing::Tensor;
using testing::Values;
using testing::Vector;
using I = std::vector<int64_t>;

Tensor Numbers(I dims, uint32_t seed) { return testing::ValuesOf(TENON_DT_BFLOAT16, testing::RandomFloatsOf(std::move(dims), seed)); }

class OnednnBfloat16 : public ::testing::Test {
 protected:
  void SetUp() override {
    use_always = true;
    if (!HasBfloat16()) GTEST_SKIP() << "this processor has no bfloat16";
  }
  void TearDown() override { use_always = false; }

  // Sums in another order part in their last bits of float32, which may round either way: by a unit in bfloat16's last place.
  template <class T = sdk::Bfloat16, class Configure>
  static void Compare(const char* op, const std::vector<Tensor>& inputs, const I& out, Configure&& configure, int constant = -1) {
    Kernel plain(op, TENON_DT_BFLOAT16);
    configure(plain);
    const Result want = plain.Run(inputs, {Out<T>(out)});
    ASSERT_EQ(want.code, TENON_OK) << op << ": " << want.message;
    for (uint32_t threads : {1u, 2u, 5u}) {
      Kernel kernel(op, TENON_DT_BFLOAT16);
      configure(kernel);
      kernel.From(kKernelPackage).Threads(threads);
      if (constant >= 0) kernel.Constant(constant);
      const Result got = kernel.Run(inputs, {Out<T>(out)});
      ASSERT_EQ(got.code, TENON_OK) << op << ": " << got.message;
      const auto a = Values<T>(want[0]), b = Values<T>(got[0]);
      const float rounding = std::is_same_v<T, float> ? 0 : 0x1p-7f;
      for (size_t i = 0; i < a.size(); ++i) {
        const float wanted = static_cast<float>(a[i]);
        ASSERT_NEAR(wanted, static_cast<float>(b[i]), rounding * std::fabs(wanted) + 1e-4f * (1 + std::fabs(wanted))) << op << " at " << i << ", " << threads << " threads";
      }
    }
  }
};

TEST_F(OnednnBfloat16, MultipliesMatricesOfEveryTransposition) {
  for (int t = 0; t < 4; ++t) {
    const bool ta = (t & 1) != 0, tb = (t & 2) != 0;
    const auto configure = [&](Kernel& k) { k.Attr("transpose_a", ta).Attr("transpose_b", tb); };
    for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {5, 300, 17}, {300, 5, 64}, {130, 257, 100}, {1, 512, 300}, {300, 1, 70}}) {
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
  for (const Case& c : {Case{{2, 3, 20, 16}, {2, 3, 16, 40}, {2, 3, 20, 40}}, {{7, 20, 16}, {16, 40}, {7, 20, 40}}, {{2, 1, 20, 16}, {3, 16, 8}, {2, 3, 20, 8}}, {{1, 5, 20, 16}, {1, 1, 16, 8}, {1, 5, 20, 8}}, {{20, 16}, {16, 40}, {20, 40}}}) {
    for (int t = 0; t < 4; ++t) {
      I a = c.a, b = c.b;
      if ((t & 1) != 0) std::swap(a[a.size() - 1], a[a.size() - 2]);
      if ((t & 2) != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
      const auto configure = [&](Kernel& k) { k.Attr("adj_x", (t & 1) != 0).Attr("adj_y", (t & 2) != 0); };
      Compare("BatchMatMulV2", {Numbers(a, 1), Numbers(b, 2)}, c.out, configure);
      const auto third = [&](auto tag) {
        return [&, tag](Kernel& k) {
          configure(k);
          k.Attr("Ta", testing::Type{TENON_DT_BFLOAT16}).Attr("Tb", testing::Type{TENON_DT_BFLOAT16}).Attr("Tout", testing::Type{sdk::DtypeOf<decltype(tag)>::value});
        };
      };
      Compare<float>("BatchMatMulV3", {Numbers(a, 1), Numbers(b, 2)}, c.out, third(float{}));
      Compare("BatchMatMulV3", {Numbers(a, 1), Numbers(b, 2)}, c.out, third(sdk::Bfloat16{}));
    }
  }
}

struct ConvCase {
  int64_t batch, size, in, out, kernel, stride, dilation, groups;
  bool same, channels_first;
};

TEST_F(OnednnBfloat16, ConvolvesForwardAndBackward) {
  const ConvCase cases[] = {{2, 8, 3, 16, 3, 1, 1, 1, true, false}, {1, 9, 16, 32, 3, 2, 1, 1, true, false},
                            {3, 8, 16, 8, 3, 1, 1, 1, true, true},  {2, 9, 8, 8, 3, 1, 2, 1, false, false},
                            {2, 8, 8, 16, 3, 1, 1, 2, true, false}, {1, 7, 4, 4, 1, 1, 1, 1, false, false},
                            {5, 6, 8, 8, 5, 1, 1, 1, true, false},  {2, 10, 8, 16, 1, 2, 1, 1, true, false},
                            {3, 10, 8, 8, 3, 2, 1, 1, false, false}, {2, 12, 1, 8, 5, 1, 1, 1, true, false}};
  for (const ConvCase& c : cases) {
    const int64_t reach = (c.kernel - 1) * c.dilation + 1;
    const int64_t to = c.same ? (c.size + c.stride - 1) / c.stride : (c.size - reach) / c.stride + 1;
    const auto image = [&](int64_t s, int64_t k) { return c.channels_first ? I{c.batch, k, s, s} : I{c.batch, s, s, k}; };
    const auto four = [&](int64_t v) { return c.channels_first ? I{1, 1, v, v} : I{1, v, v, 1}; };
    const auto configure = [&](Kernel& k) {
      k.Attr("strides", four(c.stride)).Attr("dilations", four(c.dilation)).Attr("padding", std::string(c.same ? "SAME" : "VALID"));
      k.Attr("data_format", std::string(c.channels_first ? "NCHW" : "NHWC"));
    };
    const I w = {c.kernel, c.kernel, c.in / c.groups, c.out};
    const Tensor x = Numbers(image(c.size, c.in), 1), f = Numbers(w, 2), dy = Numbers(image(to, c.out), 3), sizes = Vector<int32_t>({0, 0, 0, 0});
    Compare("Conv2D", {x, f}, image(to, c.out), configure);
    Compare("Conv2D", {x, f}, image(to, c.out), configure, 1);
    Compare("Conv2DBackpropInput", {sizes, f, dy}, image(c.size, c.in), configure);
    Compare<float>("Tenon>Conv2DBackpropFilterSums", {x, sizes, dy}, w, configure);
    if (!c.channels_first && c.groups == 1 && c.dilation == 1) Compare("DepthwiseConv2dNative", {x, Numbers({c.kernel, c.kernel, c.in, 2}, 4)}, image(to, 2 * c.in), configure);
  }
}

TEST_F(OnednnBfloat16, Pools) {
  for (bool first : {false, true}) {
    for (const char* padding : {"SAME", "VALID"}) {
      const auto configure = [&](Kernel& k) {
        k.Attr("ksize", first ? I{1, 1, 3, 3} : I{1, 3, 3, 1}).Attr("strides", first ? I{1, 1, 2, 2} : I{1, 2, 2, 1});
        k.Attr("padding", std::string(padding)).Attr("data_format", std::string(first ? "NCHW" : "NHWC"));
      };
      const int64_t to = padding[0] == 'S' ? 4 : 3;
      const I in = first ? I{3, 5, 7, 7} : I{3, 7, 7, 5}, out = first ? I{3, 5, to, to} : I{3, to, to, 5};
      Compare("AvgPool", {Numbers(in, 1)}, out, configure);
    }
  }
}

}  // namespace
}  // namespace tenon::cpu_onednn
