// SPDX-License-Identifier: Apache-2.0
#include "loop/loop.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "region/node_formula.h"
#include "tenon/extras/device/regions.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr size_t kStateBytes = 64;         // of a register's worth
constexpr int kFewLanes = 4;               // of single elements: narrow registers will do
constexpr int64_t kTurns = 4096;           // between questions whether the step was given up
constexpr double kNanoseconds = 3000;      // of a loop, of which nobody knows the turns

// By name: that an op shows its input's elements says not that it does nothing besides.
bool PassesOn(std::string_view op) {
  return sdk::IsOneOf(op, {"Identity", "Snapshot", "StopGradient", "PreventGradient"});
}
bool IsTaken(uint32_t dtype) {
  return dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64 ||
         dtype == TENON_DT_BOOL;
}

}  // namespace

class LoopMaker {
 public:
  LoopMaker(const tenon_compile_args& args, const tenon_compile_loop& loop, Level level)
      : args_(args), loop_(loop), made_(std::make_unique<LoopExecutable>()) {
    program_.body.level = level;
  }

  std::unique_ptr<LoopExecutable> Make() {
    if (args_.input_count > kMostInputs || loop_.variable_count > args_.input_count)
      sdk::Fail(TENON_UNIMPLEMENTED, "a loop with ", args_.input_count, " inputs");
    if (args_.node_count > kMostNodes) sdk::Fail(TENON_UNIMPLEMENTED, "a loop of ", args_.node_count, " nodes");
    for (uint64_t n = 0; n < args_.node_count; ++n) CheckKind(args_.nodes[n]);
    FindShape();
    for (uint64_t i = 0; i < args_.input_count; ++i)
      AddInput(args_.inputs[i], i < loop_.variable_count ? loop_.variables[i].current : args_.inputs[i]);
    for (uint64_t n = 0; n < args_.node_count; ++n) {
      if (n == loop_.condition_node_count) program_.condition_nodes = Nodes();
      AddNode(args_.nodes[n]);
    }
    if (loop_.condition_node_count >= args_.node_count) program_.condition_nodes = Nodes();
    program_.condition = ValueOf(loop_.condition);
    if (!is_single_[static_cast<size_t>(program_.condition)])
      sdk::Fail(TENON_UNIMPLEMENTED, "a condition of many elements");
    for (uint64_t v = 0; v < loop_.variable_count; ++v) program_.next.push_back(NextOf(v));
    for (uint64_t k = 0; k < args_.output_count; ++k) made_->results_.push_back(VariableOf(args_.outputs[k]));
    if (program_.body.nodes.size() > kMostNodes)
      sdk::Fail(TENON_UNIMPLEMENTED, "a loop of ", program_.body.nodes.size(), " nodes");
    if (std::all_of(is_single_.begin(), is_single_.end(), [](bool single) { return single; }))
      program_.body.lanes = kFewLanes;
    made_->lanes_ = program_.body.Lanes();
    made_->code_ = CodeOfLoop(program_);
    if (made_->code_ == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "no code can be had");
    return std::move(made_);
  }

 private:
  using Key = std::pair<int64_t, int32_t>;
  static Key KeyOf(const tenon_output& output) { return {output.node, output.index}; }
  int Nodes() const { return static_cast<int>(program_.body.nodes.size()); }
  const tenon_tensor_view& ViewOf(const tenon_output& output) const {
    const tenon_tensor_view* view = nullptr;
    sdk::Check(args_.edge(args_.context, output, &view));
    return *view;
  }
  std::vector<int64_t> ShapeOf(const tenon_output& output) const {
    const sdk::Dims dims = sdk::DimsOf(ViewOf(output));
    return {dims.begin(), dims.end()};
  }
  int ValueOf(const tenon_output& output) const {
    const auto found = values_.find(KeyOf(output));
    if (found == values_.end())
      sdk::Fail(TENON_UNIMPLEMENTED, "what a loop reads is neither made in it nor comes from outside");
    return found->second;
  }

