// SPDX-License-Identifier: Apache-2.0
// The variables and optimizers of train.h.
#include "sdk/app/model_c/building.h"
#include "tenon/train/optimizer.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

tenon_variable_info tenon::model_c::InfoOf(const train::Variable& variable) {
  tenon_variable_info info = {};
  info.struct_size = sizeof(info);
  info.name = Span(variable.name);
  info.device = Span(variable.device);
  info.shape = variable.shape.c_shape();
  info.handle = variable.handle.c_output();
  info.value = variable.value.c_output();
  info.initial_node = variable.initial.node();
  info.dtype = static_cast<uint32_t>(variable.dtype);
  info.trainable = variable.trainable ? 1 : 0;
  return info;
}

namespace {

Result<Output> EdgeOf(const tenon_variables* variables, tenon_output output, const char* name) {
  return ReadEdge(variables->graph.get(), output, name);
}

const train::Variable* Find(const tenon_variables* variables, std::string_view name) {
  for (const train::Variable& variable : variables->model.variables())
    if (variable.name == name) return &variable;
  return nullptr;
}

Result<train::Initializer> ReadInitializer(const tenon_variable_spec& spec) {
  if (spec.initializer == TENON_INITIAL_CONSTANT) return train::Initializer::Constant(spec.initial);
  if (spec.initializer != TENON_INITIAL_TRUNCATED_NORMAL)
    return Status(Code::kInvalidArgument,
                  "'initializer' is " + std::to_string(spec.initializer) + "; give one of TENON_INITIAL_*");
  if (spec.kind == TENON_VARIABLE_STATE || spec.kind == TENON_VARIABLE_COUNTER)
    return Status(Code::kInvalidArgument, "state and counters begin with a constant; give TENON_INITIAL_CONSTANT");
  return train::Initializer::TruncatedNormal(spec.initial);
}

Result<Shape> ReadShape(const tenon_variable_spec& spec) {
  const bool bad = spec.shape.rank < 0 || (spec.shape.rank > 0 && spec.shape.dims == nullptr);
  const Shape shape = bad ? Shape::Unknown() : Shape::From(spec.shape);
  if (!shape.fully_known())
    return Status(Code::kInvalidArgument,
                  "a variable's shape is known in all its dimensions, found " + shape.ToString());
  if (spec.kind == TENON_VARIABLE_COUNTER && shape.rank() != 0)
    return Status(Code::kInvalidArgument, "a counter is a scalar, found " + shape.ToString());
  if (spec.kind == TENON_VARIABLE_ROWS && shape.rank() == 0)
    return Status(Code::kInvalidArgument, "what is changed by rows has rows, found a scalar");
  return shape;
}

// What there is of the name must be what was asked for.
Status CheckSame(const train::Variable& known, const tenon_variable_spec& spec, const Shape& shape) {
  const bool trained = spec.kind == TENON_VARIABLE_WEIGHT || spec.kind == TENON_VARIABLE_ROWS;
  const DType dtype = spec.kind == TENON_VARIABLE_COUNTER ? DType::kInt64 : DType::kFloat;
  if (known.shape == shape && known.trainable == trained && known.rows == (spec.kind == TENON_VARIABLE_ROWS) &&
      known.dtype == dtype)
    return Status();
  return Status(Code::kInvalidArgument,
                "there is a variable of that name, " + host::DTypeName(known.dtype) + known.shape.ToString() +
                    (known.trainable ? " and trained" : " and not trained") + ", and it is asked for as another, " +
                    host::DTypeName(dtype) + shape.ToString());
}

Status Add(tenon_variables* variables, const tenon_variable_spec& spec, tenon_variable_info* out_info) {
  const std::string_view name = Text(spec.name);
  if (spec.kind > TENON_VARIABLE_ROWS)
    return Status(Code::kInvalidArgument, "'kind' is " + std::to_string(spec.kind) + "; give one of TENON_VARIABLE_*");
  TENON_TRY_ASSIGN(const Shape shape, ReadShape(spec));
  TENON_TRY_ASSIGN(const train::Initializer initializer, ReadInitializer(spec));
  if (const train::Variable* known = Find(variables, name)) {
    TENON_TRY(CheckSame(*known, spec, shape));
    return WriteStruct(InfoOf(*known), out_info);
  }
  train::Model& model = variables->model;
  const train::Variable& made =
      spec.kind == TENON_VARIABLE_WEIGHT  ? model.Weight(name, shape, initializer)
      : spec.kind == TENON_VARIABLE_STATE ? model.State(name, shape, spec.initial, Text(spec.device))
      : spec.kind == TENON_VARIABLE_ROWS  ? model.Rows(name, shape, initializer, Text(spec.device))
                                          : model.Counter(name);
  TENON_TRY(variables->graph.status());
  return WriteStruct(InfoOf(made), out_info);
}

Result<train::Clipping> ReadClipping(const tenon_optimizer_options& options) {
  using Kind = train::Clipping::Kind;
  constexpr Kind kKinds[] = {Kind::kNone, Kind::kValue, Kind::kNorm, Kind::kGlobalNorm};
  if (options.clip >= std::size(kKinds))
    return Status(Code::kInvalidArgument, "'clip' is " + std::to_string(options.clip) + "; give one of TENON_CLIP_*");
  return train::Clipping{kKinds[options.clip], options.clip_limit};
}

Result<train::OptimizerOptions> ReadOptimizer(const tenon_optimizer_options* given) {
  tenon_optimizer_options options;
  TENON_TRY(ReadStruct(given, false, "options", &options));
  constexpr uint32_t kKnown = (TENON_OPTIMIZER_RHO << 1) - 1;
  if ((options.given & ~kKnown) != 0)
    return Status(Code::kInvalidArgument, "'given' has a bit that is none of TENON_OPTIMIZER_*");
  train::OptimizerOptions out;
  if (options.name.size != 0) {
    TENON_TRY_ASSIGN(out.kind, train::OptimizerKindFromName(Text(options.name)));
  }
  const auto take = [&](uint32_t which, float value, float* to) {
    if ((options.given & which) != 0) *to = value;
  };
  take(TENON_OPTIMIZER_MOMENTUM, options.momentum, &out.momentum);
  take(TENON_OPTIMIZER_BETA1, options.beta1, &out.beta1);
  take(TENON_OPTIMIZER_BETA2, options.beta2, &out.beta2);
  take(TENON_OPTIMIZER_EPSILON, options.epsilon, &out.epsilon);
  take(TENON_OPTIMIZER_INITIAL_ACCUMULATOR, options.initial_accumulator, &out.initial_accumulator);
  take(TENON_OPTIMIZER_LOSS_SCALE, options.loss_scale, &out.loss_scaling.scale);
  if ((options.given & TENON_OPTIMIZER_LOSS_SCALE) != 0) out.loss_scaling.kind = train::LossScaling::Kind::kFixed;
  if (options.loss_scale_growth > INT64_MAX)
    return Status(Code::kInvalidArgument, "'loss_scale_growth' is " + std::to_string(options.loss_scale_growth));
  if (options.loss_scale_growth != 0) out.loss_scaling.growth = static_cast<int64_t>(options.loss_scale_growth);
  if (options.dynamic_loss_scale != 0) out.loss_scaling.kind = train::LossScaling::Kind::kDynamic;
  if ((options.given & TENON_OPTIMIZER_RHO) != 0) out.rho = options.rho;
  out.rms_momentum = options.rms_momentum;
  out.centered = options.centered != 0;
  TENON_TRY_ASSIGN(out.clipping, ReadClipping(options));
  if (options.accumulate > INT64_MAX)
    return Status(Code::kInvalidArgument, "'accumulate' is " + std::to_string(options.accumulate));
  if (options.accumulate != 0) out.accumulate = static_cast<int64_t>(options.accumulate);
  out.nesterov = options.nesterov != 0;
  out.fused = options.primitive == 0;
  return out;
}

Status GiveNode(const Operation& operation, int64_t* out_node) {
  *out_node = operation.node();
  return Status();
}

}  // namespace

