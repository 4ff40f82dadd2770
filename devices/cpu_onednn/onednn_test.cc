// SPDX-License-Identifier: Apache-2.0
// oneDNN's kernels against the plain ones of devices/cpu, by shapes, layouts and shares. Covers N4.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "against_plain.h"
#include "conv.h"
#include "package.h"
#include "program.h"
#include "tenon/ext/draft/lasting_view.h"
#include "testing/kernel.h"

namespace tenon::cpu_onednn::onednn_test {
namespace {

using cpu::Kernel;
using testing::Make;
using testing::Out;
using testing::Result;
using testing::Tensor;
using testing::Values;
using testing::Vector;
using I = std::vector<int64_t>;

Tensor Numbers(I dims, uint32_t seed) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    v.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1.f);
  }
  return Make<float>(std::move(dims), v);
}

class OnednnTest : public ::testing::Test {
 protected:
  OnednnTest() { use_always = true; }
  ~OnednnTest() override { use_always = false; }

  template <class Configure>
  static void Compare(const char* op, const std::vector<Tensor>& inputs, const I& out, const Configure& configure,
                      int constant = -1) {
    CompareWithPlain<float>(op, TENON_DT_FLOAT, inputs, out, configure, constant);
  }
};

TEST_F(OnednnTest, MultipliesMatricesOfEveryTransposition) {
  for (int t = 0; t < 4; ++t) {
    const bool ta = (t & 1) != 0, tb = (t & 2) != 0;
    const auto configure = [&](Kernel& k) { k.Attr("transpose_a", ta).Attr("transpose_b", tb); };
    for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                  {5, 300, 17},
                                  {300, 5, 64},
                                  {130, 257, 100},
                                  {65, 129, 1},
                                  {70, 450, 780},
                                  {1030, 140, 30},
                                  {33, 3072, 40}}) {
      const Tensor a = Numbers(ta ? I{k, m} : I{m, k}, 1), b = Numbers(tb ? I{n, k} : I{k, n}, 2);
      Compare("MatMul", {a, b}, {m, n}, configure);
      Compare("MatMul", {a, b}, {m, n}, configure, 1);
    }
  }
}

TEST_F(OnednnTest, ConvolvesForwardAndBackward) {
  for (const ConvCase& c : kConvCases) {
    const I in = c.image(c.size, c.in), out = c.image(c.to(), c.out);
    const Tensor x = Numbers(in, 1), f = Numbers(c.filter(), 2), dy = Numbers(out, 3),
                 sizes = Vector<int32_t>({0, 0, 0, 0});
    Compare("Conv2D", {x, f}, out, c);
    Compare("Conv2D", {x, f}, out, c, 1);
    Compare("Conv2DBackpropInput", {sizes, f, dy}, in, c);
    Compare("Conv2DBackpropFilter", {x, sizes, dy}, c.filter(), c);
  }
}

// Strides along one side, whose last step reaches beyond the image or ends with it.
TEST_F(OnednnTest, ConvolvesPixelsThatLieApartAlongOneSide) {
  for (const I& strides : {I{1, 1, 2, 1}, I{1, 2, 1, 1}, I{1, 1, 3, 1}, I{1, 3, 2, 1}}) {
    for (const int64_t side : {5, 6, 7}) {
      const I in = {2, side, side + 2, 3},
              out = {2, (side + strides[1] - 1) / strides[1], (side + 2 + strides[2] - 1) / strides[2], 4};
      const auto configure = [&](Kernel& k) {
        k.Attr("strides", strides)
            .Attr("dilations", I{1, 1, 1, 1})
            .Attr("padding", std::string("SAME"))
            .Attr("data_format", std::string("NHWC"));
      };
      const Tensor x = Numbers(in, 1), f = Numbers({1, 1, 3, 4}, 2), dy = Numbers(out, 3),
                   sizes = Vector<int32_t>({0, 0, 0, 0});
      Compare("Conv2D", {x, f}, out, configure);
      Compare("Conv2DBackpropInput", {sizes, f, dy}, in, configure);
      Compare("Conv2DBackpropFilter", {x, sizes, dy}, {1, 1, 3, 4}, configure);
    }
  }
}

