// SPDX-License-Identifier: Apache-2.0
// BlockLSTM and its gradient: a layer of long short-term memory over all steps of a batch (Hochreiter and Schmidhuber,
// 1997), with peepholes if asked.
//
// Of T steps, B sequences, I inputs and C cells: x [T, B, I], states [B, C], weights [I + C, 4 C] of x and h before,
// gates in the order i, ci, f, o (BlockLSTM) or i, f, ci, o (BlockLSTMV2). What does not depend on the step before is
// one product over all steps: x by the weights, and in the gradient all but the way from gates to h. Halves are
// computed as floats; what is an output is rounded before it is used.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "kernels/common/math.h"
#include "kernels/common/types.h"
#include "kernels/products/product.h"

namespace tenon::cpu {
namespace {

using LstmTypes = Types<float, Half>;

// Inputs of both ops.
enum : int32_t { kSteps, kX, kCsPrev, kHPrev, kW, kWci, kWcf, kWco, kB };

struct LstmSizes {
  LstmSizes(const tenon_tensor_view& x, const tenon_tensor_view& b) {
    const sdk::Dims dims = sdk::DimsOf(x);
    time = dims[0], batch = dims[1], inputs = dims[2], cells = sdk::Count(b) / 4;
    rows = sdk::Multiply(time, batch);
    states = sdk::Multiply(rows, cells);
  }
  int64_t time, batch, inputs, cells, rows, states;
};
template <class Context>
void Expect(const Context& c, int32_t input, std::initializer_list<int64_t> wanted, const char* name) {
  const sdk::Dims dims = sdk::DimsOf(c.input(input));
  if (!std::equal(dims.begin(), dims.end(), wanted.begin(), wanted.end())) {
    sdk::Fail(TENON_INVALID_ARGUMENT, name, " has the shape ", dims, "; it should be ",
              sdk::Dims(wanted.begin(), wanted.size()));
  }
}
void ExpectInputs(const sdk::PrepareContext& c, const LstmSizes& s) {
  if (sdk::Count(c.input(kB)) % 4 != 0)
    sdk::Fail(TENON_INVALID_ARGUMENT, "b has ", sdk::Count(c.input(kB)), " elements, which do not divide into 4 gates");
  Expect(c, kCsPrev, {s.batch, s.cells}, "cs_prev");
  Expect(c, kHPrev, {s.batch, s.cells}, "h_prev");
  Expect(c, kW, {s.inputs + s.cells, 4 * s.cells}, "w");
  Expect(c, kWci, {s.cells}, "wci");
  Expect(c, kWcf, {s.cells}, "wcf");
  Expect(c, kWco, {s.cells}, "wco");
}
int64_t StepsOf(const sdk::RunContext& c, const LstmSizes& s) {
  const int64_t steps = *c.input<int64_t>(kSteps);
  if (steps < 0 || steps > s.time)
    sdk::Fail(TENON_INVALID_ARGUMENT, "seq_len_max is ", steps, "; x has ", s.time, " steps");
  return steps;
}

// Memory of floats in the workspace, of so many; of float inputs none.
struct LstmFloats {
  LstmFloats() = default;
  LstmFloats(sdk::PrepareContext& c, int64_t count, bool needed = true) : count(count) {
    if (needed) at = c.Workspace(sdk::Multiply(count, sizeof(float)));
  }
  float* In(const sdk::RunContext& c) const { return c.workspace<float>(at); }
  // An input's or output's elements as floats: itself, or a copy here.
  template <class T>
  const float* Of(const sdk::RunContext& c, const T* data) const {
    if constexpr (std::is_same_v<T, float>) {
      return data;
    } else {
      float* copy = In(c);
      for (int64_t i = 0; i < count; ++i) copy[i] = static_cast<float>(data[i]);
      return copy;
    }
  }
  int64_t count = 0, at = 0;
};
template <class T>
float RoundedToHalf(float value) {
  return static_cast<float>(static_cast<T>(value));
}

// Where a gate's columns begin, in cells.
struct Gates {
  explicit Gates(bool second) : ci(second ? 2 : 1), f(second ? 1 : 2) {}
  int64_t i = 0, ci, f, o = 3;
};

float LstmSigmoid(float x) { return 1.0f / (1.0f + math::Exp(-x)); }

struct BlockLstmKernel {
  explicit BlockLstmKernel(sdk::CreateContext& c)
      : gates(c.op() == "BlockLSTMV2"),
        forget_bias(c.Has("forget_bias") ? c.Float("forget_bias") : 0),
        clip(c.Float("cell_clip")),
        peeps(c.Bool("use_peephole")) {}
  struct Plan : LstmSizes {
    Plan(const BlockLstmKernel&, sdk::PrepareContext& c) : LstmSizes(c.input(kX), c.input(kB)) {
      ExpectInputs(c, *this);
      const bool half = c.input(kX).dtype != TENON_DT_FLOAT;
      all = LstmFloats(c, 4 * states);
      x = LstmFloats(c, rows * inputs, half), w = LstmFloats(c, sdk::Count(c.input(kW)), half),
      h = LstmFloats(c, batch * cells, half);
      of_x = SharedProduct::Make<float>(c, {rows, 4 * cells, inputs, inputs, 1, 4 * cells, 1, 4 * cells});
      of_h = SharedProduct::Make<float>(c, {batch, 4 * cells, cells, cells, 1, 4 * cells, 1, 4 * cells});
    }
    LstmFloats all, x, w, h;
    SharedProduct of_x, of_h;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    LstmTypes::Dispatch(c.input_view(kX).dtype, [&]<class T>(Tag<T>) { Typed<T>(plan, c); });
  }

