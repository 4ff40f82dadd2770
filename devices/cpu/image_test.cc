// SPDX-License-Identifier: Apache-2.0
// Resizing, crops and colours: what must hold of them whatever the weights, and the same bits for any number of
// threads.
#include <gtest/gtest.h>

#include "testing/kernel.h"

namespace tenon::cpu::image_test {
namespace {

Tensor Noise(std::vector<int64_t> dims, uint32_t seed = 1) {
  std::vector<float> values(static_cast<size_t>(testing::CountOf(dims)));
  for (float& each : values) {
    seed = seed * 1664525 + 1013904223;
    each = static_cast<float>(seed >> 8) / 16777216.0f;
  }
  return Make<float>(std::move(dims), values);
}
Kernel Of(const char* op) {
  Kernel kernel(op);
  kernel.Attr("T", Type{TENON_DT_FLOAT})
      .Attr("align_corners", false)
      .Attr("half_pixel_centers", false)
      .Attr("antialias", true);
  kernel.Attr("kernel_type", std::string("triangle"))
      .Attr("method", std::string("bilinear"))
      .Attr("extrapolation_value", -1.0f);
  return kernel;
}

struct Call {
  const char* op;
  std::vector<Tensor> inputs;
  std::vector<int64_t> output;
};
std::vector<Call> Calls() {
  const Tensor x = Noise({3, 37, 41, 3});
  return {
      {"ResizeBicubic", {x, Vector<int32_t>({29, 53})}, {3, 29, 53, 3}},
      {"ResizeBicubicGrad", {Noise({3, 29, 53, 3}), x}, {3, 37, 41, 3}},
      {"ResizeArea", {x, Vector<int32_t>({9, 53})}, {3, 9, 53, 3}},
      {"ScaleAndTranslate",
       {x, Vector<int32_t>({20, 30}), Vector<float>({0.6f, 1.2f}), Vector<float>({1.5f, -3})},
       {3, 20, 30, 3}},
      {"ScaleAndTranslateGrad",
       {Noise({3, 20, 30, 3}), x, Vector<float>({0.6f, 1.2f}), Vector<float>({1.5f, -3})},
       {3, 37, 41, 3}},
      {"CropAndResize", {x, Noise({5, 4}), Vector<int32_t>({0, 1, 2, 1, 0}), Vector<int32_t>({7, 11})}, {5, 7, 11, 3}},
      {"CropAndResizeGradImage",
       {Noise({5, 7, 11, 3}), Noise({5, 4}), Vector<int32_t>({0, 1, 2, 1, 0}), Vector<int32_t>({3, 37, 41, 3})},
       {3, 37, 41, 3}},
      {"CropAndResizeGradBoxes", {Noise({5, 7, 11, 3}), x, Noise({5, 4}), Vector<int32_t>({0, 1, 2, 1, 0})}, {5, 4}},
      {"RGBToHSV", {x}, {3, 37, 41, 3}},
      {"HSVToRGB", {x}, {3, 37, 41, 3}},
      {"AdjustHue", {x, Scalar<float>(0.3f)}, {3, 37, 41, 3}},
      {"AdjustSaturation", {x, Scalar<float>(0.3f)}, {3, 37, 41, 3}},
      {"DrawBoundingBoxes", {x, Noise({3, 12, 4})}, {3, 37, 41, 3}},
  };
}

TEST(Image, ThreadsChangeNoBit) {
  for (const Call& call : Calls()) {
    const Result one = Of(call.op).Run(call.inputs, {Out<float>(call.output)});
    ASSERT_EQ(one.text(), "") << call.op;
    for (const uint32_t threads : {2u, 5u}) {
      Kernel kernel = Of(call.op);
      kernel.Threads(threads);
      const Result many = kernel.Run(call.inputs, {Out<float>(call.output)});
      ASSERT_EQ(many.text(), "") << call.op;
      EXPECT_TRUE(many[0].bytes == one[0].bytes) << call.op << ", " << threads << " threads";
    }
  }
}

TEST(Image, OfTheSameSizeItIsTheSameImage) {
  const Tensor x = Noise({2, 13, 17, 3});
  const std::vector<float> want = Values<float>(x);
  const auto expect_same = [&](const char* op, const Result& result) {
    ASSERT_EQ(result.text(), "") << op;
    const std::vector<float> got = Values<float>(result[0]);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << op << " at " << i;
  };
  const Tensor size = Vector<int32_t>({13, 17});
  expect_same("ResizeBicubic", Of("ResizeBicubic").Run({x, size}, {Out<float>({2, 13, 17, 3})}));
  expect_same("ResizeArea", Of("ResizeArea").Run({x, size}, {Out<float>({2, 13, 17, 3})}));
  expect_same("ScaleAndTranslate",
              Of("ScaleAndTranslate")
                  .Run({x, size, Vector<float>({1, 1}), Vector<float>({0, 0})}, {Out<float>({2, 13, 17, 3})}));
  expect_same("CropAndResize",
              Of("CropAndResize")
                  .Run({x, Make<float>({2, 4}, {0, 0, 1, 1, 0, 0, 1, 1}), Vector<int32_t>({0, 1}), size},
                       {Out<float>({2, 13, 17, 3})}));
  Kernel there("RGBToHSV"), back("HSVToRGB");
  const Result hsv = there.Run({x}, {Out<float>({2, 13, 17, 3})});
  expect_same("HSVToRGB", back.Run({hsv[0]}, {Out<float>({2, 13, 17, 3})}));
  expect_same("AdjustHue", Of("AdjustHue").Run({x, Scalar<float>(1)}, {Out<float>({2, 13, 17, 3})}));
  expect_same("AdjustSaturation", Of("AdjustSaturation").Run({x, Scalar<float>(1)}, {Out<float>({2, 13, 17, 3})}));
}

TEST(Image, AnAreaIsTheMeanOfWhatItCovers) {
  const Result result = Of("ResizeArea")
                            .Run({Make<float>({1, 2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8}), Vector<int32_t>({1, 2})},
                                 {Out<float>({1, 1, 2, 1})});
  EXPECT_EQ(Values<float>(result[0]), (std::vector<float>{3.5f, 5.5f}));
}

TEST(Image, AGradientIsTheTransposeOfItsOp) {
  // <f(x), dy> == <x, f'(dy)> for what is linear.
  const Tensor x = Noise({1, 9, 11, 2}), dy = Noise({1, 7, 13, 2}, 5), size = Vector<int32_t>({7, 13}),
               scale = Vector<float>({0.8f, 1.1f}), move = Vector<float>({0.3f, -1});
  const auto dot = [](const Tensor& a, const Tensor& b) {
    double sum = 0;
    const std::vector<float> u = Values<float>(a), v = Values<float>(b);
    for (size_t i = 0; i < u.size(); ++i) sum += static_cast<double>(u[i]) * static_cast<double>(v[i]);
    return sum;
  };
  const Result cubic = Of("ResizeBicubic").Run({x, size}, {Out<float>({1, 7, 13, 2})}),
      cubic_back = Of("ResizeBicubicGrad").Run({dy, x}, {Out<float>({1, 9, 11, 2})});
  EXPECT_NEAR(dot(cubic[0], dy), dot(x, cubic_back[0]), 1e-3);
  const Result moved = Of("ScaleAndTranslate").Run({x, size, scale, move}, {Out<float>({1, 7, 13, 2})});
  const Result moved_back = Of("ScaleAndTranslateGrad").Run({dy, x, scale, move}, {Out<float>({1, 9, 11, 2})});
  EXPECT_NEAR(dot(moved[0], dy), dot(x, moved_back[0]), 1e-3);
}

}  // namespace
}  // namespace tenon::cpu::image_test
