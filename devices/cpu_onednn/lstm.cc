// SPDX-License-Identifier: Apache-2.0
// Tenon>LSTMLayer through oneDNN's recurrent primitive: sequences are shared, each share goes through all steps by itself.
#include <vector>

#include "program.h"

namespace tenon::cpu_onednn {
namespace {

using dnnl::memory;

enum : int32_t { kX, kH, kC, kKernel, kRecurrent, kBias };

constexpr double kSmallest = 200e3;      // products of all steps, below which the plain kernel is as fast
constexpr double kPerNanosecond = 80;    // products and sums on one core

struct LstmLayerKernel {
  explicit LstmLayerKernel(sdk::CreateContext& c) : length(c.Int("length")) {}

  struct Plan {
    Plan(const LstmLayerKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims x = sdk::DimsOf(c.input(kX)), h = sdk::DimsOf(c.input(kH));
      const int64_t cells = h[1], inputs = x[2], batch = x[1], time = kernel.length >= 0 ? kernel.length : x[0];
      const auto is = [&](int32_t input, std::initializer_list<int64_t> dims) {
        const sdk::Dims own = sdk::DimsOf(c.input(input));
        return std::equal(own.begin(), own.end(), dims.begin(), dims.end());
      };
      if (time > x[0] || !is(kH, {batch, cells}) || !is(kC, {batch, cells}) || !is(kKernel, {inputs, 4 * cells}) || !is(kRecurrent, {cells, 4 * cells}) || !is(kBias, {4 * cells}))
        sdk::Fail(TENON_UNIMPLEMENTED, "shapes that do not go together; the plain kernel says which");
      const double work = 4.0 * static_cast<double>(time) * static_cast<double>(batch) * static_cast<double>(cells) * static_cast<double>(inputs + cells);
      RefuseBelow(work, kSmallest);
      if (inputs == 0) sdk::Fail(TENON_UNIMPLEMENTED, "nothing comes in; the plain kernel has an answer");
      cost = work / kPerNanosecond;
      const auto parts = Parts(batch, SharesAndPieces(c, cost, static_cast<double>(batch)));
      cost /= static_cast<double>(parts.size());
      RefuseLong(cost);
      for (const auto& [from, to] : parts) Add(c, {time, batch, inputs, cells}, from, to - from);
    }

    struct Sizes {
      int64_t time, batch, inputs, cells;
    };
    void Add(sdk::PrepareContext& c, const Sizes& s, int64_t first, int64_t rows) {
      const auto [time, batch, inputs, cells] = s;
      constexpr auto kFloat = memory::data_type::f32;
      const auto dense = [](memory::dims dims, memory::format_tag tag) { return memory::desc(std::move(dims), kFloat, tag); };
      const auto x = dense({time, rows, inputs}, memory::format_tag::tnc), y = dense({time, rows, cells}, memory::format_tag::tnc);
      const auto state = dense({1, 1, rows, cells}, memory::format_tag::ldnc), bias = dense({1, 1, 4, cells}, memory::format_tag::ldgo);
      const memory::dims kernel = {1, 1, inputs, 4, cells}, recurrent = {1, 1, cells, 4, cells};
      const auto pd = Made([&] { return library::Lstm({x, state, Any(kernel), Any(recurrent), bias, y}, UserScratchpad()); });
      Program& p = programs.emplace_back();
      // A share's sequences stand among others in each step.
      const auto whole = [&](int64_t width) { return Strided({time, rows, width}, {batch * width, width, 1}); };
      const auto bytes = [&](int64_t width) { return first * width * static_cast<int64_t>(sizeof(float)); };
      const int y_slot = p.Output(0, rows == batch ? y : whole(cells), bytes(cells)), target = p.Target(c, y_slot, y);
      const int x_slot = p.Converted(c, p.Input(kX, rows == batch ? x : whole(inputs), bytes(inputs)), x);
      const auto weights = [&](int32_t input, const memory::dims& dims, const memory::desc& wanted) {
        const auto given = dense(dims, memory::format_tag::ldigo);
        return c.Constant<char>(input) != nullptr ? p.Constant(Packed(c.input(input), 0, given, wanted)) : p.Converted(c, p.Input(input, given), wanted);
      };
      p.Step(c, Made([&] { return dnnl::lstm_forward(pd); }), pd.scratchpad_desc(),
             {{DNNL_ARG_SRC_LAYER, x_slot},
              {DNNL_ARG_SRC_ITER, p.Input(kH, state, bytes(cells))},
              {DNNL_ARG_SRC_ITER_C, p.Input(kC, state, bytes(cells))},
              {DNNL_ARG_WEIGHTS_LAYER, weights(kKernel, kernel, pd.weights_layer_desc())},
              {DNNL_ARG_WEIGHTS_ITER, weights(kRecurrent, recurrent, pd.weights_iter_desc())},
              {DNNL_ARG_BIAS, p.Input(kBias, bias)},
              {DNNL_ARG_DST_LAYER, target},
              {DNNL_ARG_DST_ITER, p.Output(1, state, bytes(cells))},
              {DNNL_ARG_DST_ITER_C, p.Output(2, state, bytes(cells))}});
      p.Finish(target, y_slot);
    }
    std::vector<Program> programs;
    double cost = 0;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }

  int64_t length;
};

}  // namespace

TENON_ONEDNN_KERNEL(LstmLayer) = OnednnKernel<LstmLayerKernel, FloatAlone>("Tenon>LSTMLayer");

}  // namespace tenon::cpu_onednn
