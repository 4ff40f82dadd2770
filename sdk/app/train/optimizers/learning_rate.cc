// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/learning_rate.h"

#include <cmath>
#include <numbers>
#include <string>
#include <utility>

namespace tenon::train {
namespace {

// Float scalars of a graph.
class Numbers {
 public:
  explicit Numbers(Graph& graph) : graph_(graph) {}
  Output Of(float value) const { return graph_.Const(value); }
  Output Float(Output step) const { return graph_.Op("Cast", {step}, {{"DstT", DType::kFloat}}); }
  Output Add(Output a, Output b) const { return graph_.Op("AddV2", {a, b}); }
  Output Sub(Output a, Output b) const { return graph_.Op("Sub", {a, b}); }
  Output Mul(Output a, Output b) const { return graph_.Op("Mul", {a, b}); }
  Output Div(Output a, Output b) const { return graph_.Op("RealDiv", {a, b}); }
  Output Pow(Output a, Output b) const { return graph_.Op("Pow", {a, b}); }
  Output Min(Output a, Output b) const { return graph_.Op("Minimum", {a, b}); }
  Output Floor(Output a) const { return graph_.Op("Floor", {a}); }
  // A number as one of the step's type, as steps are compared in.
  Output Step(int64_t value, DType dtype) const {
    const Output number = graph_.Const(value);
    return dtype == DType::kInt64 ? number : graph_.Op("Cast", {number}, {{"DstT", dtype}});
  }