extern "C" {

tenon_status* tenon_variables_create(tenon_app_graph* graph, const tenon_variables_options* given,
                                     tenon_variables** out_variables) {
  return Guard([&]() -> Status {
    TENON_CHECK(graph, out_variables);
    tenon_variables_options options;
    TENON_TRY(ReadStruct(given, false, "options", &options));
    auto variables = std::make_unique<tenon_variables>(graph, options.seed == 0 ? 1 : options.seed);
    variables->model.set_variable_devices(Copies(options.devices, options.device_count));
    *out_variables = variables.release();
    return Status();
  });
}

void tenon_variables_release(tenon_variables* variables) { delete variables; }

tenon_status* tenon_variables_add(tenon_variables* variables, const tenon_variable_spec* given,
                                  tenon_variable_info* out_info) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(out_info);
    tenon_variable_spec spec;
    TENON_TRY(ReadStruct(given, true, "spec", &spec));
    return Add(variables, spec, out_info).Annotate("variable '" + Copy(spec.name) + "'");
  });
}

uint64_t tenon_variables_count(const tenon_variables* variables) {
  return variables == nullptr ? 0 : variables->model.variables().size();
}

tenon_status* tenon_variables_get(const tenon_variables* variables, uint64_t index, tenon_variable_info* out_info) {
  return Guard([&]() -> Status {
    TENON_CHECK(variables, out_info);
    TENON_TRY(CheckIndex(index, variables->model.variables().size(), "variable"));
    return WriteStruct(InfoOf(variables->model.variables()[index]), out_info);
  });
}

