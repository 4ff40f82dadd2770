// SPDX-License-Identifier: Apache-2.0
// Python's models that are trained: the variables of a graph.
#ifndef TENON_PYTHON_TRAIN_MODEL_H_
#define TENON_PYTHON_TRAIN_MODEL_H_

#include <memory>

#include "graph.h"
#include "tenon/train/model.h"

namespace tenon::python {

// The model refers to the graph, which the object keeps.
struct ModelOfVariables {
  nb::object graph;
  std::unique_ptr<train::Model> model;

  void VisitKept(const auto& visit) const { visit(graph); }
  template <typename Change>
  auto Do(const Change& change) {
    return Changed(BoxOf(graph), [&](host::Graph&) { return change(*model); });
  }
  OutputBox Out(const host::Output& output) const { return {graph, output}; }
};

// A variable as a tuple of its parts; tenon/train gives them names.
nb::object FromVariable(const ModelOfVariables& self, const train::Variable& variable);

// None is an Output that is not valid.
std::vector<host::Output> ToGradients(nb::list gradients);

}  // namespace tenon::python

#endif  // TENON_PYTHON_TRAIN_MODEL_H_
