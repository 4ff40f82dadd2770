// SPDX-License-Identifier: Apache-2.0
// One case of Tenon>Int8Conv2D or Tenon>Int8MatMul, and what it must give, in plain integers. Scales are powers of two,
// and weights reach 127 of their steps, so that every number on the way is exact, and the results are equal to the last
// bit.
#ifndef TENON_DEVICES_CPU_TESTING_INT8_CASE_H_
#define TENON_DEVICES_CPU_TESTING_INT8_CASE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "testing/kernel.h"

namespace tenon::cpu {

struct Int8Case {
  int64_t batch = 1, height = 1, width = 1, in = 1, out = 1;
  int64_t kernel_height = 1, kernel_width = 1, stride = 1, dilation = 1;
  std::string padding = "SAME";
  int64_t groups = 1;
  bool depthwise = false, matrices = false, transpose_b = false;
  int64_t input_zero = 0, output_zero = 0, addend_zero = 0;
  bool bias = false, norm = false, addend = false, bytes = true;
  std::string activation = "";
  float output_scale = 0x1p2f;  // large, or small: most results then lie outside of the bytes

  std::string Text() const {
    return std::to_string(batch) + "x" + std::to_string(height) + "x" + std::to_string(width) + "x" +
           std::to_string(in) + " by " + std::to_string(kernel_height) + "x" + std::to_string(kernel_width) + " to " +
           std::to_string(out) + " stride " + std::to_string(stride) + " dilation " + std::to_string(dilation) + " " +
           padding + " groups " + std::to_string(groups) + (depthwise ? " depthwise" : "") +
           (matrices ? transpose_b ? " matrices, transposed" : " matrices" : "") + " zeros " +
           std::to_string(input_zero) + " " + std::to_string(output_zero) + " " + std::to_string(addend_zero) +
           (bias ? " bias" : "") + (norm ? " norm" : "") + (addend ? " addend" : "") + " " + activation +
           (bytes ? " bytes" : " floats");
  }
};

class Int8Numbers {
 public:
  explicit Int8Numbers(const Int8Case& which, uint32_t seed = 1) : c_(which), random_(seed) {
    const int64_t in_group = c_.in / c_.groups;
    taps_ = c_.kernel_height * c_.kernel_width * in_group;
    const int64_t reach_y = (c_.kernel_height - 1) * c_.dilation + 1, reach_x = (c_.kernel_width - 1) * c_.dilation + 1;
    const bool same = c_.padding == "SAME";
    out_height_ = same ? (c_.height + c_.stride - 1) / c_.stride : (c_.height - reach_y) / c_.stride + 1;
    out_width_ = same ? (c_.width + c_.stride - 1) / c_.stride : (c_.width - reach_x) / c_.stride + 1;
    top_ = same ? std::max<int64_t>(0, (out_height_ - 1) * c_.stride + reach_y - c_.height) / 2 : 0;
    left_ = same ? std::max<int64_t>(0, (out_width_ - 1) * c_.stride + reach_x - c_.width) / 2 : 0;
    image = Integers<uint8_t>(c_.batch * c_.height * c_.width * c_.in, 0, 255);
    weights = Integers<int32_t>(taps_ * c_.out, -127, 127);
    for (int64_t o = 0; o < c_.out; ++o) {
      weights[static_cast<size_t>(o)] = o % 2 == 0 ? 127 : -127;  // of each channel one reaches the end
      steps.push_back(std::ldexp(1.0f, -7 + static_cast<int>(o % 3)));
    }
    const auto small = [&](int64_t) { return static_cast<float>(Integers<int32_t>(1, -64, 64)[0]); };
    for (int64_t o = 0; o < c_.out; ++o) {
      bias.push_back(small(o));
      norm[0].push_back(
          std::ldexp(o % 4 == 1 ? -1.0f : 1.0f, static_cast<int>(o % 2)));  // the factor is a power of two
      norm[1].push_back(small(o));
      norm[2].push_back(small(o));
      norm[3].push_back(3.75f);
    }
    addend = Integers<uint8_t>(count(), 0, 255);
  }

