// SPDX-License-Identifier: Apache-2.0
// Updates of variables as code, without an engine: the bits of the optimizers' formulas
// (tenon/extras/kernel/optimizer.h), old and new values in one memory and in two, at the end of pages.
#include "region/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>

#include "code/code.h"
#include "run/chain_stages.h"
#include "tenon/sdk/kernel/half.h"
#include "testing/generator_testing.h"

// The formulas fuse products as kernels do that are built for processors with FMA; std::fma is right on any.
#ifndef __FMA__
#define __FMA__ 1
#endif
#include "tenon/extras/kernel/optimizer.h"

namespace tenon::cpu_codegen::update_test {
namespace {

using sdk::Bfloat16;
using sdk::Half;

// ---- A node and a frame ----

struct Node {
  const UpdateOp* op;
  uint32_t dtype;
  uint8_t nesterov, yes = 1, no = 0;
};
const Node& Of(const tenon_node* node) { return *reinterpret_cast<const Node*>(node); }

tenon_status* Attr(const tenon_node* node, tenon_span name, tenon_attr_value* value) {
  const std::string_view text = sdk::ToText(name);
  value->kind = TENON_ATTR_BOOL;
  value->count = 1;
  value->data = text == "use_nesterov" ? &Of(node).nesterov : text == "use_locking" ? &Of(node).no : &Of(node).yes;
  return nullptr;
}
tenon_node_services NodeServices() {
  tenon_node_services services{};
  services.name = [](const tenon_node*) -> tenon_span { return TENON_SPAN("update"); };
  services.attr = &Attr;
  services.input_count = [](const tenon_node* node) {
    return static_cast<int32_t>(Of(node).op->variables + Of(node).op->scalars.size()) + 1;
  };
  services.input_dtype = [](const tenon_node* node, int32_t index) {
    return index < static_cast<int32_t>(Of(node).op->variables) ? static_cast<uint32_t>(TENON_DT_RESOURCE)
                                                                : Of(node).dtype;
  };
  return services;
}

struct Variable {
  char* old;
  char* fresh;
  uint32_t outcome = 99;
};
struct Frame {
  tenon_frame frame{};
  std::vector<tenon_tensor_view> views;
  std::vector<const tenon_tensor_view*> inputs;
  std::vector<Variable> variables;
};
Frame& Of(tenon_frame* frame) { return *reinterpret_cast<Frame*>(frame); }
Variable& Of(tenon_resource* resource) { return *reinterpret_cast<Variable*>(resource); }

tenon_frame_services FrameServices() {
  tenon_frame_services services{};
  services.struct_size = sizeof services;
  services.input_resource = [](tenon_frame* frame, int32_t index, tenon_resource** out) -> tenon_status* {
    *out = reinterpret_cast<tenon_resource*>(&Of(frame).variables[static_cast<size_t>(index)]);
    return nullptr;
  };
  services.variable_begin_update = [](tenon_frame*, tenon_resource* handle, uint32_t, uint32_t, tenon_shape, uint64_t,
                                      tenon_tensor_view* old, tenon_tensor_view* fresh) -> tenon_status* {
    old->dl.data = Of(handle).old;
    fresh->dl.data = Of(handle).fresh;
    return nullptr;
  };
  services.variable_end_update = [](tenon_frame*, tenon_resource* handle, uint32_t outcome) {
    Of(handle).outcome = outcome;
  };
  return services;
}

// ---- Formulas ----

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class Step, class T>
void Apply(const Step& step, size_t count, const T* g, std::vector<std::vector<T>>* v) {
  for (size_t i = 0; i < count; ++i) {
    Wide<T> values[4] = {};
    for (size_t k = 0; k < v->size(); ++k) values[k] = static_cast<Wide<T>>((*v)[k][i]);
    step(values, static_cast<Wide<T>>(g[i]));
    for (size_t k = 0; k < v->size(); ++k) (*v)[k][i] = static_cast<T>(values[k]);
  }
}
// The class says what its attributes are by what a node has, which there is none of here.
template <class O>
O With(bool nesterov) {
  alignas(O) unsigned char bytes[sizeof(O)] = {};
  if constexpr (requires(O o) { o.nesterov; }) bytes[0] = nesterov ? 1 : 0;
  if constexpr (requires(O o) { o.update_slots; }) bytes[0] = 1;
  return std::bit_cast<O>(bytes);
}
template <class T>
void ApplyAny(Optimizer optimizer, bool nesterov, const Wide<T>* s, size_t count, const T* g,
              std::vector<std::vector<T>>* v) {
  const auto by = [&]<class O>(O o) { Apply(typename O::template Step<Wide<T>>(o, s), count, g, v); };
  switch (optimizer) {
    case Optimizer::kGradientDescent: return by(With<sdk::GradientDescent>(nesterov));
    case Optimizer::kMomentum: return by(With<sdk::Momentum>(nesterov));
    case Optimizer::kKerasMomentum: return by(With<sdk::KerasMomentum>(nesterov));
    case Optimizer::kAdagrad: return by(With<sdk::Adagrad>(nesterov));
    case Optimizer::kAdagradV2: return by(With<sdk::AdagradV2>(nesterov));
    case Optimizer::kRmsProp: return by(With<sdk::RmsProp>(nesterov));
    case Optimizer::kAdam: return by(With<sdk::Adam>(nesterov));
    case Optimizer::kAdd: case Optimizer::kSubtract: break;
  }
  for (size_t i = 0; i < count; ++i) {
    const auto x = static_cast<Wide<T>>((*v)[0][i]), y = static_cast<Wide<T>>(g[i]);
    (*v)[0][i] = static_cast<T>(optimizer == Optimizer::kAdd ? x + y : x - y);
  }
}

// ---- The code ----

Program ProgramOf(const RegionUpdate& update, Level level) {
  Program program{level, false, {}, {}, {}};
  const size_t scalars = update.scalar_count(), variables = update.op().variables;
  program.inputs.push_back({update.dtype(), false});
  std::vector<int> s, v;
  for (size_t i = 0; i < scalars; ++i)
    s.push_back(static_cast<int>(program.inputs.size())), program.inputs.push_back({update.wide(), true});
  for (size_t k = 0; k < variables; ++k)
    v.push_back(static_cast<int>(program.inputs.size())), program.inputs.push_back({update.dtype(), false});
  const auto add = [&](Function function, uint32_t dtype, std::vector<int> operands) {
    program.nodes.push_back({function, dtype, std::move(operands)});
    return static_cast<int>(program.inputs.size() + program.nodes.size()) - 1;
  };
  const auto cast = [&](int value, uint32_t to) {
    return program.DtypeOf(value) == to ? value : add(Function::kCast, to, {value});
  };
  const int g = cast(0, update.wide());
  for (int& each : v) each = cast(each, update.wide());
  program.outputs = update.NewValues(g, s.data(), v.data(), [&](Function function, std::vector<int> operands) {
    return add(function, update.wide(), std::move(operands));
  });
  for (int& each : program.outputs) each = cast(each, update.dtype());
  return program;
}

template <class T>
void Try(const char* name, uint32_t dtype, bool nesterov, Level level, bool in_place, size_t count) {
  const UpdateOp& op = *UpdateOpOf(name);
  const Node node{&op, dtype, nesterov ? uint8_t{1} : uint8_t{0}};
  const auto* handle = reinterpret_cast<const tenon_node*>(&node);
  const tenon_node_services node_services = NodeServices();
  ASSERT_TRUE(IsGeneratedUpdate(op, node_services, handle, level));
  RegionUpdate update(op, node_services, handle);
  std::mt19937 random(static_cast<unsigned>(count) + 7);
  const auto number = [&](bool is_slot) {
    const float special[] = {0.f, -0.f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                             1e-39f};
    const float x =
        random() % 30 == 0 ? special[random() % std::size(special)] : static_cast<float>(random() % 4001) / 1000 - 2;
    return static_cast<T>(is_slot ? std::fabs(x) : x);
  };
  std::vector<T> g;
  for (size_t i = 0; i < count; ++i) g.push_back(number(false));
  std::vector<std::vector<T>> right(op.variables);
  const Guarded old[3], fresh[3];
  const tenon_frame_services services = FrameServices();
  Frame frame;
  frame.frame.services = &services;
  for (size_t k = 0; k < op.variables; ++k) {
    for (size_t i = 0; i < count; ++i) right[k].push_back(number(k > 0));
    char* const from = old[k].end() - count * sizeof(T);
    std::memcpy(from, right[k].data(), count * sizeof(T));
    frame.variables.push_back({from, in_place ? from : fresh[k].end() - count * sizeof(T)});
    update.handles.push_back(static_cast<int32_t>(k));
  }
  const float given[] = {0.81f, 0.97f, 0.037f, 0.9f, 0.99f, 1e-3f};
  std::vector<T> scalars;
  std::vector<Wide<T>> wide;
  for (size_t i = 0; i < op.scalars.size(); ++i) {
    scalars.push_back(static_cast<T>(given[i]));
    wide.push_back(static_cast<Wide<T>>(scalars.back()));
    update.scalars.push_back(static_cast<int32_t>(i));
  }
  frame.views.resize(scalars.size());
  for (size_t i = 0; i < scalars.size(); ++i) {
    frame.views[i].dl.data = &scalars[i];
    frame.inputs.push_back(&frame.views[i]);
  }
  frame.frame.inputs = frame.inputs.data();
  wide.resize(kMostScalars);
  ApplyAny<T>(op.optimizer, nesterov, wide.data(), count, g.data(), &right);
  const Program program = ProgramOf(update, level);
  for (size_t k = 0; k < op.variables; ++k)
    EXPECT_TRUE(Stages::MayLieInPlace(program, static_cast<int32_t>(program.inputs.size() - op.variables + k),
                                      static_cast<int32_t>(k)))
        << name;
  const auto code = CodeOf(program);
  ASSERT_NE(code, nullptr);
  const int64_t dims[] = {static_cast<int64_t>(count)};
  update.Run(sdk::RunContext(&frame.frame), dims, 0, [&](const RegionUpdate::Places& places) {
    Call call;
    call.inputs[0] = g.data();
    for (size_t i = 0; i < update.scalar_count(); ++i) call.inputs[1 + i] = places.scalars[i];
    for (size_t k = 0; k < op.variables; ++k) {
      call.inputs[1 + update.scalar_count() + k] = places.olds[k];
      call.outputs[k] = places.news[k];
    }
    call.count = static_cast<int64_t>(count);
    code->Run(call);
  });
  for (size_t k = 0; k < op.variables; ++k) {
    EXPECT_EQ(frame.variables[k].outcome, TENON_UPDATE_COMMIT);
    const T* const got = reinterpret_cast<const T*>(frame.variables[k].fresh);
    for (size_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(static_cast<Wide<T>>(got[i])),
                 y = static_cast<double>(static_cast<Wide<T>>(right[k][i]));
      ASSERT_TRUE(std::memcmp(&got[i], &right[k][i], sizeof(T)) == 0 || (std::isnan(x) && std::isnan(y)))
          << name << (nesterov ? " nesterov" : "") << " of type " << dtype << ", level " << static_cast<int>(level)
          << ", variable " << k << ", element " << i << ": " << x << ", not " << y;
    }
  }
}

TEST(Update, HasTheBitsOfTheFormulas) {
  for (const char* name : {"AssignAddVariableOp", "AssignSubVariableOp", "ResourceApplyGradientDescent",
                           "ResourceApplyMomentum", "ResourceApplyKerasMomentum", "ResourceApplyAdagrad",
                           "ResourceApplyAdagradV2", "ResourceApplyRMSProp", "ResourceApplyAdam"})
    for (const Level level : Levels())
      for (const bool nesterov : {false, true})
        for (const bool in_place : {false, true})
          for (const size_t count : {1, 3, 8, 16, 31, 64, 500}) {
            Try<float>(name, TENON_DT_FLOAT, nesterov, level, in_place, count);
            Try<double>(name, TENON_DT_DOUBLE, nesterov, level, in_place, count);
            Try<Half>(name, TENON_DT_HALF, nesterov, level, in_place, count);
            Try<Bfloat16>(name, TENON_DT_BFLOAT16, nesterov, level, in_place, count);
            if (HasFatalFailure()) return;
          }
}

}  // namespace
}  // namespace tenon::cpu_codegen::update_test
