// SPDX-License-Identifier: Apache-2.0
// What kernels of Tenon>Int8Conv2D and Tenon>Int8MatMul (ops/quantized/int8.cc) have in common: how weights become
// 8-bit integers, and what is done to each sum of products.
//
// Activations are bytes: x stands for (x - zero) scale. Weights are integers from -127 to 127 with a scale for each
// output channel, so that 0 is 0. A sum of products is exact, in 32 bits; in floats it is then times `factor` and plus
// `shift`, which hold the scales, biases and normalisations, and to it come the addend and the activation. What goes
// out as bytes is counted in steps of the output's scale, so that nothing is left but to round it to the even integer.
#ifndef TENON_SDK_KERNEL_INT8_H_
#define TENON_SDK_KERNEL_INT8_H_

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// The attributes of a node.
struct Int8Product {
  enum class Activation { kNone, kRelu, kRelu6 };

  explicit Int8Product(CreateContext& c)
      : input_scale(c.Float("input_scale")),
        addend_scale(c.Float("addend_scale")),
        output_scale(c.Float("output_scale")),
        input_zero(ZeroOf(c, "input_zero")),
        addend_zero(ZeroOf(c, "addend_zero")),
        output_zero(ZeroOf(c, "output_zero")),
        bytes(c.output_type(0) == TENON_DT_UINT8) {
    for (const auto& [name, scale] :
         {std::pair{"input_scale", input_scale}, {"addend_scale", addend_scale}, {"output_scale", output_scale}})
      if (!(scale > 0 && scale <= FLT_MAX)) c.Invalid(name, " is ", scale, "; it must be positive and finite");
    const std::string_view name = c.String("activation");
    activation = name == "Relu" ? Activation::kRelu : name == "Relu6" ? Activation::kRelu6 : Activation::kNone;
    const std::vector<float> epsilons = Floats(c, "epsilons");
    size_t norms = 0;
    for (const std::string_view step : c.Strings("steps")) {
      const bool is_norm = step == "norm";
      if (!is_norm && step != "bias") c.Invalid("steps are 'bias' and 'norm'; one is '", step, "'");
      if (is_norm && norms >= epsilons.size())
        c.Invalid("epsilons has ", epsilons.size(), " numbers; each 'norm' among steps needs one");
      steps.push_back({is_norm, is_norm && c.ok() ? epsilons[norms++] : 0});
      vectors += is_norm ? 4 : 1;
    }
    const int64_t given = c.Int("M"), addends = c.Int("A");
    if (given != vectors) c.Invalid("the steps take ", vectors, " vectors; there are ", given);
    if (addends > 1) c.Invalid("there are ", addends, " addends; at most one is possible");
    if (addends == 1 && !bytes) c.Fail(TENON_UNIMPLEMENTED, "an addend is for results that are bytes");
    if (addends == 1) addend = first_vector + vectors;
  }

  // 1, or a step of the output.
  float unit() const { return bytes ? output_scale : 1.0F; }
  float addend_factor() const { return addend_scale / unit(); }
  // The largest of what the activation lets through.
  float most() const { return activation == Activation::kRelu6 ? 6.0F / unit() : HUGE_VALF; }

  // What a sum of each channel is multiplied by, and what is added. value(i): the elements of vector i.
  // INVALID_ARGUMENT names a channel of which one is no number.
  template <class Value>
  void Fold(int64_t channels, const float* filter_scale, Value&& value, float* factor, float* shift) const {
    std::fill_n(factor, channels, 1.0F);
    std::fill_n(shift, channels, 0.0F);
    int32_t at = 0;
    for (const Step& step : steps) {
      const float* first = value(at);
      if (!step.is_norm) {
        for (int64_t i = 0; i < channels; ++i) shift[i] += first[i];
        at += 1;
        continue;
      }
      const float *offset = value(at + 1), *mean = value(at + 2), *variance = value(at + 3);
      for (int64_t i = 0; i < channels; ++i) {
        const float scale = first[i] / std::sqrt(variance[i] + step.epsilon);
        factor[i] *= scale;
        shift[i] = (shift[i] - mean[i]) * scale + offset[i];
      }
      at += 4;
    }
    for (int64_t i = 0; i < channels; ++i) {
      factor[i] = factor[i] * filter_scale[i] * input_scale / unit();
      shift[i] /= unit();
      if (!(std::fabs(factor[i]) <= FLT_MAX && std::fabs(shift[i]) <= FLT_MAX))
        Fail(TENON_INVALID_ARGUMENT, "bias or normalisation of channel ", i,
             " is NaN or infinite, which 8-bit integers cannot be scaled by");
    }
  }

  struct Step {
    bool is_norm;  // four vectors: scale, offset, mean, variance; else one that is added
    float epsilon;
  };
  std::vector<Step> steps;
  float input_scale, addend_scale, output_scale;
  int32_t input_zero, addend_zero, output_zero;
  bool bytes;  // what goes out; else floats
  Activation activation = Activation::kNone;
  int32_t vectors = 0;
  static constexpr int32_t first_vector = 2;  // the input's number
  int32_t addend = -1;  // the input's number; -1: none

 private:
  static int32_t ZeroOf(CreateContext& c, std::string_view attr) {
    const int64_t zero = c.Int(attr);
    if (zero < 0 || zero > 255) c.Invalid(attr, " is ", zero, "; a byte is at most 255");
    return static_cast<int32_t>(zero);
  }
  static std::vector<float> Floats(CreateContext& c, std::string_view attr) {
    const tenon_attr_value value = c.Raw(attr);
    const auto* data = static_cast<const float*>(value.data);
    return c.ok() && value.count > 0 ? std::vector<float>(data, data + value.count) : std::vector<float>();
  }
};

// Weights [rows, columns] of floats: the columns are output channels.
struct WeightMatrix {
  const float* data;
  int64_t rows, columns, row_stride, column_stride;
};

// Columns [begin, end) as integers [rows, columns], in `to`, and the scale of each. INVALID_ARGUMENT names a weight
// that is no number.
inline void QuantizeWeights(const WeightMatrix& w, int64_t begin, int64_t end, int8_t* to, float* scale) {
  constexpr float kMost = 127;
  std::fill(scale + begin, scale + end, 0.0F);
  for (int64_t row = 0; row < w.rows; ++row) {
    const float* from = w.data + row * w.row_stride;
    for (int64_t column = begin; column < end; ++column) {
      const float size = std::fabs(from[column * w.column_stride]);
      scale[column] = scale[column] < size || !(size <= FLT_MAX) ? size : scale[column];  // what is no number stays
    }
  }
  for (int64_t column = begin; column < end; ++column) {
    if (!(scale[column] <= FLT_MAX))
      Fail(TENON_INVALID_ARGUMENT, "a weight of output channel ", column,
           " is NaN or infinite, which 8-bit integers cannot hold");
    scale[column] = scale[column] == 0 ? 1.0F : scale[column] / kMost;
  }
  for (int64_t row = 0; row < w.rows; ++row) {
    const float* from = w.data + row * w.row_stride;
    int8_t* out = to + row * w.columns;
    for (int64_t column = begin; column < end; ++column) {
      const float steps = std::nearbyint(from[column * w.column_stride] / scale[column]);
      out[column] = static_cast<int8_t>(std::clamp(steps, -kMost, kMost));
    }
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_INT8_H_