tenon_status* tenon_variables_initializer(tenon_variables* variables, int64_t* out_node) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(out_node);
    return GiveNode(variables->model.InitializeAll(), out_node);
  });
}

tenon_status* tenon_variables_minimize(tenon_variables* variables, tenon_output loss, tenon_output learning_rate,
                                       const tenon_optimizer_options* given, int64_t* out_node) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(out_node);
    TENON_TRY_ASSIGN(const train::OptimizerOptions options, ReadOptimizer(given));
    TENON_TRY_ASSIGN(const Output of, EdgeOf(variables, loss, "loss"));
    TENON_TRY_ASSIGN(const Output rate, EdgeOf(variables, learning_rate, "learning_rate"));
    return GiveNode(train::Minimize(variables->model, of, rate, options), out_node);
  });
}

tenon_status* tenon_variables_gradients(tenon_variables* variables, tenon_output loss, tenon_output* out_gradients,
                                        uint64_t count) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(List(out_gradients, count));
    const size_t wanted = variables->model.trainable().size();
    if (count != wanted)
      return Status(Code::kInvalidArgument, "there are " + std::to_string(wanted) +
                                                " trainable variables, and room for " + std::to_string(count) +
                                                " gradients");
    TENON_TRY_ASSIGN(const Output of, EdgeOf(variables, loss, "loss"));
    const std::vector<Output> gradients = train::DenseGradients(variables->model, of);
    TENON_TRY(variables->graph.status());
    for (size_t i = 0; i < wanted; ++i) out_gradients[i] = gradients[i].c_output();
    return Status();
  });
}

tenon_status* tenon_variables_apply(tenon_variables* variables, const tenon_output* gradients, uint64_t count,
                                    tenon_output learning_rate, const tenon_optimizer_options* given,
                                    int64_t* out_node) {
  return Build(variables, [&]() -> Status {
    TENON_CHECK(out_node);
    TENON_TRY_ASSIGN(const train::OptimizerOptions options, ReadOptimizer(given));
    const size_t wanted = variables->model.trainable().size();
    if (count != wanted)
      return Status(Code::kInvalidArgument, "there are " + std::to_string(wanted) + " trainable variables; " +
                                                std::to_string(count) + " gradients were given");
    TENON_TRY_ASSIGN(const std::vector<Output> edges, ReadGradients(variables->graph.get(), gradients, count));
    TENON_TRY_ASSIGN(const Output rate, EdgeOf(variables, learning_rate, "learning_rate"));
    return GiveNode(train::ApplyGradients(variables->model, edges, rate, options), out_node);
  });
}

}  // extern "C"