  // What a node without a value does, it does to something outside: that is no work for generated code.
  void CheckKind(int64_t id) const {
    const tenon_graph_cursor& cursor = *args_.cursor;
    const tenon_node* node = cursor.node(cursor.graph, id);
    if (cursor.node_services->output_count(node) == 1) return;
    sdk::NodeContext context(cursor.node_services, node);
    sdk::Fail(TENON_UNIMPLEMENTED, context.op(), " is not generated: it has ", cursor.node_services->output_count(node),
              " outputs");
  }

  // That of the first value with more elements than one.
  void FindShape() {
    const auto look = [this](const tenon_output& output) {
      if (has_shape_) return;
      shape_ = ShapeOf(output);
      has_shape_ = sdk::Count(shape_) != 1;
    };
    for (uint64_t i = 0; i < args_.input_count; ++i) look(args_.inputs[i]);
    for (uint64_t n = 0; n < args_.node_count; ++n) look({args_.nodes[n], 0, 0});
    if (has_shape_) made_->total_ = sdk::Count(shape_);
  }
  bool IsSingle(const tenon_output& output) const {
    const std::vector<int64_t> shape = ShapeOf(output);
    if (sdk::Count(shape) == 1) return true;
    if (shape != shape_)
      sdk::Fail(TENON_UNIMPLEMENTED, "a loop over shapes ", sdk::Dims(shape_), " and ", sdk::Dims(shape));
    return false;
  }

  void AddInput(const tenon_output& input, const tenon_output& read_as) {
    const uint32_t dtype = ViewOf(input).dtype;
    if (!IsTaken(dtype)) sdk::Fail(TENON_UNIMPLEMENTED, "a loop over ", sdk::TypeName(dtype));
    values_.emplace(KeyOf(read_as), static_cast<int>(program_.body.inputs.size()));
    program_.body.inputs.push_back({dtype, true});
    is_single_.push_back(IsSingle(input));
    made_->inputs_.push_back({dtype, is_single_.back()});
  }

  int Add(Node node, bool is_single) {
    program_.body.nodes.push_back(std::move(node));
    is_single_.push_back(is_single);
    return static_cast<int>(is_single_.size()) - 1;
  }

  void AddNode(int64_t id) {
    const tenon_graph_cursor& cursor = *args_.cursor;
    const tenon_node* const node = cursor.node(cursor.graph, id);
    const NodeFormula formula(*cursor.node_services, node, program_.body.level);
    const std::vector<int64_t> shape = ShapeOf({id, 0, 0});
    std::vector<int> values;  // as the formula numbers them
    for (int32_t i = 0, count = cursor.node_services->input_count(node); i < count; ++i) {
      tenon_output source = {-1, 0, 0};
      sdk::Check(loop_.source(args_.context, id, i, &source));
      values.push_back(ValueOf(source));
      if (formula.is_said() && !formula.Fits(static_cast<size_t>(i), ShapeOf(source), shape))
        sdk::Fail(TENON_UNIMPLEMENTED, "shapes of ", OpOf(node), " that its kernel looks at");
    }
    if (PassesOn(OpOf(node)) && values.size() == 1) {
      values_.emplace(Key(id, 0), values[0]);
      return;
    }
    if (!formula.is_said() || !formula.is_generated() || formula.is_bias())
      sdk::Fail(TENON_UNIMPLEMENTED, OpOf(node), " is not generated");
    const bool is_single = IsSingle({id, 0, 0});
    for (Node each : formula.nodes()) {
      if (!IsTaken(each.dtype)) sdk::Fail(TENON_UNIMPLEMENTED, OpOf(node), " is not generated");
      for (int& operand : each.operands) operand = values[static_cast<size_t>(operand)];
      values.push_back(Add(std::move(each), is_single));
    }
    values_.emplace(Key(id, 0), values.back());
  }
  std::string_view OpOf(const tenon_node* node) const { return sdk::ToText(args_.cursor->node_services->op(node)); }