  std::vector<int64_t> out_dims() const {
    return c_.matrices ? std::vector<int64_t>{c_.batch, c_.out}
                       : std::vector<int64_t>{c_.batch, out_height_, out_width_, c_.out};
  }
  int64_t count() const { return c_.batch * out_height_ * out_width_ * c_.out; }

  void Configure(Kernel& kernel) const {
    kernel.Attr("input_scale", kInputScale)
        .Attr("input_zero", c_.input_zero)
        .Attr("addend_scale", kAddendScale)
        .Attr("addend_zero", c_.addend_zero);
    kernel.Attr("output_scale", c_.output_scale)
        .Attr("output_zero", c_.output_zero)
        .Attr("activation", c_.activation)
        .Attr("A", int64_t{c_.addend ? 1 : 0});
    std::vector<std::string> names;
    if (c_.bias) names.emplace_back("bias");
    if (c_.norm) names.emplace_back("norm");
    kernel.Attr("steps", names)
        .Attr("epsilons", c_.norm ? std::vector<float>{kEpsilon} : std::vector<float>{})
        .Attr("M", int64_t{(c_.bias ? 1 : 0) + (c_.norm ? 4 : 0)});
    if (c_.matrices) {
      kernel.Attr("transpose_b", c_.transpose_b);
      return;
    }
    kernel.Attr("strides", std::vector<int64_t>{1, c_.stride, c_.stride, 1})
        .Attr("dilations", std::vector<int64_t>{1, c_.dilation, c_.dilation, 1});
    kernel.Attr("padding", c_.padding)
        .Attr("explicit_paddings", std::vector<int64_t>{})
        .Attr("depthwise", c_.depthwise);
  }
  const char* op() const { return c_.matrices ? "Tenon>Int8MatMul" : "Tenon>Int8Conv2D"; }
  std::vector<Tensor> Inputs() const {
    std::vector<float> filter(weights.size());
    const int64_t out = c_.out;
    for (int64_t row = 0; row < taps_; ++row)
      for (int64_t o = 0; o < out; ++o)
        filter[static_cast<size_t>(c_.transpose_b ? o * taps_ + row : row * out + o)] =
            static_cast<float>(weights[static_cast<size_t>(row * out + o)]) * steps[static_cast<size_t>(o)];
    const std::vector<int64_t> filter_dims =
        c_.matrices    ? c_.transpose_b ? std::vector<int64_t>{out, c_.in} : std::vector<int64_t>{c_.in, out}
           : c_.depthwise ? std::vector<int64_t>{c_.kernel_height, c_.kernel_width, c_.in, out / c_.in}
                       : std::vector<int64_t>{c_.kernel_height, c_.kernel_width, c_.in / c_.groups, out};
    const std::vector<int64_t> image_dims = c_.matrices ? std::vector<int64_t>{c_.batch, c_.in}
                                                        : std::vector<int64_t>{c_.batch, c_.height, c_.width, c_.in};
    std::vector<Tensor> inputs = {Make<uint8_t>(image_dims, image), Make<float>(filter_dims, filter)};
    if (c_.bias) inputs.push_back(Vector<float>(bias));
    for (const auto& each : norm)
      if (c_.norm) inputs.push_back(Vector<float>(each));
    if (c_.addend) inputs.push_back(Make<uint8_t>(out_dims(), addend));
    return inputs;
  }
  Tensor Output() const { return Tensor(c_.bytes ? TENON_DT_UINT8 : TENON_DT_FLOAT, out_dims()); }

