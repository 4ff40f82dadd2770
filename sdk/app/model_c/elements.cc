// SPDX-License-Identifier: Apache-2.0
// The loops over elements of train.h.
#include "tenon/host/element_functions.h"

#include "sdk/app/model_c/building.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

struct Elements {
  host::Function function;
  std::vector<Output> states, xs;
  host::ElementOptions options;
};

Result<Elements> ReadElements(tenon_app_graph* graph, const tenon_elements_spec* given) {
  tenon_elements_spec spec;
  TENON_TRY(ReadStruct(given, true, "spec", &spec));
  tenon_function_info info = {};
  info.struct_size = sizeof(info);
  TENON_TRY(Status::Take(tenon_graph_find_function(graph, spec.function, &info)));
  Elements elements{{Copy(spec.function)}, {}, {}, {}};
  TENON_TRY_ASSIGN(elements.states, ReadEdges(graph, spec.states, spec.state_count, "states"));
  TENON_TRY_ASSIGN(elements.xs, ReadEdges(graph, spec.xs, spec.x_count, "xs"));
  TENON_TRY_ASSIGN(elements.options.invariants, ReadEdges(graph, spec.invariants, spec.invariant_count, "invariants"));
  if (spec.turns != nullptr) {
    TENON_TRY_ASSIGN(elements.options.turns, ReadEdge(graph, *spec.turns, "turns"));
  }
  elements.options.name = Copy(spec.name);
  elements.options.reverse = spec.reverse != 0;
  if (spec.parallel_iterations < 0)
    return Status(Code::kInvalidArgument, "'parallel_iterations' is " + std::to_string(spec.parallel_iterations));
  if (spec.parallel_iterations != 0) elements.options.parallel_iterations = spec.parallel_iterations;
  return elements;
}

// loop: of the graph, the elements; what it gives goes to `out`.
template <typename Loop>
tenon_status* Run(tenon_app_graph* graph, const tenon_elements_spec* spec, tenon_output* out, uint64_t count,
                  Loop loop) {
  return Build(graph, [&](host::Graph& lent) -> Status {
    TENON_TRY_ASSIGN(const Elements elements, ReadElements(graph, spec));
    const std::vector<Output> found = loop(lent, elements);
    TENON_TRY(lent.status());
    return GiveEdges(found, out, count, "out_states");
  });
}

}  // namespace

extern "C" {

tenon_status* tenon_map_elements(tenon_app_graph* graph, const tenon_elements_spec* spec, tenon_output* out_states,
                                 uint64_t state_count, tenon_output* out_results, uint64_t result_count) {
  return Build(graph, [&](host::Graph& lent) -> Status {
    TENON_TRY_ASSIGN(const Elements elements, ReadElements(graph, spec));
    const host::MappedWithState found =
        host::MapWithState(lent, elements.function, elements.states, elements.xs, elements.options);
    TENON_TRY(lent.status());
    TENON_TRY(CheckRoom(found.states, out_states, state_count, "out_states"));
    TENON_TRY(GiveEdges(found.results, out_results, result_count, "out_results"));
    return GiveEdges(found.states, out_states, state_count, "out_states");
  });
}

tenon_status* tenon_fold_elements(tenon_app_graph* graph, const tenon_elements_spec* spec, tenon_output* out_states,
                                  uint64_t count) {
  return Run(graph, spec, out_states, count, [](host::Graph& lent, const Elements& elements) {
    return host::Fold(lent, elements.function, elements.states, elements.xs, elements.options);
  });
}

tenon_status* tenon_scan_elements(tenon_app_graph* graph, const tenon_elements_spec* spec, tenon_output* out_states,
                                  uint64_t count) {
  return Run(graph, spec, out_states, count, [](host::Graph& lent, const Elements& elements) {
    return host::Scan(lent, elements.function, elements.states, elements.xs, elements.options);
  });
}

}  // extern "C"