 private:
  Graph& graph_;
};

// Whether nodes may be made; what is wrong sticks to the graph.
bool Check(Graph& graph, bool fine, const std::string& why) {
  if (!fine) graph.Fail(Status(Code::kInvalidArgument, why));
  return fine && graph.status().ok();
}
bool CheckSteps(Graph& graph, const char* what, int64_t steps) {
  return Check(graph, steps > 0, std::string(what) + " over " + std::to_string(steps) + " steps; one is the least");
}

// t/T, or its floor.
Output Periods(const Numbers& n, Output step, int64_t decay_steps, bool staircase) {
  const Output periods = n.Div(n.Float(step), n.Of(static_cast<float>(decay_steps)));
  return staircase ? n.Floor(periods) : periods;
}

// (1 - alpha) factor (1 + cos(pi done))/2 + alpha
Output Cosine(Graph& graph, Output done, Output factor, float alpha) {
  const Numbers n(graph);
  const Output wave = n.Add(n.Of(1), graph.Op("Cos", {n.Mul(n.Of(std::numbers::pi_v<float>), done)}));
  return n.Add(n.Mul(n.Of(1 - alpha), n.Mul(n.Mul(n.Of(0.5f), factor), wave)), n.Of(alpha));
}

}  // namespace

LearningRate ConstantRate(float rate) {
  return [=](Graph& graph, Output) { return graph.Const(rate, "learning_rate"); };
}

LearningRate ExponentialDecay(float rate, int64_t decay_steps, float decay_rate, bool staircase) {
  return [=](Graph& graph, Output step) {
    if (!CheckSteps(graph, "ExponentialDecay", decay_steps)) return Output();
    const auto scope = graph.Scope("learning_rate");
    const Numbers n(graph);
    return n.Mul(n.Of(rate), n.Pow(n.Of(decay_rate), Periods(n, step, decay_steps, staircase)));
  };
}

LearningRate NaturalExpDecay(float rate, int64_t decay_steps, float decay_rate, bool staircase) {
  return [=](Graph& graph, Output step) {
    if (!CheckSteps(graph, "NaturalExpDecay", decay_steps)) return Output();
    const auto scope = graph.Scope("learning_rate");
    const Numbers n(graph);
    return n.Mul(n.Of(rate), graph.Op("Exp", {n.Mul(n.Of(-decay_rate), Periods(n, step, decay_steps, staircase))}));
  };
}

LearningRate InverseTimeDecay(float rate, int64_t decay_steps, float decay_rate, bool staircase) {
  return [=](Graph& graph, Output step) {
    if (!CheckSteps(graph, "InverseTimeDecay", decay_steps)) return Output();
    const auto scope = graph.Scope("learning_rate");
    const Numbers n(graph);
    return n.Div(n.Of(rate), n.Add(n.Of(1), n.Mul(n.Of(decay_rate), Periods(n, step, decay_steps, staircase))));
  };
}

LearningRate PiecewiseConstant(std::vector<int64_t> boundaries, std::vector<float> values) {
  return [boundaries = std::move(boundaries), values = std::move(values)](Graph& graph, Output step) {
    bool rises = true;
    for (size_t i = 1; i < boundaries.size(); ++i) rises = rises && boundaries[i - 1] < boundaries[i];
    if (!Check(graph, rises && values.size() == boundaries.size() + 1,
               "PiecewiseConstant of " + std::to_string(boundaries.size()) + " boundaries and " +
                   std::to_string(values.size()) +
                   " values; boundaries rise, and there is one value more than boundaries"))
      return Output();
    const auto scope = graph.Scope("learning_rate");
    const Numbers n(graph);
    Output rate = n.Of(values[0]);
    for (size_t i = 0; i < boundaries.size(); ++i)
      rate = graph.Op("SelectV2",
                      {graph.Op("Greater", {step, n.Step(boundaries[i], step.dtype())}), n.Of(values[i + 1]), rate});
    return rate;
  };
}

LearningRate PolynomialDecay(float rate, int64_t decay_steps, float end, float power, bool cycle) {
  return [=](Graph& graph, Output step) {
    if (!CheckSteps(graph, "PolynomialDecay", decay_steps)) return Output();
    const auto scope = graph.Scope("learning_rate");
    const Numbers n(graph);
    Output t = n.Float(step), total = n.Of(static_cast<float>(decay_steps));
    if (cycle) {
      const Output periods = graph.Op("Ceil", {n.Div(t, total)});
      total = n.Mul(total, graph.Op("Maximum", {periods, n.Of(1)}));
    } else {
      t = n.Min(t, total);
    }
    return n.Add(n.Mul(n.Of(rate - end), n.Pow(n.Sub(n.Of(1), n.Div(t, total)), n.Of(power))), n.Of(end));
  };
}

LearningRate CosineDecay(float rate, int64_t decay_steps, float alpha) {
  return [=](Graph& graph, Output step) {
    if (!CheckSteps(graph, "CosineDecay", decay_steps)) return Output();
    const auto scope = graph.Scope("learning_rate");
    const Numbers n(graph);
    const Output total = n.Of(static_cast<float>(decay_steps));
    return n.Mul(n.Of(rate), Cosine(graph, n.Div(n.Min(n.Float(step), total), total), n.Of(1), alpha));
  };
}

LearningRate CosineRestarts(float rate, int64_t first_steps, float t_mul, float m_mul, float alpha) {
  return [=](Graph& graph, Output step) {
    if (!CheckSteps(graph, "CosineRestarts", first_steps) ||
        !Check(graph, t_mul >= 1 && std::isfinite(t_mul),
               "CosineRestarts with periods that grow by " + std::to_string(t_mul) + "; 1 is the least"))
      return Output();
    const auto scope = graph.Scope("learning_rate");
    const Numbers n(graph);
    Output done = n.Div(n.Float(step), n.Of(static_cast<float>(first_steps)));
    Output restarts;
    if (t_mul == 1) {
      restarts = n.Floor(done);
      done = n.Sub(done, restarts);
    } else {
      // i periods take first_steps (1 - t_mul^i) / (1 - t_mul) steps.
      restarts = n.Floor(n.Div(graph.Op("Log", {n.Sub(n.Of(1), n.Mul(done, n.Of(1 - t_mul)))}), n.Of(std::log(t_mul))));
      const Output length = n.Pow(n.Of(t_mul), restarts);
      const Output before = n.Div(n.Sub(n.Of(1), length), n.Of(1 - t_mul));
      done = n.Div(n.Sub(done, before), length);
    }
    return n.Mul(n.Of(rate), Cosine(graph, done, n.Pow(n.Of(m_mul), restarts), alpha));
  };
}

LearningRate WarmUp(int64_t steps, LearningRate then, float from) {
  return [steps, then = std::move(then), from](Graph& graph, Output step) {
    if (!CheckSteps(graph, "WarmUp", steps)) return Output();
    const auto scope = graph.Scope("warm_up");
    const Numbers n(graph);
    const Output length = n.Step(steps, step.dtype()), none = n.Step(0, step.dtype());
    const Output target = then(graph, none);
    const Output share = n.Div(n.Float(step), n.Of(static_cast<float>(steps)));
    const Output rising = n.Add(n.Of(from), n.Mul(n.Sub(target, n.Of(from)), share));
    const Output later = then(graph, graph.Op("Maximum", {n.Sub(step, length), none}));
    return graph.Op("SelectV2", {graph.Op("Less", {step, length}), rising, later});
  };
}

}  // namespace tenon::train