  // What must come out: 64-bit sums, then real numbers in double.
  std::vector<double> Wanted() const {
    std::vector<double> wanted;
    const int64_t in_group = c_.in / c_.groups, out_group = c_.out / c_.groups;
    for (int64_t n = 0; n < c_.batch; ++n)
      for (int64_t y = 0; y < out_height_; ++y)
        for (int64_t x = 0; x < out_width_; ++x)
          for (int64_t o = 0; o < c_.out; ++o) {
            int64_t sum = 0;
            for (int64_t ky = 0; ky < c_.kernel_height; ++ky)
              for (int64_t kx = 0; kx < c_.kernel_width; ++kx) {
                const int64_t row = y * c_.stride + ky * c_.dilation - top_,
                              column = x * c_.stride + kx * c_.dilation - left_;
                if (row < 0 || row >= c_.height || column < 0 || column >= c_.width) continue;
                for (int64_t i = 0; i < in_group; ++i)
                  sum += (image[static_cast<size_t>(((n * c_.height + row) * c_.width + column) * c_.in +
                                                    o / out_group * in_group + i)] -
                          c_.input_zero) *
                         weights[static_cast<size_t>(((ky * c_.kernel_width + kx) * in_group + i) * c_.out + o)];
              }
            wanted.push_back(Finished(static_cast<double>(sum), static_cast<size_t>(o), wanted.size()));
          }
    return wanted;
  }

  static constexpr float kInputScale = 0x1p-5f, kAddendScale = 0x1p-3f, kEpsilon = 0.25f;
  std::vector<uint8_t> image, addend;
  std::vector<int32_t> weights;
  std::vector<float> steps, bias, norm[4];

 private:
  double Finished(double sum, size_t o, size_t at) const {
    double value = sum * static_cast<double>(kInputScale) * static_cast<double>(steps[o]);
    if (c_.bias) value += static_cast<double>(bias[o]);
    if (c_.norm)
      value = (value - static_cast<double>(norm[2][o])) * static_cast<double>(norm[0][o]) / 2 +
              static_cast<double>(norm[1][o]);  // the root of 3.75 + 0.25 is 2
    if (c_.addend) value += static_cast<double>(addend[at] - c_.addend_zero) * static_cast<double>(kAddendScale);
    if (!c_.activation.empty()) value = std::max(value, 0.0);
    if (c_.activation == "Relu6") value = std::min(value, 6.0);
    return c_.bytes
               ? std::clamp(
                     std::nearbyint(value / static_cast<double>(c_.output_scale) + static_cast<double>(c_.output_zero)),
                     0.0, 255.0)
               : value;
  }
  template <class T>
  std::vector<T> Integers(int64_t count, int least, int most) {
    std::uniform_int_distribution<int> between(least, most);
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) value = static_cast<T>(between(random_));
    return values;
  }

  const Int8Case c_;
  std::mt19937 random_;
  int64_t taps_, out_height_, out_width_, top_, left_;
};

// The kernel of a package gives what it must, on so many threads, with weights that prepare() knows or not.
// UNIMPLEMENTED is no failure where the package may refuse.
inline void ExpectIntegers(const tenon_kernel_package& package, const Int8Case& which, bool may_refuse = false) {
  const Int8Numbers numbers(which);
  const std::vector<double> wanted = numbers.Wanted();
  for (const uint32_t threads : {1u, 3u}) {
    for (const bool constant : {true, false}) {
      Kernel kernel(numbers.op());
      numbers.Configure(kernel);
      kernel.From(package).Threads(threads);
      const std::vector<Tensor> inputs = numbers.Inputs();
      for (int i = 1; constant && i < static_cast<int>(inputs.size()) - (which.addend ? 1 : 0); ++i) kernel.Constant(i);
      const Result result = kernel.Run(inputs, {numbers.Output()});
      if (may_refuse && result.code == TENON_UNIMPLEMENTED) return;
      ASSERT_EQ(result.code, TENON_OK) << result.message << " " << which.Text();
      ASSERT_EQ(static_cast<size_t>(result[0].count()), wanted.size());
      std::vector<double> got;
      if (which.bytes) for (const uint8_t value : Values<uint8_t>(result[0])) got.push_back(value);
      else for (const float value : Values<float>(result[0])) got.push_back(static_cast<double>(value));
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(got[i], wanted[i]) << "element " << i << " of " << which.Text() << ", " << threads << " threads"
                                     << (constant ? ", constant" : "");
      }
    }
  }
}