// Large images of many channels go through Winograd's transforms on processors with AVX-512, forward and both ways
// back; tiles at the edges are cut.
TEST_F(OnednnTest, ConvolvesForwardAndBackwardByWinogradsTransforms) {
  for (const ConvCase& c : {ConvCase{3, 22, 64, 64, 3, 1, 1, 1, true, false},
                            {2, 25, 80, 64, 3, 1, 1, 1, false, false},
                            {5, 16, 64, 112, 3, 1, 1, 1, true, false}}) {
    const I in = c.image(c.size, c.in), out = c.image(c.to(), c.out);
    const Tensor x = Numbers(in, 1), f = Numbers(c.filter(), 2), dy = Numbers(out, 3),
                 sizes = Vector<int32_t>({0, 0, 0, 0});
    struct Way {
      const char* op;
      std::vector<Tensor> inputs;
      I to;
    };
    for (const Way& way : {Way{"Conv2D", {x, f}, out},
                           {"Conv2DBackpropInput", {sizes, f, dy}, in},
                           {"Conv2DBackpropFilter", {x, sizes, dy}, c.filter()}}) {
      SCOPED_TRACE(way.op);
      Compare(way.op, way.inputs, way.to, c);
      const auto run = [&](bool transformed) {
        winograd = transformed;
        Kernel kernel(way.op, TENON_DT_FLOAT);
        c(kernel);
        const Result result = kernel.From(kKernelPackage).Run(way.inputs, {Out<float>(way.to)});
        winograd = true;
        EXPECT_EQ(result.code, TENON_OK) << result.message;
        return Values<float>(result[0]);
      };
      const bool other = run(true) != run(false);
      EXPECT_EQ(other, DNNL_VERSION_MAJOR < 3 && Has(dnnl::cpu_isa::avx512_core))
          << "sums in another order tell whether it was taken";
    }
  }
}

TEST_F(OnednnTest, Pools) {
  ForPools([](const auto& configure, const I& in, const I& out) {
    Compare("MaxPool", {Numbers(in, 1)}, out, configure);
    Compare("AvgPool", {Numbers(in, 1)}, out, configure);
    Compare("AvgPoolGrad", {Vector<int32_t>({3, 7, 7, 5}), Numbers(out, 2)}, in, configure);
  });
}

TEST(Onednn, RefusesWhatThePlainKernelsDoFaster) {
  Kernel kernel("MatMul");
  kernel.Attr("transpose_a", false).Attr("transpose_b", false).From(kKernelPackage);
  const Result r = kernel.Run({Numbers({32, 64}, 1), Numbers({64, 32}, 2)}, {Out<float>({32, 32})});
  EXPECT_EQ(r.code, TENON_UNIMPLEMENTED);
  EXPECT_EQ(r.message, "too small for oneDNN to pay; the plain kernel is faster");
}

// Windows that do not reach the last rows, and parts of an image, are oneDNN's fast cases too.
TEST(Onednn, ConvolvesWithoutPaddingByItsFastPrimitives) {
  struct Shape {
    int64_t batch, size, kernel, stride, threads;
  };
  for (const Shape& s :
       {Shape{1, 40, 3, 1, 2}, {2, 40, 1, 2, 1}, {3, 41, 3, 2, 2}, {2, 40, 3, 1, 5}, {4, 38, 7, 2, 2}}) {
    const int64_t to = (s.size - s.kernel) / s.stride + 1;
    Kernel kernel("Conv2D");
    kernel.Attr("strides", I{1, s.stride, s.stride, 1})
        .Attr("dilations", I{1, 1, 1, 1})
        .Attr("padding", std::string("VALID"));
    kernel.Attr("data_format", std::string("NHWC")).From(kKernelPackage).Threads(static_cast<uint32_t>(s.threads));
    const Result r = kernel.Run({Numbers({s.batch, s.size, s.size, 32}, 1), Numbers({s.kernel, s.kernel, 32, 32}, 2)},
                                {Out<float>({s.batch, to, to, 32})});
    EXPECT_EQ(r.code, TENON_OK) << "batch " << s.batch << ", window " << s.kernel << ": " << r.message;
  }
}

// A share of 50 ms and more is done in pieces, which sum as one, and between which it ends once the step was given up.
TEST(Onednn, DoesInPiecesWhatLasts) {
  const I image = {8, 64, 64, 64}, filter = {7, 7, 64, 64};
  const Tensor x = Numbers(image, 1), f = Numbers(filter, 2), dy = Numbers(image, 3),
               sizes = Vector<int32_t>({0, 0, 0, 0});
  struct Case {
    const char* op;
    std::vector<Tensor> inputs;
    I out;
  };
  const auto run = [](const Case& each, const auto& configure) {
    Kernel kernel(each.op);
    kernel.Attr("strides", I{1, 1, 1, 1})
        .Attr("dilations", I{1, 1, 1, 1})
        .Attr("padding", std::string("SAME"))
        .Attr("data_format", std::string("NHWC"));
    configure(kernel);
    return kernel.Run(each.inputs, {Out<float>(each.out)});
  };
  for (const Case& each : {Case{"Conv2D", {x, f}, image},
                           {"Conv2DBackpropInput", {sizes, f, dy}, image},
                           {"Conv2DBackpropFilter", {x, sizes, dy}, filter}}) {
    const Result want = run(each, [](Kernel&) {}), got = run(each, [](Kernel& k) { k.From(kKernelPackage); });
    ASSERT_EQ(want.code, TENON_OK) << want.message;
    ASSERT_EQ(got.code, TENON_OK) << each.op << ": " << got.message;
    const auto a = Values<float>(want[0]), b = Values<float>(got[0]);
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], 2e-3f * (1 + std::fabs(a[i]))) << each.op << " at " << i;
    EXPECT_EQ(run(each, [](Kernel& k) { k.From(kKernelPackage).GivenUp(); }).code, TENON_CANCELLED) << each.op;
  }
}

