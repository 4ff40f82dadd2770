// SPDX-License-Identifier: Apache-2.0
// The recurrent networks of train.h.
#include "tenon/train/recurrent.h"

#include "sdk/app/model_c/building.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

Result<train::RnnCell> ReadFunctionCell(tenon_variables* variables, const tenon_rnn_cell_spec& spec) {
  TENON_TRY_ASSIGN(std::vector<Output> weights,
                   ReadEdges(variables->graph.get(), spec.weights, spec.weight_count, "weights"));
  return train::FunctionCell(variables->graph, Text(spec.name), {Copy(spec.function)}, spec.inputs,
                             {spec.state_sizes, spec.state_sizes + spec.state_count}, std::move(weights));
}

Result<train::RnnCell> ReadCell(tenon_variables* variables, const tenon_rnn_cell_spec& spec) {
  if (spec.name.size == 0) return Status(Code::kInvalidArgument, "'name' is empty");
  train::RnnCellOptions options;
  if (spec.deviation != 0) options.initializer = train::Initializer::TruncatedNormal(spec.deviation);
  options.forget_bias = spec.forget_bias;
  options.reset_after = spec.reset_before == 0;
  const std::string_view name = Text(spec.name);
  switch (spec.kind) {
    case TENON_CELL_BASIC: return train::BasicRnnCell(variables->model, name, spec.inputs, spec.units, options);
    case TENON_CELL_LSTM: return train::LstmCell(variables->model, name, spec.inputs, spec.units, options);
    case TENON_CELL_GRU: return train::GruCell(variables->model, name, spec.inputs, spec.units, options);
    case TENON_CELL_FUNCTION: return ReadFunctionCell(variables, spec);
    default:
      return Status(Code::kInvalidArgument, "'kind' is " + std::to_string(spec.kind) + "; give one of TENON_CELL_*");
  }
}

Status CheckStates(const tenon_rnn_cell* cell, uint64_t count) {
  const size_t wanted = cell->cell.state_sizes.size();
  if (count == wanted) return Status();
  return Status(Code::kInvalidArgument,
                "the cell has " + std::to_string(wanted) + " states; " + std::to_string(count) + " are said");
}

Result<train::RnnOptions> ReadRnnOptions(tenon_app_graph* graph, const tenon_rnn_options* given) {
  tenon_rnn_options options;
  TENON_TRY(ReadStruct(given, false, "options", &options));
  train::RnnOptions out;
  if (options.name.size != 0) out.name = Copy(options.name);
  if (options.sequence_length != nullptr) {
    TENON_TRY_ASSIGN(out.sequence_length, ReadEdge(graph, *options.sequence_length, "sequence_length"));
  }
  TENON_TRY_ASSIGN(out.initial_state, ReadEdges(graph, options.initial_states, options.state_count, "initial_states"));
  if (options.parallel_iterations < 0)
    return Status(Code::kInvalidArgument, "'parallel_iterations' is " + std::to_string(options.parallel_iterations));
  if (options.parallel_iterations != 0) out.parallel_iterations = options.parallel_iterations;
  out.time_major = options.time_major != 0;
  out.reverse = options.reverse != 0;
  return out;
}

}  // namespace

extern "C" {

tenon_status* tenon_rnn_cell_create(tenon_variables* variables, const tenon_rnn_cell_spec* given,
                                    tenon_rnn_cell** out_cell) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(out_cell);
    tenon_rnn_cell_spec spec;
    TENON_TRY(ReadStruct(given, true, "spec", &spec));
    TENON_TRY_ASSIGN(train::RnnCell read, ReadCell(variables, spec));
    TENON_TRY(variables->graph.status());
    auto cell = std::make_unique<tenon_rnn_cell>(tenon_rnn_cell{variables->graph.get(), std::move(read), {}});
    for (const Output& weight : cell->cell.weights) cell->weights.push_back(weight.c_output());
    *out_cell = cell.release();
    return Status();
  });
}

