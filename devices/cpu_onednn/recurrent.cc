// SPDX-License-Identifier: Apache-2.0
// Tenon>LSTMLayer and Tenon>GRULayer through oneDNN's recurrent primitives: sequences are shared, each share goes
// through all steps by itself. Gates stand in the same order, and the update gate keeps what was there as the op's
// does.
#include "tenon/extras/kernel/recurrent.h"

#include <vector>

#include "program.h"

namespace tenon::cpu_onednn {
namespace {

using dnnl::memory;
using sdk::RecurrentInputs;

constexpr double kSmallestRecurrent = 200e3;    // multiply-adds of all steps, below which the plain kernel is as fast
constexpr double kRecurrentPerNanosecond = 70;  // of those on one core

memory::desc Dense(memory::dims dims, memory::format_tag tag) { return {std::move(dims), memory::data_type::f32, tag}; }

// What the layers share: programs, one a share of the sequences.
struct LayerPlan : sdk::RecurrentSizes {
  LayerPlan(sdk::PrepareContext& c, const RecurrentInputs& inputs_at, int64_t length)
      : RecurrentSizes(c, inputs_at, length), at(inputs_at) {
    const double all = work(at);
    RefuseBelow(all, kSmallestRecurrent);
    if (inputs == 0) sdk::Fail(TENON_UNIMPLEMENTED, "nothing comes in; the plain kernel has an answer");
    parts = Parts(batch, SharesAndPieces(c, all / kRecurrentPerNanosecond, static_cast<double>(batch)));
    cost = all / kRecurrentPerNanosecond / static_cast<double>(parts.size());
    RefuseLong(cost);
  }
  // Layouts of a share's tensors, and of weights as the op has them and as oneDNN likes.
  struct Layouts {
    Layouts(const LayerPlan& p, int64_t rows)
        : x(Dense({p.time, rows, p.inputs}, memory::format_tag::tnc)),
          y(Dense({p.time, rows, p.cells}, memory::format_tag::tnc)),
          state(Dense({1, 1, rows, p.cells}, memory::format_tag::ldnc)),
          kernel({1, 1, p.inputs, p.at.gates, p.cells}),
          recurrent({1, 1, p.cells, p.at.gates, p.cells}) {}
    memory::desc bias(int64_t gates) const { return Dense({1, 1, gates, kernel[4]}, memory::format_tag::ldgo); }
    memory::desc x, y, state;
    memory::dims kernel, recurrent;
  };
  int64_t Bytes(int64_t first, int64_t width) const { return first * width * static_cast<int64_t>(sizeof(float)); }

  // A share's program, of what all cells have; arguments: what this one has besides, given the program.
  template <class Primitive, class Arguments>
  void Add(sdk::PrepareContext& c, const typename Primitive::primitive_desc& pd, const Layouts& l,
           const std::pair<int64_t, int64_t>& part, Arguments&& more) {
    const auto [first, end] = part;
    const int64_t rows = end - first;
    Program& p = programs.emplace_back();
    // A share's sequences stand among others in each step.
    const auto whole = [&](int64_t width) { return Strided({time, rows, width}, {batch * width, width, 1}); };
    const int y_slot = p.Output(0, rows == batch ? l.y : whole(cells), Bytes(first, cells)),
              target = p.Target(c, y_slot, l.y);
    const int x_slot = p.Converted(c, p.Input(0, rows == batch ? l.x : whole(inputs), Bytes(first, inputs)), l.x);
    const auto weights = [&](int32_t input, const memory::dims& dims, const memory::desc& wanted) {
      const auto given = Dense(dims, memory::format_tag::ldigo);
      return c.Constant<char>(input) != nullptr ? p.Constant(Packed(c.input(input), 0, given, wanted))
                                                : p.Converted(c, p.Input(input, given), wanted);
    };
    std::vector<std::pair<int, int>> arguments = {
        {DNNL_ARG_SRC_LAYER, x_slot},
        {DNNL_ARG_SRC_ITER, p.Input(1, l.state, Bytes(first, cells))},
        {DNNL_ARG_WEIGHTS_LAYER, weights(at.kernel(), l.kernel, pd.weights_layer_desc())},
        {DNNL_ARG_WEIGHTS_ITER, weights(at.recurrent(), l.recurrent, pd.weights_iter_desc())},
        {DNNL_ARG_DST_LAYER, target},
        {DNNL_ARG_DST_ITER, p.Output(1, l.state, Bytes(first, cells))}};
    more(p, arguments);
    p.Step(c, Made([&] { return Primitive(pd); }), pd.scratchpad_desc(), std::move(arguments));
    p.Finish(target, y_slot);
  }