 private:
  enum : int32_t { kI, kCs, kF, kO, kCi, kCo, kH, kOutputs };

  template <class T>
  void Typed(const Plan& p, sdk::RunContext c) const {
    const int64_t steps = StepsOf(c, p), width = 4 * p.cells, state = p.batch * p.cells;
    for (int32_t k = 0; k < kOutputs; ++k) std::fill(c.output<T>(k) + steps * state, c.output<T>(k) + p.states, T(0));
    if (steps == 0 || state == 0) return;
    const float* w = p.w.Of(c, c.input<T>(kW));
    float* all = p.all.In(c);
    const ProductShape shape{steps * p.batch, width, p.inputs, p.inputs, 1, width, 1, width};
    if (p.inputs > 0) {
      p.of_x.Run(c, shape, p.x.Of(c, c.input<T>(kX)), w, all, false);
    } else {
      std::fill_n(all, steps * p.batch * width, 0.0f);
    }
    for (int64_t t = 0; t < steps; ++t) {
      c.CheckCancelled();
      const T* h = t == 0 ? c.input<T>(kHPrev) : c.output<T>(kH) + (t - 1) * state;
      const T* cs = t == 0 ? c.input<T>(kCsPrev) : c.output<T>(kCs) + (t - 1) * state;
      float* now = all + t * p.batch * width;
      p.of_h.Run(c, {p.batch, width, p.cells, p.cells, 1, width, 1, width}, p.h.Of(c, h), w + p.inputs * width, now,
                 true);
      c.ParallelFor(p.batch, 30.0 * static_cast<double>(p.cells), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          Cell(p, c, now + b * width, cs + b * p.cells, (t * p.batch + b) * p.cells, Tag<T>{});
      });
    }
  }

