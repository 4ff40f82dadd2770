// SPDX-License-Identifier: Apache-2.0
// Sizes of Tenon>LSTMLayer and Tenon>GRULayer (ops/nn/recurrent_layer.cc), for whoever has kernels of them.
#ifndef TENON_SDK_KERNEL_RECURRENT_H_
#define TENON_SDK_KERNEL_RECURRENT_H_

#include <algorithm>
#include <initializer_list>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// Where inputs stand: x, then the states, then the weights.
struct RecurrentInputs {
  int32_t states;  // h; of an LSTM c too
  int32_t gates;
  constexpr int32_t kernel() const { return 1 + states; }
  constexpr int32_t recurrent() const { return 2 + states; }
  constexpr int32_t bias() const { return 3 + states; }
};
inline constexpr RecurrentInputs kLstmInputs{2, 4}, kGruInputs{1, 3};

struct RecurrentSizes {
  int64_t time = 0, batch = 0, inputs = 0, cells = 0;

  RecurrentSizes() = default;
  // In prepare(). length: the attribute. Fails with INVALID_ARGUMENT where shapes do not go together, or a product of
  // sizes does not fit.
  RecurrentSizes(const PrepareContext& c, const RecurrentInputs& at, int64_t length) {
    const Dims x = DimsOf(c.input(0)), h = DimsOf(c.input(1));
    if (x.size() != 3 || h.size() != 2)
      Fail(TENON_INVALID_ARGUMENT, "x has the shape ", x, " and h ", h, "; they should be of 3 and 2 dims");
    batch = x[1], inputs = x[2], cells = h[1];
    time = length >= 0 ? length : x[0];
    if (time > x[0]) Fail(TENON_INVALID_ARGUMENT, "length is ", time, "; x has ", x[0], " steps");
    const int64_t width = Multiply(at.gates, cells);
    for (int32_t state = 1; state <= at.states; ++state) Expect(c, state, {batch, cells}, state == 1 ? "h" : "c");
    Expect(c, at.kernel(), {inputs, width}, "kernel");
    Expect(c, at.recurrent(), {cells, width}, "recurrent_kernel");
    Expect(c, at.bias(), {width}, "bias");
  }
  int64_t rows() const { return Multiply(time, batch); }
  int64_t state() const { return Multiply(batch, cells); }
  // Multiply-adds of all steps.
  double work(const RecurrentInputs& at) const {
    return at.gates * static_cast<double>(time) * static_cast<double>(batch) * static_cast<double>(cells) *
           static_cast<double>(inputs + cells);
  }

  static void Expect(const PrepareContext& c, int32_t input, std::initializer_list<int64_t> wanted, const char* name) {
    const Dims dims = DimsOf(c.input(input));
    if (!std::equal(dims.begin(), dims.end(), wanted.begin(), wanted.end()))
      Fail(TENON_INVALID_ARGUMENT, name, " has the shape ", dims, "; it should be ",
           Dims(wanted.begin(), wanted.size()));
  }
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_RECURRENT_H_
