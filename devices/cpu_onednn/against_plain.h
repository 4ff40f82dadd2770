// SPDX-License-Identifier: Apache-2.0
// For tests: what oneDNN's kernels are compared on with the plain ones of devices/cpu, in each type.
#ifndef TENON_DEVICES_CPU_ONEDNN_AGAINST_PLAIN_H_
#define TENON_DEVICES_CPU_ONEDNN_AGAINST_PLAIN_H_

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "package.h"
#include "testing/kernel.h"

namespace tenon::cpu_onednn {

// Both packages' answers, of type T, agree for every number of threads. configure sets the attributes; constant: the
// input that is one; -1: none. Sums in another order part in their last bits of float32, which may round either way: by
// a unit in bfloat16's last place.
template <class T, class Configure>
void CompareWithPlain(const char* op, uint32_t type, const std::vector<testing::Tensor>& inputs,
                      const std::vector<int64_t>& out, const Configure& configure, int constant) {
  constexpr float kRounding = std::is_same_v<T, float> ? 0 : 0x1p-7f;
  cpu::Kernel plain(op, type);
  configure(plain);
  const testing::Result want = plain.Run(inputs, {testing::Out<T>(out)});
  ASSERT_EQ(want.code, TENON_OK) << op << ": " << want.message;
  for (uint32_t threads : {1u, 2u, 5u}) {
    cpu::Kernel kernel(op, type);
    configure(kernel);
    kernel.From(kKernelPackage).Threads(threads);
    if (constant >= 0) kernel.Constant(constant);
    const testing::Result got = kernel.Run(inputs, {testing::Out<T>(out)});
    ASSERT_EQ(got.code, TENON_OK) << op << ": " << got.message;
    const auto a = testing::Values<T>(want[0]), b = testing::Values<T>(got[0]);
    for (size_t i = 0; i < a.size(); ++i) {
      const float wanted = static_cast<float>(a[i]);
      ASSERT_NEAR(wanted, static_cast<float>(b[i]), kRounding * std::fabs(wanted) + 1e-4f * (1 + std::fabs(wanted)))
          << op << " at " << i << ", " << threads << " threads";
    }
  }
}

// A convolution of square images by square windows.
struct ConvCase {
  int64_t batch, size, in, out, kernel, stride, dilation, groups;
  bool same, channels_first;

  int64_t to() const { return same ? (size + stride - 1) / stride : (size - (kernel - 1) * dilation - 1) / stride + 1; }
  std::vector<int64_t> image(int64_t side, int64_t channels) const {
    return channels_first ? std::vector{batch, channels, side, side} : std::vector{batch, side, side, channels};
  }
  std::vector<int64_t> filter() const { return {kernel, kernel, in / groups, out}; }
  void operator()(cpu::Kernel& k) const {
    const auto sides = [&](int64_t v) {
      return channels_first ? std::vector<int64_t>{1, 1, v, v} : std::vector<int64_t>{1, v, v, 1};
    };
    k.Attr("strides", sides(stride))
        .Attr("dilations", sides(dilation))
        .Attr("padding", std::string(same ? "SAME" : "VALID"));
    k.Attr("data_format", std::string(channels_first ? "NCHW" : "NHWC"));
  }
};
inline constexpr ConvCase kConvCases[] = {
    {2, 8, 3, 16, 3, 1, 1, 1, true, false},   {1, 9, 16, 32, 3, 2, 1, 1, true, false},
    {3, 8, 16, 8, 3, 1, 1, 1, true, true},    {2, 9, 8, 8, 3, 1, 2, 1, false, false},
    {2, 8, 8, 16, 3, 1, 1, 2, true, false},   {1, 7, 4, 4, 1, 1, 1, 1, false, false},
    {5, 6, 8, 8, 5, 1, 1, 1, true, false},    {2, 10, 8, 16, 1, 2, 1, 1, true, false},
    {3, 10, 8, 8, 3, 2, 1, 1, false, false},  {2, 12, 1, 8, 5, 1, 1, 1, true, false},
    {3, 9, 24, 40, 1, 3, 1, 1, false, false}, {2, 25, 24, 16, 1, 1, 1, 1, true, false},
    {1, 48, 16, 32, 1, 1, 1, 1, true, false}, {4, 11, 40, 24, 1, 2, 1, 1, true, false}};

// Calls check(configure, image, result) for windows of three by two, with and without padding, in both layouts.
template <class Check>
void ForPools(const Check& check) {
  using I = std::vector<int64_t>;
  for (bool first : {false, true}) {
    for (const char* padding : {"SAME", "VALID"}) {
      const auto configure = [&](cpu::Kernel& k) {
        k.Attr("ksize", first ? I{1, 1, 3, 3} : I{1, 3, 3, 1}).Attr("strides", first ? I{1, 1, 2, 2} : I{1, 2, 2, 1});
        k.Attr("padding", std::string(padding)).Attr("data_format", std::string(first ? "NCHW" : "NHWC"));
      };
      const int64_t to = padding[0] == 'S' ? 4 : 3;
      check(configure, first ? I{3, 5, 7, 7} : I{3, 7, 7, 5}, first ? I{3, 5, to, to} : I{3, to, to, 5});
    }
  }
}

}  // namespace tenon::cpu_onednn

#endif  // TENON_DEVICES_CPU_ONEDNN_AGAINST_PLAIN_H_