  // One sequence at one step: x and h by the weights, the states before, and where the outputs are.
  template <class T>
  void Cell(const Plan& p, const sdk::RunContext& c, const float* gate, const T* before, int64_t at, Tag<T>) const {
    const float *gate_i = gate + gates.i * p.cells, *gate_ci = gate + gates.ci * p.cells,
                *gate_f = gate + gates.f * p.cells, *gate_o = gate + gates.o * p.cells;
    const T* bias = c.input<T>(kB);
    const T *bias_i = bias + gates.i * p.cells, *bias_ci = bias + gates.ci * p.cells,
            *bias_f = bias + gates.f * p.cells, *bias_o = bias + gates.o * p.cells;
    const T *wci = c.input<T>(kWci), *wcf = c.input<T>(kWcf), *wco = c.input<T>(kWco);
    T *out_i = c.output<T>(kI) + at, *out_cs = c.output<T>(kCs) + at, *out_f = c.output<T>(kF) + at,
      *out_o = c.output<T>(kO) + at;
    T *out_ci = c.output<T>(kCi) + at, *out_co = c.output<T>(kCo) + at, *out_h = c.output<T>(kH) + at;
    const bool peeping = peeps;
    const float forget = forget_bias, limit = clip > 0 ? clip : std::numeric_limits<float>::infinity();
    const int64_t cells = p.cells;
#pragma GCC ivdep
    for (int64_t k = 0; k < cells; ++k) {
      const auto cs_prev = static_cast<float>(before[k]);
      const float peep_i = cs_prev * static_cast<float>(wci[k]), peep_f = cs_prev * static_cast<float>(wcf[k]);
      const float i =
          RoundedToHalf<T>(LstmSigmoid(gate_i[k] + static_cast<float>(bias_i[k]) + (peeping ? peep_i : 0.0f)));
      const float ci = RoundedToHalf<T>(math::Tanh(gate_ci[k] + static_cast<float>(bias_ci[k])));
      const float f =
          RoundedToHalf<T>(LstmSigmoid(gate_f[k] + static_cast<float>(bias_f[k]) + forget + (peeping ? peep_f : 0.0f)));
      const float whole = ci * i + f * cs_prev;
      const float above = whole < -limit ? -limit : whole;
      const float cs = RoundedToHalf<T>(above > limit ? limit : above);
      const float peep_o = cs * static_cast<float>(wco[k]);
      const float o =
          RoundedToHalf<T>(LstmSigmoid(gate_o[k] + static_cast<float>(bias_o[k]) + (peeping ? peep_o : 0.0f)));
      const float co = RoundedToHalf<T>(math::Tanh(cs));
      out_i[k] = static_cast<T>(i);
      out_ci[k] = static_cast<T>(ci);
      out_f[k] = static_cast<T>(f);
      out_cs[k] = static_cast<T>(cs);
      out_o[k] = static_cast<T>(o);
      out_co[k] = static_cast<T>(co);
      out_h[k] = static_cast<T>(o * co);
    }
  }

  Gates gates;
  float forget_bias, clip;
  bool peeps;
};

// The inputs and outputs of BlockLSTM, then the gradients of cs and h.
struct BlockLstmGradKernel {
  explicit BlockLstmGradKernel(sdk::CreateContext& c)
      : gates(c.op() == "BlockLSTMGradV2"), peeps(c.Bool("use_peephole")) {}
  enum : int32_t { kI = kB + 1, kCs, kF, kO, kCi, kCo, kH, kCsGrad, kHGrad };
  enum : int32_t { kDx, kDcs, kDh, kDw, kDwci, kDwcf, kDwco, kDb };

  struct Plan : LstmSizes {
    Plan(const BlockLstmGradKernel&, sdk::PrepareContext& c) : LstmSizes(c.input(kX), c.input(kB)) {
      ExpectInputs(c, *this);
      constexpr const char* kNames[] = {"i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"};
      for (int32_t k = kI; k <= kHGrad; ++k) Expect(c, k, {time, batch, cells}, kNames[k - kI]);
      const bool half = c.input(kX).dtype != TENON_DT_FLOAT;
      const int64_t width = 4 * cells;
      all = LstmFloats(c, 4 * states), cs = LstmFloats(c, batch * cells), h = LstmFloats(c, batch * cells);
      x = LstmFloats(c, rows * inputs, half), w = LstmFloats(c, sdk::Count(c.input(kW)), half),
      h_all = LstmFloats(c, states, half), h_prev = LstmFloats(c, batch * cells, half);
      dx = LstmFloats(c, rows * inputs, half), dw = LstmFloats(c, sdk::Count(c.input(kW)), half);
      sums = LstmFloats(c, 7 * cells);
      to_h = SharedProduct::Make<float>(c, {batch, cells, width, width, 1, 1, width, cells});
      to_x = SharedProduct::Make<float>(c, {rows, inputs, width, width, 1, 1, width, inputs});
      to_wx = SharedProduct::Make<float>(c, {inputs, width, rows, 1, inputs, width, 1, width});
      to_wh = SharedProduct::Make<float>(c, {cells, width, rows, 1, cells, width, 1, width});
    }
    LstmFloats all, cs, h, x, w, h_all, h_prev, dx, dw, sums;
    SharedProduct to_h, to_x, to_wx, to_wh;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    LstmTypes::Dispatch(c.input_view(kX).dtype, [&]<class T>(Tag<T>) { Typed<T>(plan, c); });
  }