  // What is carried becomes what a node made: where it becomes another input, that is copied first, as it may change at
  // the same time.
  int NextOf(uint64_t variable) {
    const int next = ValueOf(loop_.variables[variable].next);
    if (next >= static_cast<int>(program_.body.inputs.size()) || next == static_cast<int>(variable)) return next;
    return Add({Function::kCast, program_.body.DtypeOf(next), {next}, 0}, is_single_[static_cast<size_t>(next)]);
  }
  int32_t VariableOf(const tenon_output& result) const {
    for (uint64_t v = 0; v < loop_.variable_count; ++v)
      if (KeyOf(loop_.variables[v].result) == KeyOf(result)) return static_cast<int32_t>(v);
    sdk::Fail(TENON_UNIMPLEMENTED, "a result that no variable of the loop has");
  }

  const tenon_compile_args& args_;
  const tenon_compile_loop& loop_;
  std::unique_ptr<LoopExecutable> made_;
  Loop program_;
  std::map<Key, int> values_;
  std::vector<bool> is_single_;  // of values
  std::vector<int64_t> shape_;
  bool has_shape_ = false;
};

std::unique_ptr<LoopExecutable> LoopExecutable::Make(const tenon_compile_args& args, const tenon_compile_loop& loop,
                                                     Level level) {
  return LoopMaker(args, loop, level).Make();
}

void LoopExecutable::Run(tenon_frame& frame) const {
  // What is single is computed whether or not there is anything else.
  const int64_t parts = std::max<int64_t>(1, (total_ + lanes_ - 1) / lanes_);
  sdk::RunContext(&frame).ParallelFor(parts, kNanoseconds, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      RunElements(frame, part * lanes_, std::min(lanes_, total_ - part * lanes_));
  });
}

void LoopExecutable::RunElements(tenon_frame& frame, int64_t begin, int64_t count) const {
  alignas(kStateBytes) uint8_t states[kMostInputs * kStateBytes];
  Call call;
  call.rows = 1;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    call.inputs[i] = states + i * kStateBytes;
    Load(inputs_[i], sdk::Data<const void>(*frame.inputs[i]), begin, count, states + i * kStateBytes);
  }
  for (call.count = kTurns;; call.count = kTurns) {
    code_->Run(call);
    if (call.count > 0) break;
    sdk::RunContext(&frame).CheckCancelled();
  }
  for (size_t k = 0; k < results_.size(); ++k) {
    const auto input = static_cast<size_t>(results_[k]);
    const Value& value = inputs_[input];
    if (value.is_single && begin > 0) continue;
    const auto size = static_cast<int64_t>(sdk::ElementSize(value.dtype));
    Store(value, states + input * kStateBytes, value.is_single ? 1 : count,
          sdk::Data<char>(*frame.outputs[k]) + (value.is_single ? 0 : begin * size));
  }
}

// Lanes behind the last element are like the first: whatever becomes of them, nobody sees it.
void LoopExecutable::Load(const Value& value, const void* from, int64_t begin, int64_t count, uint8_t* state) const {
  const auto fill = [&]<class Kept, class Element>(Kept, Element) {
    auto* const to = reinterpret_cast<Kept*>(state);
    const auto* const elements = static_cast<const Element*>(from);
    const int64_t own = value.is_single ? 1 : count;
    for (int64_t lane = 0; lane < lanes_; ++lane) {
      const Element element = own == 0          ? Element()
                              : value.is_single ? elements[0]
                                                : elements[begin + (lane < own ? lane : 0)];
      to[lane] = std::is_same_v<Kept, Element> ? static_cast<Kept>(element) : static_cast<Kept>(element != 0 ? -1 : 0);
    }
  };
  std::memset(state, 0, kStateBytes);
  switch (value.dtype) {
    case TENON_DT_BOOL: return fill(int32_t{}, uint8_t{});
    case TENON_DT_DOUBLE: case TENON_DT_INT64: return fill(uint64_t{}, uint64_t{});
    default: return fill(uint32_t{}, uint32_t{});
  }
}

void LoopExecutable::Store(const Value& value, const uint8_t* state, int64_t count, void* to) {
  if (value.dtype != TENON_DT_BOOL) {
    std::memcpy(to, state, static_cast<size_t>(count) * sdk::ElementSize(value.dtype));
    return;
  }
  for (int64_t lane = 0; lane < count; ++lane)
    static_cast<uint8_t*>(to)[lane] = reinterpret_cast<const int32_t*>(state)[lane] != 0 ? 1 : 0;
}

}  // namespace tenon::cpu_codegen
