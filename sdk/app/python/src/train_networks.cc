// SPDX-License-Identifier: Apache-2.0
// What networks are trained with besides layers: learning rates, clipping, recurrent cells, losses over many classes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "graph.h"
#include "tenon/train/clipping.h"
#include "tenon/train/learning_rate.h"
#include "tenon/train/recurrent.h"
#include "tenon/train/sampled_loss.h"
#include "tenon/train/sharded_softmax.h"
#include "train_model.h"

namespace tenon::python {
namespace {

using train::ClassShards, train::LearningRate, train::RnnCell;

// ---- Learning rates ----

struct RateBox {
  LearningRate rate;
  OutputBox Of(const OutputBox& step) const {
    return {step.graph, Changed(BoxOf(step.graph), [&](host::Graph& graph) { return rate(graph, step.output); })};
  }
};

void BindRates(nb::module_& module) {
  nb::class_<RateBox>(
      module, "LearningRate",
      "A rate that changes with the step: rate(step) makes the nodes that give it, of a scalar integer of the graph.")
      .def("__call__", &RateBox::Of, nb::arg("step"));
  module.def("_constant_rate", [](float rate) { return RateBox{train::ConstantRate(rate)}; });
  module.def("_exponential_decay", [](float r, int64_t t, float d, bool stairs) {
    return RateBox{train::ExponentialDecay(r, t, d, stairs)};
  });
  module.def("_natural_exp_decay",
             [](float r, int64_t t, float d, bool stairs) { return RateBox{train::NaturalExpDecay(r, t, d, stairs)}; });
  module.def("_inverse_time_decay", [](float r, int64_t t, float d, bool stairs) {
    return RateBox{train::InverseTimeDecay(r, t, d, stairs)};
  });
  module.def("_piecewise_constant", [](std::vector<int64_t> at, std::vector<float> values) {
    return RateBox{train::PiecewiseConstant(std::move(at), std::move(values))};
  });
  module.def("_polynomial_decay", [](float r, int64_t t, float end, float power, bool cycle) {
    return RateBox{train::PolynomialDecay(r, t, end, power, cycle)};
  });
  module.def("_cosine_decay", [](float r, int64_t t, float alpha) { return RateBox{train::CosineDecay(r, t, alpha)}; });
  module.def("_cosine_restarts", [](float r, int64_t t, float t_mul, float m_mul, float alpha) {
    return RateBox{train::CosineRestarts(r, t, t_mul, m_mul, alpha)};
  });
  module.def("_warm_up", [](int64_t steps, const RateBox& then, float from) {
    return RateBox{train::WarmUp(steps, then.rate, from)};
  });
}

// ---- Clipping ----

// Those that are None stay so.
nb::list FromGradients(nb::object graph, const std::vector<host::Output>& gradients) {
  nb::list list;
  for (const host::Output& gradient : gradients)
    list.append(gradient.valid() ? nb::cast(OutputBox{graph, gradient}) : nb::none());
  return list;
}

void BindClipping(nb::module_& module) {
  module.def("_clip",
             [](nb::object graph, nb::list gradients, const std::string& by, float low, float high) -> nb::object {
               const std::vector<host::Output> given = ToGradients(gradients);
               train::GloballyClipped clipped;
               Changed(BoxOf(graph), [&](host::Graph& g) {
                 if (by == "value") clipped.gradients = train::ClipByValue(g, given, low, high);
                 if (by == "norm") clipped.gradients = train::ClipByNorm(g, given, high);
                 if (by == "global_norm") clipped = train::ClipByGlobalNorm(g, given, high);
                 return true;
               });
               const nb::list made = FromGradients(graph, clipped.gradients);
               return by == "global_norm" ? nb::object(nb::make_tuple(made, OutputBox{graph, clipped.norm}))
                                          : nb::object(made);
             });
  module.def("_global_norm", [](nb::object graph, nb::list gradients) {
    const std::vector<host::Output> given = ToGradients(gradients);
    return OutputBox{graph, Changed(BoxOf(graph), [&](host::Graph& g) { return train::GlobalNorm(g, given); })};
  });
}

// ---- Recurrent networks ----

struct CellBox {
  nb::object model;
  RnnCell cell;
  void VisitKept(const auto& visit) const { visit(model); }
  nb::object graph() const { return nb::cast<ModelOfVariables&>(model).graph; }
};

CellBox MakeCell(nb::object model, const std::string& kind, const std::string& name, int64_t inputs, int64_t units,
                 const std::optional<train::Initializer>& initializer, float forget_bias, bool reset_after) {
  const train::RnnCellOptions options{initializer, forget_bias, reset_after};
  auto& variables = nb::cast<ModelOfVariables&>(model);
  return {model, variables.Do([&](train::Model& of) {
            if (kind == "lstm") return train::LstmCell(of, name, inputs, units, options);
            if (kind == "gru") return train::GruCell(of, name, inputs, units, options);
            return train::BasicRnnCell(of, name, inputs, units, options);
          })};
}

CellBox MakeFunctionCell(nb::object model, const std::string& function, const std::string& name, int64_t inputs,
                         const std::vector<int64_t>& state_sizes, nb::list weights) {
  const std::vector<host::Output> given = ToOutputs(weights);
  return {model, Changed(BoxOf(nb::cast<ModelOfVariables&>(model).graph), [&](host::Graph& graph) {
            return train::FunctionCell(graph, name, {function}, inputs, state_sizes, given);
          })};
}

nb::list FromOutputs(nb::object graph, const std::vector<host::Output>& outputs) {
  nb::list list;
  for (const host::Output& output : outputs) list.append(OutputBox{graph, output});
  return list;
}

nb::tuple StepOf(const CellBox& self, nb::object graph, const OutputBox& x, nb::list state, nb::list weights) {
  const std::vector<host::Output> c_state = ToOutputs(state), c_weights = ToOutputs(weights);
  if (c_state.size() != self.cell.state_sizes.size())
    FailInvalid("cell '" + self.cell.name + "' has " + std::to_string(self.cell.state_sizes.size()) +
                " states; found " + std::to_string(c_state.size()));
  const train::RnnStep step =
      Changed(BoxOf(graph), [&](host::Graph& g) { return self.cell.step(g, x.output, c_state, c_weights); });
  return nb::make_tuple(OutputBox{graph, step.output}, FromOutputs(graph, step.state));
}

nb::tuple MakeRnn(const CellBox& self, const OutputBox& inputs, std::optional<OutputBox> lengths, nb::list initial,
                  bool time_major, bool reverse, int64_t parallel_iterations, const std::string& name) {
  const nb::object graph = self.graph();
  train::RnnOptions options;
  options.time_major = time_major;
  if (lengths) options.sequence_length = lengths->output;
  options.initial_state = ToOutputs(initial);
  options.reverse = reverse;
  options.parallel_iterations = parallel_iterations;
  options.name = name;
  const train::Rnn rnn =
      Changed(BoxOf(graph), [&](host::Graph& g) { return train::DynamicRnn(g, self.cell, inputs.output, options); });
  return nb::make_tuple(OutputBox{graph, rnn.outputs}, FromOutputs(graph, rnn.state));
}

void BindRecurrent(nb::module_& module) {
  nb::class_<CellBox>(module, "RnnCellBase", nb::type_slots(traversed_slots<CellBox>))
      .def(
          "__init__",
          [](CellBox* self, nb::object model, const std::string& kind, const std::string& name, int64_t inputs,
             int64_t units, const std::optional<train::Initializer>& initializer, float forget_bias, bool reset_after) {
            new (self) CellBox(MakeCell(model, kind, name, inputs, units, initializer, forget_bias, reset_after));
          },
          nb::arg("model"), nb::arg("kind"), nb::arg("name"), nb::arg("inputs"), nb::arg("units"),
          nb::arg("initializer").none(), nb::arg("forget_bias"), nb::arg("reset_after"))
      .def(
          "__init__",
          [](CellBox* self, nb::object model, const std::string& function, const std::string& name, int64_t inputs,
             const std::vector<int64_t>& state_sizes, nb::list weights) {
            new (self) CellBox(MakeFunctionCell(model, function, name, inputs, state_sizes, weights));
          },
          nb::arg("model"), nb::arg("function"), nb::arg("name"), nb::arg("inputs"), nb::arg("state_sizes"),
          nb::arg("weights"))
      .def_prop_ro("name", [](const CellBox& self) { return self.cell.name; })
      .def_prop_ro(
          "inputs", [](const CellBox& self) { return self.cell.inputs; }, "Features of what a step gets")
      .def_prop_ro(
          "state_sizes", [](const CellBox& self) { return self.cell.state_sizes; }, "A state is [batch, size]")
      .def_prop_ro("weights", [](const CellBox& self) { return FromOutputs(self.graph(), self.cell.weights); })
      .def_ro("model", &CellBox::model)
      .def("_step", &StepOf, nb::arg("graph"), nb::arg("x"), nb::arg("state"), nb::arg("weights"))
      .def("_zero_state",
           [](const CellBox& self, const OutputBox& batch) {
             const nb::object graph = self.graph();
             return FromOutputs(graph, Changed(BoxOf(graph), [&](host::Graph& g) {
                                  return train::ZeroState(g, self.cell, batch.output);
                                }));
           })
      .def("_over", &MakeRnn, nb::arg("inputs"), nb::arg("sequence_length").none(), nb::arg("initial_state"),
           nb::arg("time_major"), nb::arg("reverse"), nb::arg("parallel_iterations"), nb::arg("name"));
}

// ---- Losses over many classes ----

struct ClassesBox {
  nb::object model;
  ClassShards shards;
  void VisitKept(const auto& visit) const { visit(model); }
};

nb::list VariablesOf(const ClassesBox& self, const std::vector<const train::Variable*>& variables) {
  nb::list list;
  for (const train::Variable* variable : variables)
    list.append(FromVariable(nb::cast<ModelOfVariables&>(self.model), *variable));
  return list;
}

ClassesBox MakeClasses(nb::object model, const std::string& name, int64_t classes, int64_t width,
                       const train::Initializer& initializer, const std::vector<std::string>& devices,
                       const std::string& partition, bool by_rows) {
  if (partition != "div" && partition != "mod")
    FailInvalid("partition is \"div\" or \"mod\"; found '" + partition + "'");
  const train::ClassShardsOptions options{devices, partition == "div" ? train::Partition::kDiv : train::Partition::kMod,
                                          by_rows};
  auto& variables = nb::cast<ModelOfVariables&>(model);
  return {model, variables.Do([&](train::Model& of) {
            return train::MakeClassShards(of, name, classes, width, initializer, options);
          })};
}

nb::tuple FromCandidates(nb::object graph, const train::Candidates& candidates) {
  return nb::make_tuple(OutputBox{graph, candidates.sampled}, OutputBox{graph, candidates.true_expected},
                        OutputBox{graph, candidates.sampled_expected});
}

OutputBox LossOf(const ClassesBox& self, const std::string& kind, const OutputBox& inputs, const OutputBox& labels,
                 int64_t sampled, nb::object candidates, std::optional<bool> remove_accidental_hits, int64_t seed) {
  train::SampledLossOptions options;
  options.sampled = sampled;
  options.remove_accidental_hits = remove_accidental_hits;
  options.seed = seed;
  if (!candidates.is_none()) {
    const std::vector<host::Output> given = ToOutputs(candidates);
    if (given.size() != 3)
      FailInvalid("candidates are three Outputs: sampled, true_expected, sampled_expected; found " +
                  std::to_string(given.size()));
    options.candidates = train::Candidates{given[0], given[1], given[2]};
  }
  return {inputs.graph, Changed(BoxOf(inputs.graph), [&](host::Graph& graph) {
            if (kind == "sharded") return train::ShardedSoftmaxLoss(graph, self.shards, inputs.output, labels.output);
            if (kind == "nce") return train::NceLoss(graph, self.shards, inputs.output, labels.output, options);
            return train::SampledSoftmaxLoss(graph, self.shards, inputs.output, labels.output, options);
          })};
}

void BindClasses(nb::module_& module) {
  nb::class_<ClassesBox>(module, "ClassShardsBase", nb::type_slots(traversed_slots<ClassesBox>))
      .def("__init__",
           [](ClassesBox* self, nb::object model, const std::string& name, int64_t classes, int64_t width,
              const train::Initializer& initializer, const std::vector<std::string>& devices,
              const std::string& partition, bool by_rows) {
             new (self) ClassesBox(MakeClasses(model, name, classes, width, initializer, devices, partition, by_rows));
           })
      .def_prop_ro("classes", [](const ClassesBox& self) { return self.shards.classes(); })
      .def_prop_ro("width", [](const ClassesBox& self) { return self.shards.width(); })
      .def_prop_ro("_weights", [](const ClassesBox& self) { return VariablesOf(self, self.shards.weights); })
      .def_prop_ro("_biases", [](const ClassesBox& self) { return VariablesOf(self, self.shards.biases); })
      .def("_loss", &LossOf, nb::arg("kind"), nb::arg("inputs"), nb::arg("labels"), nb::arg("sampled"),
           nb::arg("candidates").none(), nb::arg("remove_accidental_hits").none(), nb::arg("seed"));
  module.def("_log_uniform_candidates", [](const OutputBox& labels, int64_t sampled, int64_t classes, int64_t seed) {
    return FromCandidates(labels.graph, Changed(BoxOf(labels.graph), [&](host::Graph& graph) {
      return train::LogUniformCandidates(graph, labels.output, sampled, classes, seed);
    }));
  });
}

}  // namespace

void BindTrainNetworks(nb::module_& module) {
  BindRates(module);
  BindClipping(module);
  BindRecurrent(module);
  BindClasses(module);
}

}  // namespace tenon::python
