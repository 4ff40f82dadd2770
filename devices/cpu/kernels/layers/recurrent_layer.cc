// SPDX-License-Identifier: Apache-2.0
// Tenon>LSTMLayer and Tenon>GRULayer: the kernel's product is one over all steps; then products of the state and the
// gates for each.
#include <algorithm>

#include "kernels/common/math.h"
#include "kernels/common/types.h"
#include "kernels/products/product.h"
#include "tenon/extras/kernel/recurrent.h"

namespace tenon::cpu {
namespace {

using sdk::RecurrentSizes;

float LayerSigmoid(float x) { return 1.0f / (1.0f + math::Exp(-x)); }

// What both layers do: the product of the input in the workspace, step by step, and h where the next step finds it.
struct LayerPlan : RecurrentSizes {
  LayerPlan(sdk::PrepareContext& c, const sdk::RecurrentInputs& at, int64_t length)
      : RecurrentSizes(c, at, length), width(at.gates * cells), kernel(at.kernel()) {
    gates = Floats(c, sdk::Multiply(rows(), width));
    of_x = SharedProduct::Make<float>(c, {rows(), width, inputs, inputs, 1, width, 1, width});
  }
  static int64_t Floats(sdk::PrepareContext& c, int64_t count) {
    return c.Workspace(sdk::Multiply(count, sizeof(float)));
  }
  // Of the state, or as many cells: columns [from, from + columns) of the recurrent kernel, to rows of `row` floats.
  ProductShape OfState(int64_t columns, int64_t row) const { return {batch, columns, cells, cells, 1, width, 1, row}; }
  bool has_cells() const { return batch > 0 && cells > 0; }

  // step(gates, h before, h after) for each. Output 0 is the sequence, 1 the last h.
  template <class Step>
  void ForSteps(sdk::RunContext c, Step&& step) const {
    float* const sequence = c.output<float>(0);
    const int64_t size = batch * cells;
    if (size == 0) return;
    const float* before = c.input<float>(1);
    if (time > 0) {
      float* const all = c.workspace<float>(gates);
      if (inputs > 0) of_x.Run(c, c.input<float>(0), c.input<float>(kernel), all);
      else std::fill_n(all, time * batch * width, 0.0f);
      for (int64_t t = 0; t < time; ++t) {
        c.CheckCancelled();
        float* const after = sequence + t * size;
        step(all + t * batch * width, before, after);
        before = after;
      }
    }
    std::copy_n(before, size, c.output<float>(1));
  }
  // row(b) for each sequence.
  template <class Row>
  void ForRows(sdk::RunContext c, Row&& row) const {
    constexpr double kNsPerCell = 25;
    c.ParallelFor(batch, kNsPerCell * static_cast<double>(cells), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) row(b);
    });
  }
  int64_t width, gates = 0;
  int32_t kernel;
  SharedProduct of_x;
};

struct LstmLayerKernel {
  explicit LstmLayerKernel(sdk::CreateContext& c) : length(c.Int("length")) {}

  struct Plan : LayerPlan {
    Plan(const LstmLayerKernel& kernel, sdk::PrepareContext& c)
        : LayerPlan(c, sdk::kLstmInputs, kernel.length), of_h(SharedProduct::Make<float>(c, OfState(width, width))) {}
    SharedProduct of_h;
  };
  void Run(const Plan& p, sdk::RunContext c) const {
    float* const last_c = c.output<float>(2);
    if (p.has_cells()) std::copy_n(c.input<float>(2), p.batch * p.cells, last_c);
    p.ForSteps(c, [&](float* gates, const float* before, float* after) {
      p.of_h.Run(c, p.OfState(p.width, p.width), before, c.input<float>(sdk::kLstmInputs.recurrent()), gates, true);
      p.ForRows(c, [&](int64_t b) {
        Cell(p.cells, gates + b * p.width, c.input<float>(sdk::kLstmInputs.bias()), last_c + b * p.cells,
             after + b * p.cells);
      });
    });
  }
  static void Cell(int64_t cells, const float* gate, const float* bias, float* c, float* h) {
#pragma GCC ivdep
    for (int64_t k = 0; k < cells; ++k) {
      const float i = LayerSigmoid(gate[k] + bias[k]), f = LayerSigmoid(gate[cells + k] + bias[cells + k]);
      const float g = math::Tanh(gate[2 * cells + k] + bias[2 * cells + k]),
                  o = LayerSigmoid(gate[3 * cells + k] + bias[3 * cells + k]);
      const float now = f * c[k] + i * g;
      c[k] = now;
      h[k] = o * math::Tanh(now);
    }
  }
  int64_t length;
};

