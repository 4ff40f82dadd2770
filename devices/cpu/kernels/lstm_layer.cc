// SPDX-License-Identifier: Apache-2.0
// Tenon>LSTMLayer: the kernel's product is one over all steps; then a product and the gates for each.
#include <algorithm>

#include "kernels/math.h"
#include "kernels/product.h"
#include "kernels/types.h"

namespace tenon::cpu {
namespace {

enum : int32_t { kX, kH, kC, kKernel, kRecurrent, kBias };

float Sigmoid(float x) { return 1.0f / (1.0f + math::Exp(-x)); }

struct LstmLayerKernel {
  explicit LstmLayerKernel(sdk::CreateContext& c) : length(c.Int("length")) {}

  struct Plan {
    Plan(const LstmLayerKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims x = sdk::DimsOf(c.input(kX)), h = sdk::DimsOf(c.input(kH));
      batch = x[1], inputs = x[2], cells = h[1];
      time = kernel.length >= 0 ? kernel.length : x[0];
      if (time > x[0]) sdk::Fail(TENON_INVALID_ARGUMENT, "length is ", time, "; x has ", x[0], " steps");
      Expect(c, kH, {batch, cells}, "h");
      Expect(c, kC, {batch, cells}, "c");
      Expect(c, kKernel, {inputs, sdk::Multiply(4, cells)}, "kernel");
      Expect(c, kRecurrent, {cells, 4 * cells}, "recurrent_kernel");
      Expect(c, kBias, {4 * cells}, "bias");
      const int64_t rows = sdk::Multiply(time, batch), width = 4 * cells;
      gates = c.Workspace(sdk::Multiply(sdk::Multiply(rows, width), sizeof(float)));
      of_x = SharedProduct::Make<float>(c, {rows, width, inputs, inputs, 1, width, 1, width});
      of_h = SharedProduct::Make<float>(c, {batch, width, cells, cells, 1, width, 1, width});
    }
    static void Expect(const sdk::PrepareContext& c, int32_t input, std::initializer_list<int64_t> wanted, const char* name) {
      const sdk::Dims dims = sdk::DimsOf(c.input(input));
      if (!std::equal(dims.begin(), dims.end(), wanted.begin(), wanted.end()))
        sdk::Fail(TENON_INVALID_ARGUMENT, name, " has the shape ", dims, "; it should be ", sdk::Dims(wanted.begin(), wanted.size()));
    }
    int64_t time = 0, batch = 0, inputs = 0, cells = 0, gates = 0;
    SharedProduct of_x, of_h;
  };

  void Run(const Plan& p, sdk::RunContext c) const {
    const int64_t width = 4 * p.cells, state = p.batch * p.cells;
    float *const sequence = c.output<float>(0), *const last_h = c.output<float>(1), *const last_c = c.output<float>(2);
    if (state > 0) std::copy_n(c.input<float>(kC), state, last_c);
    if (p.time > 0 && state > 0) {
      float* const gates = c.workspace<float>(p.gates);
      if (p.inputs > 0) p.of_x.Run(c, c.input<float>(kX), c.input<float>(kKernel), gates);
      else std::fill_n(gates, p.time * p.batch * width, 0.0f);
      for (int64_t t = 0; t < p.time; ++t) {
        c.CheckCancelled();
        float* const now = gates + t * p.batch * width;
        p.of_h.Run(c, {p.batch, width, p.cells, p.cells, 1, width, 1, width}, t == 0 ? c.input<float>(kH) : sequence + (t - 1) * state, c.input<float>(kRecurrent), now, true);
        c.ParallelFor(p.batch, 25.0 * static_cast<double>(p.cells), [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) Cell(p.cells, now + b * width, c.input<float>(kBias), last_c + b * p.cells, sequence + t * state + b * p.cells);
        });
      }
    }
    if (state > 0) std::copy_n(p.time > 0 ? sequence + (p.time - 1) * state : c.input<float>(kH), state, last_h);
  }

  static void Cell(int64_t cells, const float* gate, const float* bias, float* c, float* h) {
#pragma GCC ivdep
    for (int64_t k = 0; k < cells; ++k) {
      const float i = Sigmoid(gate[k] + bias[k]), f = Sigmoid(gate[cells + k] + bias[cells + k]);
      const float g = math::Tanh(gate[2 * cells + k] + bias[2 * cells + k]), o = Sigmoid(gate[3 * cells + k] + bias[3 * cells + k]);
      const float now = f * c[k] + i * g;
      c[k] = now;
      h[k] = o * math::Tanh(now);
    }
  }

  int64_t length;
};

}  // namespace

TENON_CPU_KERNEL(LstmLayer) = CpuKernel<LstmLayerKernel>("Tenon>LSTMLayer", {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list,
                                                                             .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});

}  // namespace tenon::cpu
