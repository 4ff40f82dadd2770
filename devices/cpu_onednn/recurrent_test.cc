// SPDX-License-Identifier: Apache-2.0
// oneDNN's recurrent layers against the plain ones of devices/cpu, by sizes, lengths and shares. Covers N4.
#include <gtest/gtest.h>

#include "against_plain.h"
#include "program.h"
#include "tenon/testing/samples.h"
#include "testing/kernel.h"

namespace tenon::cpu_onednn::recurrent_test {
namespace {

using cpu::Kernel;
using testing::Out;
using testing::Result;
using testing::Tensor;
using I = std::vector<int64_t>;

struct Layer {
  const char* op;
  int64_t gates;
  int states;  // h, and c
  bool has_recurrent_bias;
  bool reset_after;
};
constexpr Layer kLayers[] = {{"Tenon>LSTMLayer", 4, 2, false, false},
                             {"Tenon>GRULayer", 3, 1, true, true},
                             {"Tenon>GRULayer", 3, 1, true, false}};

struct Sizes {
  int64_t time, batch, inputs, cells, length;
};

class OnednnRecurrent : public ::testing::Test {
 protected:
  OnednnRecurrent() { use_always = true; }
  ~OnednnRecurrent() override { use_always = false; }
};

struct Case {
  Case(const Layer& layer, const Sizes& s) : layer(layer), sizes(s) {
    const int64_t width = layer.gates * s.cells;
    inputs = {Numbers({s.time, s.batch, s.inputs})};
    for (int i = 0; i < layer.states; ++i) inputs.push_back(Numbers({s.batch, s.cells}));
    for (const I& dims : {I{s.inputs, width}, I{s.cells, width}, I{width}}) inputs.push_back(Numbers(dims));
    if (layer.has_recurrent_bias) inputs.push_back(Numbers({width}));
  }
  Tensor Numbers(const I& dims) { return testing::RandomFloatsOf(dims, ++seed); }
  template <class Configure>
  Result Run(const Configure& configure) const {
    Kernel kernel(layer.op, TENON_DT_FLOAT);
    kernel.Attr("length", sizes.length);
    if (layer.has_recurrent_bias) kernel.Attr("reset_after", layer.reset_after);
    configure(kernel);
    std::vector<Tensor> outputs = {
        Out<float>({sizes.length < 0 ? sizes.time : sizes.length, sizes.batch, sizes.cells})};
    for (int i = 0; i < layer.states; ++i) outputs.push_back(Out<float>({sizes.batch, sizes.cells}));
    return kernel.Run(inputs, outputs);
  }
  Layer layer;
  Sizes sizes;
  uint32_t seed = 0;
  std::vector<Tensor> inputs;
};

TEST_F(OnednnRecurrent, LayersAreThePlainOnes) {
  for (const Layer& layer : kLayers) {
    for (const Sizes& sizes : {Sizes{1, 1, 1, 1, -1},
                               {5, 1, 7, 33, -1},
                               {4, 6, 3, 16, 2},
                               {3, 5, 20, 7, -1},
                               {12, 8, 64, 48, -1},
                               {7, 33, 130, 65, 6},
                               {2, 3, 256, 256, -1}}) {
      const Case each(layer, sizes);
      const Result want = each.Run([](Kernel&) {});
      ASSERT_EQ(want.code, TENON_OK) << want.message;
      for (const uint32_t threads : {1u, 2u, 5u}) {
        for (const bool constant : {false, true}) {
          const Result got = each.Run([&](Kernel& k) {
            k.From(kKernelPackage).Threads(threads);
            if (constant) k.Constant(1 + layer.states).Constant(2 + layer.states);
          });
          ASSERT_EQ(got.code, TENON_OK) << layer.op << ": " << got.message;
          for (size_t i = 0; i < want.outputs.size(); ++i) {
            const auto a = testing::Values<float>(want[i]), b = testing::Values<float>(got[i]);
            ASSERT_EQ(a.size(), b.size());
            for (size_t at = 0; at < a.size(); ++at)
              ASSERT_NEAR(a[at], b[at], 2e-5f)
                  << layer.op << " of " << sizes.batch << " x " << sizes.inputs << " to " << sizes.cells << ", output "
                  << i << " at " << at << ", " << threads << " threads";
          }
        }
      }
    }
  }
}

// What the plain kernel says, or does at once.
TEST_F(OnednnRecurrent, WhatIsLeftToThePlainLayers) {
  for (const Layer& layer : kLayers) {
    const auto code = [&](const Sizes& sizes) {
      return Case(layer, sizes).Run([](Kernel& k) { k.From(kKernelPackage); }).code;
    };
    EXPECT_EQ(code({4, 2, 3, 5, 0}), TENON_UNIMPLEMENTED) << "no step";
    EXPECT_EQ(code({0, 2, 3, 5, -1}), TENON_UNIMPLEMENTED) << "no time";
    EXPECT_EQ(code({4, 0, 3, 5, -1}), TENON_UNIMPLEMENTED) << "no sequence";
    EXPECT_EQ(code({4, 2, 0, 5, -1}), TENON_UNIMPLEMENTED) << "nothing comes in";
    EXPECT_EQ(code({4, 2, 3, 0, -1}), TENON_UNIMPLEMENTED) << "no cell";
    Case wrong(layer, {4, 2, 3, 5, -1});
    wrong.inputs[static_cast<size_t>(1 + layer.states)] = wrong.Numbers({4, 5});
    for (const bool plain : {false, true}) {
      const Result got = wrong.Run([&](Kernel& k) { if (!plain) k.From(kKernelPackage); });
      EXPECT_EQ(got.code, TENON_INVALID_ARGUMENT) << got.message;
    }
  }
}

TEST_F(OnednnRecurrent, SmallLayersAreLeftToThePlainOnes) {
  use_always = false;
  for (const Layer& layer : kLayers) {
    EXPECT_EQ(Case(layer, {2, 1, 8, 8, -1}).Run([](Kernel& k) { k.From(kKernelPackage); }).code, TENON_UNIMPLEMENTED);
    EXPECT_EQ(Case(layer, {8, 8, 64, 64, -1}).Run([](Kernel& k) { k.From(kKernelPackage); }).code, TENON_OK);
  }
}

}  // namespace
}  // namespace tenon::cpu_onednn::recurrent_test