// A primitive cannot be stopped: what one image of a gradient takes is left to the kernels that look between blocks.
TEST(Onednn, RefusesWhatOnePrimitiveWouldTakeLongFor) {
  Kernel kernel("AvgPool");
  kernel.Attr("ksize", I{1, 512, 512, 1})
      .Attr("strides", I{1, 1, 1, 1})
      .Attr("padding", std::string("SAME"))
      .Attr("data_format", std::string("NHWC"))
      .From(kKernelPackage);
  const Result r = kernel.Run({Numbers({1, 512, 512, 2}, 1)}, {Out<float>({1, 512, 512, 2})});
  EXPECT_EQ(r.code, TENON_UNIMPLEMENTED);
  EXPECT_EQ(r.message, "too long for one call of oneDNN, which cannot be stopped; the plain kernel can");
}

// A variable's value as a kernel sees it.
tenon_tensor_view Lasting(tenon_buffer* buffer) {
  tenon_tensor_view view = testing::ViewOf(TENON_DT_FLOAT, buffer);
  view.flags |= TENON_VIEW_LASTING;
  return view;
}

const dnnl::memory::desc kGiven = Strided({4, 4}, {4, 1}), kWanted = Strided({4, 4}, {1, 4});

TEST(KeptFilter, MakesAValueOnceForAsLongAsItIsHeld) {
  tenon_buffer* const buffer = testing::NewBuffer(64, {16});
  {
    KeptFilter kept(kGiven, kWanted);
    int made = 0;
    const auto find = [&](const tenon_tensor_view& view) {
      return kept.Find(view, [&](char* memory) {
        ++made;
        memory[0] = static_cast<char>(made);
      });
    };
    EXPECT_EQ(find(Lasting(buffer)), nullptr);  // seen once, it may be another the next time
    const auto first = find(Lasting(buffer));
    ASSERT_NE(first, nullptr);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(find(Lasting(buffer)), first);
    EXPECT_EQ(made, 1);
    EXPECT_EQ(buffer->references, 2);
    EXPECT_EQ(find(testing::ViewOf(TENON_DT_FLOAT, buffer)), nullptr);  // no variable's
    EXPECT_EQ(buffer->references, 2);
  }
  EXPECT_EQ(buffer->references, 1);
  testing::Release(buffer);
}

TEST(KeptFilter, TakesWhatAnotherHoldsInTheSameLayout) {
  tenon_buffer* const buffer = testing::NewBuffer(64, {16});
  tenon_buffer* const other_buffer = testing::NewBuffer(64, {16});
  int made = 0;
  const auto find = [&](KeptFilter& kept, tenon_buffer* of) {
    std::shared_ptr<char> found;
    for (int i = 0; i < 2; ++i) found = kept.Find(Lasting(of), [&](char*) { ++made; });  // the second look is a try
    return found;
  };
  std::optional<KeptFilter> third(std::in_place, kGiven, kWanted);
  {
    KeptFilter first(kGiven, kWanted), second(kGiven, kWanted), turned(kGiven, kGiven), otherwise(kGiven, kWanted);
    const auto one = find(first, buffer);
    EXPECT_EQ(find(second, buffer), one);
    EXPECT_EQ(made, 1);
    EXPECT_NE(find(turned, buffer), one);
    EXPECT_NE(find(otherwise, other_buffer), one);
    EXPECT_EQ(made, 3);
    EXPECT_EQ(buffer->references, 4);
  }
  EXPECT_EQ(buffer->references, 1);
  find(*third, buffer);  // nobody holds it any more: it may have been written to
  EXPECT_EQ(made, 4);
  third.reset();
  testing::Release(buffer);
  testing::Release(other_buffer);
}

TEST(KeptFilter, TriesLessAndLessOftenWhereValuesChange) {
  KeptFilter kept(kGiven, kWanted);
  int made = 0, held = 0;
  tenon_buffer* buffer = testing::NewBuffer(64, {16});
  for (int step = 0; step < 2000;
       ++step) {  // an update that finds another holder takes another buffer; one that does not writes in place
    (void)kept.Find(Lasting(buffer), [&](char*) { ++made; });
    if (buffer->references == 1) continue;
    ++held;
    testing::Release(buffer);
    buffer = testing::NewBuffer(64, {16});
  }
  EXPECT_GT(made, 3);
  EXPECT_LT(made, 16);
  EXPECT_EQ(made, held);
  const int before = made;
  for (int step = 0; step < 3000; ++step)
    (void)kept.Find(Lasting(buffer), [&](char*) { ++made; });  // the training is over
  EXPECT_EQ(made, before + 1);
  EXPECT_EQ(buffer->references, 2);
  testing::Release(buffer);
}

}  // namespace
}  // namespace tenon::cpu_onednn::onednn_test