struct GruLayerKernel {
  explicit GruLayerKernel(sdk::CreateContext& c) : length(c.Int("length")), reset_after(c.Bool("reset_after")) {}

  struct Plan : LayerPlan {
    Plan(const GruLayerKernel& kernel, sdk::PrepareContext& c) : LayerPlan(c, sdk::kGruInputs, kernel.length) {
      Expect(c, sdk::kGruInputs.bias() + 1, {width}, "recurrent_bias");
      // What is multiplied by r stands apart; without reset_after r h does, and what it is multiplied to joins the
      // input's.
      apart = Floats(c, kernel.reset_after ? sdk::Multiply(batch, width) : state());
      of_h = SharedProduct::Make<float>(c, kernel.reset_after ? OfState(width, width) : OfState(2 * cells, width));
      if (!kernel.reset_after) of_reset = SharedProduct::Make<float>(c, OfState(cells, width));
    }
    int64_t apart = 0;
    SharedProduct of_h, of_reset;
  };
  void Run(const Plan& p, sdk::RunContext c) const {
    float* const apart = c.workspace<float>(p.apart);
    const float *const weights = c.input<float>(sdk::kGruInputs.recurrent()),
                       *const bias = c.input<float>(sdk::kGruInputs.bias()),
                       *const recurrent_bias = c.input<float>(sdk::kGruInputs.bias() + 1);
    p.ForSteps(c, [&](float* gates, const float* before, float* after) {
      if (reset_after) {
        p.of_h.Run(c, p.OfState(p.width, p.width), before, weights, apart, false);
        p.ForRows(c, [&](int64_t b) {
          CellResetAfter(p.cells, gates + b * p.width, apart + b * p.width, bias, recurrent_bias, before + b * p.cells,
                         after + b * p.cells);
        });
        return;
      }
      p.of_h.Run(c, p.OfState(2 * p.cells, p.width), before, weights, gates, true);
      p.ForRows(c, [&](int64_t b) {
        Reset(p.cells, gates + b * p.width, bias, recurrent_bias, before + b * p.cells, apart + b * p.cells);
      });
      p.of_reset.Run(c, p.OfState(p.cells, p.width), apart, weights + 2 * p.cells, gates + 2 * p.cells, true);
      p.ForRows(c, [&](int64_t b) {
        Cell(p.cells, gates + b * p.width, bias, recurrent_bias, before + b * p.cells, after + b * p.cells);
      });
    });
  }
  static void CellResetAfter(int64_t cells, const float* x, const float* h, const float* bias,
                             const float* recurrent_bias, const float* before, float* after) {
#pragma GCC ivdep
    for (int64_t k = 0; k < cells; ++k) {
      const int64_t r = cells + k, g = 2 * cells + k;
      const float z = LayerSigmoid(x[k] + bias[k] + h[k] + recurrent_bias[k]);
      const float candidate = math::Tanh(
          x[g] + bias[g] + LayerSigmoid(x[r] + bias[r] + h[r] + recurrent_bias[r]) * (h[g] + recurrent_bias[g]));
      after[k] = z * before[k] + (1.0f - z) * candidate;
    }
  }
  // r h.
  static void Reset(int64_t cells, const float* gate, const float* bias, const float* recurrent_bias,
                    const float* before, float* reset) {
#pragma GCC ivdep
    for (int64_t k = 0; k < cells; ++k)
      reset[k] = LayerSigmoid(gate[cells + k] + bias[cells + k] + recurrent_bias[cells + k]) * before[k];
  }
  static void Cell(int64_t cells, const float* gate, const float* bias, const float* recurrent_bias,
                   const float* before, float* after) {
#pragma GCC ivdep
    for (int64_t k = 0; k < cells; ++k) {
      const int64_t g = 2 * cells + k;
      const float z = LayerSigmoid(gate[k] + bias[k] + recurrent_bias[k]);
      after[k] = z * before[k] + (1.0f - z) * math::Tanh(gate[g] + bias[g] + recurrent_bias[g]);
    }
  }
  int64_t length;
  bool reset_after;
};

template <class Kernel>
constexpr auto LayerKernel(std::string_view op) {
  return CpuKernel<Kernel>(op, {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list,
                                .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});
}

}  // namespace

TENON_CPU_KERNEL(LstmLayer) = LayerKernel<LstmLayerKernel>("Tenon>LSTMLayer");
TENON_CPU_KERNEL(GruLayer) = LayerKernel<GruLayerKernel>("Tenon>GRULayer");

}  // namespace tenon::cpu
