// SPDX-License-Identifier: Apache-2.0
// Kernels that last look now and then whether their step was given up, and end. Each case would take a second or more;
// those that go on are seen by what they return.
#include <gtest/gtest.h>

#include <functional>

#include "testing/kernel.h"

namespace tenon::cpu::given_up_test {
namespace {

using I = std::vector<int64_t>;

Tensor Plain(uint32_t dtype, I dims) { return {dtype, std::move(dims)}; }
template <class T>
Tensor Zeros(I dims) {
  return Plain(DtypeOf<T>::value, std::move(dims));
}
Tensor Sizes(const I& dims) { return Vector<int32_t>(std::vector<int32_t>(dims.begin(), dims.end())); }

struct Case {
  std::string name;
  std::function<Result()> run;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Kernel Long(const char* op, uint32_t dtype = 0) {
  Kernel kernel(op, dtype);
  kernel.Threads(2).GivenUp();
  return kernel;
}
Kernel Windows(const char* op, uint32_t dtype = 0) {
  Kernel kernel = Long(op, dtype);
  kernel.Attr("strides", I{1, 1, 1, 1})
      .Attr("dilations", I{1, 1, 1, 1})
      .Attr("padding", std::string("SAME"))
      .Attr("data_format", std::string("NHWC"))
      .Attr("explicit_paddings", I{});
  return kernel;
}
Kernel Pooling(const char* op) {
  Kernel kernel = Windows(op);
  kernel.Attr("ksize", I{1, 1024, 1024, 1});
  return kernel;
}

const I kImage = {1, 256, 256, 64}, kFilter = {7, 7, 64, 64}, kDepthFilter = {255, 255, 64, 1},
        kPicture = {1, 1024, 1024, 4};

class GivenUp : public ::testing::TestWithParam<Case> {};

TEST_P(GivenUp, EndsBeforeItsWorkIsDone) { EXPECT_EQ(GetParam().run().code, TENON_CANCELLED); }

INSTANTIATE_TEST_SUITE_P(
    Kernels, GivenUp,
    ::testing::ValuesIn(std::vector<Case>{
        {"Conv2D",
         [] {
           return Windows("Conv2D", TENON_DT_FLOAT)
               .Run({Zeros<float>(kImage), Zeros<float>(kFilter)}, {Out<float>(kImage)});
         }},
        {"Conv2DHalf",
         [] {
           return Windows("Conv2D", TENON_DT_HALF)
               .Run({Plain(TENON_DT_HALF, kImage), Plain(TENON_DT_HALF, kFilter)}, {{TENON_DT_HALF, kImage}});
         }},
        {"Conv2DBackpropInput",
         [] {
           return Windows("Conv2DBackpropInput", TENON_DT_FLOAT)
               .Run({Sizes(kImage), Zeros<float>(kFilter), Zeros<float>(kImage)}, {Out<float>(kImage)});
         }},
        {"Conv2DBackpropFilter",
         [] {
           return Windows("Conv2DBackpropFilter", TENON_DT_FLOAT)
               .Run({Zeros<float>(kImage), Sizes(kFilter), Zeros<float>(kImage)}, {Out<float>(kFilter)});
         }},
        {"DepthwiseConv2dNative",
         [] {
           return Windows("DepthwiseConv2dNative")
               .Run({Zeros<float>(kImage), Zeros<float>(kDepthFilter)}, {Out<float>(kImage)});
         }},
        {"DepthwiseConv2dNativeBackpropInput",
         [] {
           return Windows("DepthwiseConv2dNativeBackpropInput")
               .Run({Sizes(kImage), Zeros<float>(kDepthFilter), Zeros<float>(kImage)}, {Out<float>(kImage)});
         }},
        {"DepthwiseConv2dNativeBackpropFilter",
         [] {
           return Windows("DepthwiseConv2dNativeBackpropFilter")
               .Run({Zeros<float>(kImage), Sizes(kDepthFilter), Zeros<float>(kImage)}, {Out<float>(kDepthFilter)});
         }},
        {"MaxPool", [] { return Pooling("MaxPool").Run({Zeros<float>(kPicture)}, {Out<float>(kPicture)}); }},
        {"AvgPool", [] { return Pooling("AvgPool").Run({Zeros<float>(kPicture)}, {Out<float>(kPicture)}); }},
        {"MaxPoolGrad",
         [] {
           return Pooling("MaxPoolGrad")
               .Run({Zeros<float>(kPicture), Zeros<float>(kPicture), Zeros<float>(kPicture)}, {Out<float>(kPicture)});
         }},
        {"MaxPoolGradGrad",
         [] {
           return Pooling("MaxPoolGradGrad")
               .Run({Zeros<float>(kPicture), Zeros<float>(kPicture), Zeros<float>(kPicture)}, {Out<float>(kPicture)});
         }},
        {"AvgPoolGrad",
         [] {
           return Pooling("AvgPoolGrad").Run({Sizes(kPicture), Zeros<float>(kPicture)}, {Out<float>(kPicture)});
         }},
        {"LRN",
         [] {
           return Long("LRN")
               .Attr("depth_radius", int64_t{1} << 18)
               .Attr("bias", 1.0f)
               .Attr("alpha", 1.0f)
               .Attr("beta", 0.5f)
               .Run({Zeros<float>({1, 1, 1, 1 << 18})}, {Out<float>({1, 1, 1, 1 << 18})});
         }},
        {"LRNGrad",
         [] {
           const I dims = {1, 1, 1, 1 << 18};
           return Long("LRNGrad")
               .Attr("depth_radius", int64_t{1} << 18)
               .Attr("bias", 1.0f)
               .Attr("alpha", 1.0f)
               .Attr("beta", 0.5f)
               .Run({Zeros<float>(dims), Zeros<float>(dims), Zeros<float>(dims)}, {Out<float>(dims)});
         }},
        {"TopKV2",
         [] {
           return Long("TopKV2")
               .Attr("sorted", true)
               .Run({Zeros<float>({1, 1 << 24}), Scalar<int32_t>(1 << 22)},
                    {Out<float>({1, 1 << 22}), Out<int32_t>({1, 1 << 22})});
         }},
        {"TopKV2Unsorted",
         [] {
           return Long("TopKV2")
               .Attr("sorted", false)
               .Run({Zeros<float>({1, 1 << 24}), Scalar<int32_t>(1 << 22)},
                    {Out<float>({1, 1 << 22}), Out<int32_t>({1, 1 << 22})});
         }},
        {"NthElement",
         [] {
           return Long("NthElement")
               .Attr("reverse", false)
               .Run({Zeros<float>({1, 1 << 25}), Scalar<int32_t>(1 << 20)}, {Out<float>({1})});
         }},
        {"MatMul",
         [] {
           return Long("MatMul", TENON_DT_FLOAT)
               .Attr("transpose_a", false)
               .Attr("transpose_b", false)
               .Run({Zeros<float>({4096, 4096}), Zeros<float>({4096, 4096})}, {Out<float>({4096, 4096})});
         }},
        {"MatMulHalf",
         [] {
           return Long("MatMul", TENON_DT_HALF)
               .Attr("transpose_a", false)
               .Attr("transpose_b", false)
               .Run({Plain(TENON_DT_HALF, {4096, 4096}), Plain(TENON_DT_HALF, {4096, 4096})},
                    {{TENON_DT_HALF, {4096, 4096}}});
         }},
        {"BatchMatMulV2",
         [] {
           return Long("BatchMatMulV2", TENON_DT_FLOAT)
               .Attr("adj_x", false)
               .Attr("adj_y", false)
               .Run({Zeros<float>({2, 3072, 3072}), Zeros<float>({2, 3072, 3072})}, {Out<float>({2, 3072, 3072})});
         }},
        {"Einsum",
         [] {
           return Long("Einsum", TENON_DT_FLOAT)
               .Attr("equation", std::string("bij,bjk->bik"))
               .Run({Zeros<float>({2, 3072, 3072}), Zeros<float>({2, 3072, 3072})}, {Out<float>({2, 3072, 3072})});
         }},
        {"EinsumComplex",
         [] {
           const I dims = {1024, 1024};
           return Long("Einsum", TENON_DT_COMPLEX64)
               .Attr("equation", std::string("ij,jk->ik"))
               .Run({Plain(TENON_DT_COMPLEX64, dims), Plain(TENON_DT_COMPLEX64, dims)}, {{TENON_DT_COMPLEX64, dims}});
         }},
        {"Unique",
         [] {
           return Long("Unique").Run({Zeros<int32_t>({1 << 24})}, {Out<int32_t>(), Out<int32_t>({1 << 24})});
         }},
        {"Bincount",
         [] {
           return Long("Bincount")
               .Run({Zeros<int32_t>({1 << 24}), Scalar<int32_t>(4), Zeros<float>({0})}, {Out<float>({4})});
         }},
        {"UnsortedSegmentSum",
         [] {
           return Long("UnsortedSegmentSum")
               .Run({Zeros<float>({1 << 24}), Zeros<int32_t>({1 << 24}), Scalar<int32_t>(4)}, {Out<float>({4})});
         }},
        {"SparseSegmentSum",
         [] {
           return Long("SparseSegmentSum")
               .Run({Zeros<float>({4, 8}), Zeros<int32_t>({1 << 24}), Zeros<int32_t>({1 << 24})}, {Out<float>()});
         }},
        {"SparseTensorDenseMatMul",
         [] {
           return Long("SparseTensorDenseMatMul", TENON_DT_FLOAT)
               .Attr("adjoint_a", false)
               .Attr("adjoint_b", false)
               .Run({Zeros<int64_t>({1 << 20, 2}), Zeros<float>({1 << 20}), Vector<int64_t>({4, 4}),
                     Zeros<float>({4, 1024})},
                    {Out<float>({4, 1024})});
         }},
        {"TensorScatterAdd",
         [] {
           return Long("TensorScatterAdd")
               .Run({Zeros<float>({8}), Zeros<int32_t>({1 << 24, 1}), Zeros<float>({1 << 24})}, {Out<float>({8})});
         }},
        {"Where", [] { return Long("Where").Run({Zeros<uint8_t>({1 << 25})}, {Out<int64_t>()}); }},
        {"ResizeBilinearGrad",
         [] {
           return Long("ResizeBilinearGrad")
               .Attr("align_corners", false)
               .Attr("half_pixel_centers", false)
               .Run({Zeros<float>({1, 4096, 4096, 1}), Zeros<float>({1, 16, 16, 1})}, {Out<float>({1, 16, 16, 1})});
         }},
    }),
    [](const auto& info) { return info.param.name; });

// A variable that is half of one step and half of the next would be lost.
TEST(GivenUp, DoesNotEndTheUpdateOfAVariableHalfWay) {
  const int64_t count = 1 << 24;
  Variable variable;
  variable.initialized = variable.in_place = true;
  variable.value = Zeros<float>({count});
  Tensor delta = Zeros<float>({count});
  std::fill_n(reinterpret_cast<float*>(delta.bytes.data()), count, 1.0f);
  EXPECT_EQ(Long("AssignAddVariableOp").Run({Handle(variable), delta}, {}).code, TENON_OK);
  const auto* values = reinterpret_cast<const float*>(variable.value.bytes.data());
  EXPECT_EQ(std::count(values, values + count, 1.0f), count);
}

}  // namespace
}  // namespace tenon::cpu::given_up_test