 private:
  template <class T>
  void Typed(const Plan& p, sdk::RunContext c) const {
    const int64_t steps = StepsOf(c, p), width = 4 * p.cells, state = p.batch * p.cells, rows = steps * p.batch;
    const float* w = p.w.Of(c, c.input<T>(kW));
    float *all = p.all.In(c), *dcs = p.cs.In(c), *dh = p.h.In(c);
    // Gradients of the states after a step: none after the last one.
    std::fill_n(dcs, state, 0.0f);
    std::fill_n(dh, state, 0.0f);
    for (int64_t t = steps - 1; t >= 0 && state > 0; --t) {
      c.CheckCancelled();
      const T* before = t == 0 ? c.input<T>(kCsPrev) : c.input<T>(kCs) + (t - 1) * state;
      float* now = all + t * p.batch * width;
      c.ParallelFor(p.batch, 20.0 * static_cast<double>(p.cells), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          Cell(p, c, now + b * width, dcs + b * p.cells, dh + b * p.cells, before + b * p.cells,
               (t * p.batch + b) * p.cells);
      });
      p.to_h.Run(c, now, w + p.inputs * width, dh);
    }
    Store(c.output<T>(kDcs), dcs, state);
    Store(c.output<T>(kDh), dh, state);
    SumColumns<T>(p, c, steps, all);
    // What is left are products over all steps.
    std::fill(c.output<T>(kDx) + rows * p.inputs, c.output<T>(kDx) + p.rows * p.inputs, T(0));
    float* dx = Target(p.dx, c, c.output<T>(kDx));
    float* dw = Target(p.dw, c, c.output<T>(kDw));
    std::fill_n(dw, sdk::Count(c.output_view(kDw)), 0.0f);
    if (rows > 0 && p.cells > 0 && p.inputs > 0) {
      p.to_x.Run(c, {rows, p.inputs, width, width, 1, 1, width, p.inputs}, all, w, dx, false);
      p.to_wx.Run(c, {p.inputs, width, rows, 1, p.inputs, width, 1, width}, p.x.Of(c, c.input<T>(kX)), all, dw, false);
    } else {
      std::fill_n(dx, rows * p.inputs, 0.0f);
    }
    if (rows > 0 && p.cells > 0) {
      float* to = dw + p.inputs * width;
      p.to_wh.Run(c, {p.cells, width, p.batch, 1, p.cells, width, 1, width}, p.h_prev.Of(c, c.input<T>(kHPrev)), all,
                  to, false);
      if (steps > 1) {
        p.to_wh.Run(c, {p.cells, width, rows - p.batch, 1, p.cells, width, 1, width}, p.h_all.Of(c, c.input<T>(kH)),
                    all + p.batch * width, to, true);
      }
    }
    if constexpr (!std::is_same_v<T, float>) {
      Store(c.output<T>(kDx), dx, rows * p.inputs);
      Store(c.output<T>(kDw), dw, sdk::Count(c.output_view(kDw)));
    }
  }