  RecurrentInputs at;
  std::vector<std::pair<int64_t, int64_t>> parts;
  std::vector<Program> programs;
  double cost = 0;
};

struct LstmLayerKernel {
  explicit LstmLayerKernel(sdk::CreateContext& c) : length(c.Int("length")) {}

  struct Plan : LayerPlan {
    Plan(const LstmLayerKernel& kernel, sdk::PrepareContext& c) : LayerPlan(c, sdk::kLstmInputs, kernel.length) {
      for (const auto& part : parts) {
        const Layouts l(*this, part.second - part.first);
        const memory::desc bias = l.bias(at.gates);
        const auto pd = Made([&] {
          return library::Lstm({l.x, l.state, Any(l.kernel), Any(l.recurrent), bias, l.y}, UserScratchpad());
        });
        Add<dnnl::lstm_forward>(c, pd, l, part, [&](Program& p, auto& arguments) {
          arguments.insert(arguments.end(), {{DNNL_ARG_SRC_ITER_C, p.Input(2, l.state, Bytes(part.first, cells))},
                                             {DNNL_ARG_BIAS, p.Input(at.bias(), bias)},
                                             {DNNL_ARG_DST_ITER_C, p.Output(2, l.state, Bytes(part.first, cells))}});
        });
      }
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }
  int64_t length;
};

struct GruLayerKernel {
  explicit GruLayerKernel(sdk::CreateContext& c) : length(c.Int("length")), reset_after(c.Bool("reset_after")) {}

  struct Plan : LayerPlan {
    Plan(const GruLayerKernel& kernel, sdk::PrepareContext& c) : LayerPlan(c, sdk::kGruInputs, kernel.length) {
      Expect(c, at.bias() + 1, {at.gates * cells}, "recurrent_bias");
      bias = c.Workspace(Bytes(4, cells));
      for (const auto& part : parts)
        kernel.reset_after ? Add<dnnl::lbr_gru_forward>(c, part, 4) : Add<dnnl::gru_forward>(c, part, 3);
    }
    template <class Primitive>
    void Add(sdk::PrepareContext& c, const std::pair<int64_t, int64_t>& part, int64_t biases) {
      const Layouts l(*this, part.second - part.first);
      const auto pd = Made([&] {
        return library::Gru<Primitive>({l.x, l.state, Any(l.kernel), Any(l.recurrent), l.bias(biases), l.y},
                                       UserScratchpad());
      });
      LayerPlan::Add<Primitive>(c, pd, l, part, [&](Program& p, auto& arguments) {
        arguments.push_back({DNNL_ARG_BIAS, p.WorkspaceAt(bias, l.bias(biases))});
      });
    }
    int64_t bias = 0;
  };
  // Of two biases their sum, but for what r is multiplied to, which has one of its own.
  void Run(const Plan& plan, sdk::RunContext c) const {
    const float *const own = c.input<float>(plan.at.bias()), *const recurrent = c.input<float>(plan.at.bias() + 1);
    float* const both = c.workspace<float>(plan.bias);
    const int64_t summed = (reset_after ? 2 : 3) * plan.cells;
    for (int64_t i = 0; i < summed; ++i) both[i] = own[i] + recurrent[i];
    if (reset_after) {
      std::copy_n(own + summed, plan.cells, both + summed);
      std::copy_n(recurrent + summed, plan.cells, both + summed + plan.cells);
    }
    RunShares(c, plan.programs, plan.cost);
  }
  int64_t length;
  bool reset_after;
};

}  // namespace

TENON_ONEDNN_KERNEL(LstmLayer) = OnednnKernel<LstmLayerKernel, FloatAlone>("Tenon>LSTMLayer");
TENON_ONEDNN_KERNEL(GruLayer) = OnednnKernel<GruLayerKernel, FloatAlone>("Tenon>GRULayer");

}  // namespace tenon::cpu_onednn