void tenon_rnn_cell_release(tenon_rnn_cell* cell) { delete cell; }

tenon_status* tenon_rnn_cell_get_info(const tenon_rnn_cell* cell, tenon_rnn_cell_info* out_info) {
  return Guard([&]() -> Status {
    TENON_CHECK(cell, out_info);
    tenon_rnn_cell_info info = {};
    info.struct_size = sizeof(info);
    info.name = Span(cell->cell.name);
    info.inputs = cell->cell.inputs;
    info.state_sizes = cell->cell.state_sizes.data();
    info.state_count = cell->cell.state_sizes.size();
    info.weights = cell->weights.data();
    info.weight_count = cell->weights.size();
    return WriteStruct(info, out_info);
  });
}

tenon_status* tenon_rnn_cell_zero_state(const tenon_rnn_cell* cell, tenon_output batch, tenon_output* out_states,
                                        uint64_t count) {
  if (cell == nullptr) return Guard([] { return IsNull("cell"); });
  return Build(cell->graph, [&](host::Graph& lent) -> Status {
    TENON_TRY(CheckStates(cell, count));
    TENON_TRY_ASSIGN(const Output of, ReadEdge(cell->graph, batch, "batch"));
    const std::vector<Output> states = train::ZeroState(lent, cell->cell, of);
    TENON_TRY(lent.status());
    return GiveEdges(states, out_states, count, "out_states");
  });
}

tenon_status* tenon_rnn_cell_step(const tenon_rnn_cell* cell, tenon_app_graph* graph, tenon_output x,
                                  const tenon_output* states, uint64_t count, const tenon_output* weights,
                                  uint64_t weight_count, tenon_output* out_output, tenon_output* out_states) {
  return Build(graph, [&](host::Graph& lent) -> Status {
    TENON_CHECK(cell, List(weights, weight_count), out_output);
    TENON_TRY(CheckStates(cell, count));
    std::vector<Output> own = cell->cell.weights;
    if (weights != nullptr) {
      if (weight_count != own.size())
        return Status(Code::kInvalidArgument, "the cell has " + std::to_string(own.size()) + " weights; " +
                                                  std::to_string(weight_count) + " were given");
      TENON_TRY_ASSIGN(own, ReadEdges(graph, weights, weight_count, "weights"));
    } else if (graph != cell->graph) {
      return Status(
          Code::kInvalidArgument,
          "'weights' is NULL and 'graph' is not that of the cell's variables; give the weights as values of it");
    }
    TENON_TRY_ASSIGN(const Output input, ReadEdge(graph, x, "x"));
    TENON_TRY_ASSIGN(const std::vector<Output> state, ReadEdges(graph, states, count, "states"));
    const train::RnnStep step = cell->cell.step(lent, input, state, own);
    TENON_TRY(lent.status());
    TENON_TRY(GiveEdges(step.state, out_states, count, "out_states"));
    *out_output = step.output.c_output();
    return Status();
  });
}

tenon_status* tenon_dynamic_rnn(const tenon_rnn_cell* cell, tenon_output inputs, const tenon_rnn_options* given,
                                tenon_output* out_outputs, tenon_output* out_states, uint64_t count) {
  if (cell == nullptr) return Guard([] { return IsNull("cell"); });
  return Build(cell->graph, [&](host::Graph& lent) -> Status {
    TENON_CHECK(out_outputs);
    TENON_TRY(CheckStates(cell, count));
    TENON_TRY_ASSIGN(const train::RnnOptions options, ReadRnnOptions(cell->graph, given));
    TENON_TRY_ASSIGN(const Output of, ReadEdge(cell->graph, inputs, "inputs"));
    const train::Rnn rnn = train::DynamicRnn(lent, cell->cell, of, options);
    TENON_TRY(lent.status());
    TENON_TRY(GiveEdges(rnn.state, out_states, count, "out_states"));
    *out_outputs = rnn.outputs.c_output();
    return Status();
  });
}

}  // extern "C"