  // One sequence at one step: dcs and dh become those of the states before, dh but for the product by the weights.
  template <class T>
  void Cell(const Plan& p, const sdk::RunContext& c, float* gate, float* dcs, const float* dh, const T* before,
            int64_t at) const {
    const auto in = [&](int32_t input, int64_t k) { return static_cast<float>(c.input<T>(input)[k]); };
    for (int64_t k = 0; k < p.cells; ++k) {
      const float i = in(kI, at + k), f = in(kF, at + k), o = in(kO, at + k), ci = in(kCi, at + k),
                  co = in(kCo, at + k);
      const auto cs_prev = static_cast<float>(before[k]);
      const float h_grad = in(kHGrad, at + k) + dh[k];
      const float d_o = RoundedToHalf<T>(o * (1 - o) * h_grad * co);
      float whole = (1 - co * co) * h_grad * o + in(kCsGrad, at + k) + dcs[k];
      if (peeps) whole += d_o * in(kWco, k);
      const float d_ci = RoundedToHalf<T>((1 - ci * ci) * whole * i),
                  d_f = RoundedToHalf<T>(f * (1 - f) * whole * cs_prev),
                  d_i = RoundedToHalf<T>(i * (1 - i) * whole * ci);
      dcs[k] = RoundedToHalf<T>(whole * f + (peeps ? d_i * in(kWci, k) + d_f * in(kWcf, k) : 0.0f));
      gate[gates.i * p.cells + k] = d_i;
      gate[gates.ci * p.cells + k] = d_ci;
      gate[gates.f * p.cells + k] = d_f;
      gate[gates.o * p.cells + k] = d_o;
    }
  }

  // The gradients of b and of the peepholes: sums over steps and sequences.
  template <class T>
  void SumColumns(const Plan& p, const sdk::RunContext& c, int64_t steps, const float* all) const {
    const int64_t cells = p.cells, state = p.batch * cells;
    float *b = p.sums.In(c), *wci = b + 4 * cells, *wcf = wci + cells, *wco = wcf + cells;
    std::fill_n(b, 7 * cells, 0.0f);
    c.ParallelFor(cells, 6.0 * static_cast<double>(steps * p.batch), [&](int64_t begin, int64_t end) {
      for (int64_t t = 0; t < steps; ++t) {
        const T* before = t == 0 ? c.input<T>(kCsPrev) : c.input<T>(kCs) + (t - 1) * state;
        const T* now = c.input<T>(kCs) + t * state;
        for (int64_t n = 0; n < p.batch; ++n) {
          const float* gate = all + (t * p.batch + n) * 4 * cells;
          for (int64_t k = begin; k < end; ++k) {
            for (int64_t g = 0; g < 4; ++g) b[g * cells + k] += gate[g * cells + k];
            if (!peeps) continue;
            wci[k] += gate[gates.i * cells + k] * static_cast<float>(before[n * cells + k]);
            wcf[k] += gate[gates.f * cells + k] * static_cast<float>(before[n * cells + k]);
            wco[k] += gate[gates.o * cells + k] * static_cast<float>(now[n * cells + k]);
          }
        }
      }
    });
    Store(c.output<T>(kDb), b, 4 * cells);
    Store(c.output<T>(kDwci), wci, cells);
    Store(c.output<T>(kDwcf), wcf, cells);
    Store(c.output<T>(kDwco), wco, cells);
  }

  template <class T>
  static float* Target(const LstmFloats& floats, const sdk::RunContext& c, T* output) {
    if constexpr (std::is_same_v<T, float>) {
      return output;
    } else {
      return floats.In(c);
    }
  }
  template <class T>
  static void Store(T* to, const float* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
  }

  Gates gates;
  bool peeps;
};

constexpr sdk::Traits kLstmTraits = {.constraints = sdk::Constraints<LstmTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(BlockLSTM) = CpuKernel<BlockLstmKernel>("BlockLSTM", kLstmTraits);
TENON_CPU_KERNEL(BlockLSTMV2) = CpuKernel<BlockLstmKernel>("BlockLSTMV2", kLstmTraits);
TENON_CPU_KERNEL(BlockLSTMGrad) = CpuKernel<BlockLstmGradKernel>("BlockLSTMGrad", kLstmTraits);
TENON_CPU_KERNEL(BlockLSTMGradV2) = CpuKernel<BlockLstmGradKernel>("BlockLSTMGradV2", kLstmTraits);

}  // namespace tenon::cpu