// Cases of all that can be set: the first few by hand, many by chance.
inline std::vector<Int8Case> Int8Cases() {
  std::vector<Int8Case> cases;
  cases.push_back({.batch = 2,
                   .height = 8,
                   .width = 8,
                   .in = 16,
                   .out = 32,
                   .kernel_height = 3,
                   .kernel_width = 3,
                   .bias = true,
                   .activation = "Relu"});
  cases.push_back({.batch = 1,
                   .height = 9,
                   .width = 7,
                   .in = 5,
                   .out = 3,
                   .kernel_height = 3,
                   .kernel_width = 2,
                   .stride = 2,
                   .padding = "VALID",
                   .input_zero = 113,
                   .output_zero = 7});
  cases.push_back({.batch = 1,
                   .height = 7,
                   .width = 7,
                   .in = 64,
                   .out = 17,
                   .input_zero = 255,
                   .output_zero = 128,
                   .addend_zero = 3,
                   .norm = true,
                   .addend = true,
                   .activation = "Relu"});
  cases.push_back({.batch = 3,
                   .height = 6,
                   .width = 5,
                   .in = 8,
                   .out = 8,
                   .kernel_height = 3,
                   .kernel_width = 3,
                   .groups = 8,
                   .depthwise = true,
                   .input_zero = 20,
                   .bias = true,
                   .activation = "Relu6",
                   .output_scale = 0x1p-4f});
  cases.push_back({.batch = 1,
                   .height = 6,
                   .width = 6,
                   .in = 4,
                   .out = 8,
                   .kernel_height = 3,
                   .kernel_width = 3,
                   .groups = 4,
                   .depthwise = true,
                   .bytes = false});
  cases.push_back({.batch = 5, .in = 300, .out = 33, .matrices = true, .input_zero = 9, .bias = true, .bytes = false});
  cases.push_back({.batch = 64,
                   .in = 64,
                   .out = 64,
                   .matrices = true,
                   .transpose_b = true,
                   .output_zero = 100,
                   .activation = "Relu"});
  cases.push_back({.batch = 2,
                   .height = 5,
                   .width = 5,
                   .in = 32,
                   .out = 16,
                   .kernel_height = 3,
                   .kernel_width = 3,
                   .input_zero = 1,
                   .bias = true,
                   .output_scale = 0x1p-9f});  // nearly all saturate
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  while (cases.size() < 60) {
    Int8Case c;
    c.matrices = random() % 4 == 0;
    c.batch = one_of({1, 2, 3});
    c.in = one_of({1, 3, 4, 16, 24, 65});
    c.out = one_of({1, 2, 5, 16, 31, 64});
    c.input_zero = one_of({0, 0, 1, 128, 255});
    c.bytes = random() % 3 != 0;
    c.output_zero = c.bytes ? one_of({0, 5, 200}) : 0;
    c.bias = random() % 2 == 0, c.norm = random() % 3 == 0;
    c.addend = c.bytes && random() % 3 == 0;
    c.addend_zero = c.addend ? one_of({0, 77}) : 0;
    c.activation = random() % 2 == 0 ? "" : random() % 2 == 0 ? "Relu" : "Relu6";
    c.output_scale = random() % 4 == 0 ? 0x1p-6f : 0x1p2f;
    if (c.matrices) {
      c.batch = one_of({1, 7, 40});
      c.transpose_b = random() % 2 == 0;
    } else {
      c.height = one_of({3, 4, 9, 14}), c.width = one_of({3, 5, 8, 13});
      c.kernel_height = one_of({1, 2, 3}), c.kernel_width = one_of({1, 3});
      c.stride = one_of({1, 1, 2, 3});
      c.dilation = c.stride == 1 ? one_of({1, 1, 2}) : 1;
      c.padding = random() % 2 == 0 || c.dilation > 1 ? "SAME" : "VALID";
      if (random() % 4 == 0) c.depthwise = true, c.groups = c.in, c.out = c.in * one_of({1, 1, 2});
    }
    cases.push_back(c);
  }
  return cases;
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_TESTING_INT8_CASE_H_
