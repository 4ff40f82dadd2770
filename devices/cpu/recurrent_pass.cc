// SPDX-License-Identifier: Apache-2.0
// What is looked for, by ops that steer (Enter, Merge, Switch, NextIteration, Exit), identities left out:
//
//   t = 0, h, c = initial ones, list = TensorListReserve(shape, length)
//   while (t < length [and n < length, n counting too])
//     gates = BiasAdd(MatMul(TensorListGetItem(TensorListFromTensor(x), t), kernel) + MatMul(h, recurrent_kernel), bias)
//     i, f, g, o = Split(gates, 4, axis 1)
//     c = Sigmoid(f) c + Sigmoid(i) Tanh(g);  h = Sigmoid(o) Tanh(c)
//     list = TensorListSetItem(list, t or 0, h);  t = t + 1
//
// with operands of sums and products in any order, weights that come from outside or are variables read in each turn, and whatever is carried unchanged.
// Every value that leaves the loop must be one of those above, or a counter's last: then nothing of the loop runs any more. Anything else, and a loop whose
// gradient keeps what its turns made, stays as it is.
#include "recurrent_pass.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "tenon/sdk/device/regions.h"
#include "tenon/sdk/op/graph_pass.h"

namespace tenon::cpu {
namespace {

using sdk::NodeContext;
using sdk::Output;
using sdk::PassContext;

constexpr int kMostSteps = 64;       // along nodes that pass a value on
constexpr size_t kMostNodes = 4096;  // that somebody in a loop waits for

class Pass {
 public:
  explicit Pass(PassContext& p) : p_(p) {}

  void Run() {
    std::map<int64_t, std::vector<int64_t>> exits;  // by the condition of their loop
    for (const int64_t id : p_.nodes()) {
      if (At(id).op == "TensorListStack") stacks_[Plain(At(id).inputs[0]).node].push_back(id);
      if (At(id).op != "Exit") continue;
      const Node& from = At(At(id).inputs[0].node);
      if (from.op == "Switch") exits[from.inputs[1].node].push_back(id);
    }
    for (const auto& [condition, all] : exits)
      if (p_.ok()) Try(condition, all);
  }

 private:
  struct Node {
    std::string op, device;
    std::vector<Output> inputs;
    std::vector<int64_t> controls;
    bool is_float = false;
  };
  struct Variable {
    int64_t enter = -1;
    Output initial, next;
  };
  // What an edge's value comes from, for who stands in the loop.
  struct Source {
    enum class Kind { kOutside, kVariable, kInside } kind = Kind::kInside;
    Output edge;         // outside: from outside; inside: of the node that makes it
    int64_t merge = -1;  // of a variable
    int64_t enter = -1;  // by which it came in
  };
  struct Loop {
    int64_t condition = -1;
    int64_t t = -1, h = -1, c = -1;  // merges
    Output new_h, new_c;             // as cells make them
    Output x, kernel, recurrent, bias;
    std::optional<int64_t> length;   // how many turns there are
    Output limit{-1, 0, 0};          // that number, outside; -1: it stands in the loop alone
    std::vector<int64_t> counters;   // merges of what counts up to it
    std::string device;
  };

  const Node& At(int64_t id) {
    const auto [found, is_new] = nodes_.try_emplace(id);
    Node& node = found->second;
    if (!is_new || id < 0) return node;
    p_.With(id, [&](NodeContext& c) {
      node.op = c.op();
      node.inputs.resize(static_cast<size_t>(c.input_count()), Output{-1, 0, 0});
      node.is_float = c.output_count() > 0 && c.output_type(0) == TENON_DT_FLOAT;
    });
    node.device = p_.DeviceOf(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) node.inputs[i] = p_.input(id, static_cast<int>(i));
    for (int i = 0, count = p_.control_input_count(id); i < count; ++i) node.controls.push_back(p_.control_input(id, i));
    return node;
  }
  template <class Value>
  Value Attr(int64_t id, Value (NodeContext::*get)(std::string_view), std::string_view name) {
    Value value{};
    p_.With(id, [&](NodeContext& c) { value = (c.*get)(name); });
    return value;
  }

  // ---- Where values come from ----

  std::optional<Variable> VariableOf(int64_t merge) {
    const Node node = At(merge);
    if (node.op != "Merge" || node.inputs.size() != 2) return std::nullopt;
    Variable variable;
    for (const Output& input : node.inputs) {
      const Node& source = At(input.node);
      if (source.op == "Enter") variable.enter = input.node, variable.initial = source.inputs[0];
      if (source.op == "NextIteration") variable.next = source.inputs[0], passed_.insert(input.node);
    }
    if (variable.enter < 0 || variable.next.node < 0) return std::nullopt;
    passed_.insert(merge);
    enters_.insert(variable.enter);
    return variable;
  }
  // Past identities.
  Output Plain(Output edge) {
    for (int step = 0; step < kMostSteps && At(edge.node).op == "Identity"; ++step) {
      passed_.insert(edge.node);
      edge = At(edge.node).inputs[0];
    }
    return edge;
  }
  Source SourceOf(const Loop& loop, Output edge) {
    for (int step = 0; step < kMostSteps; ++step) {
      const Node& node = At(edge.node);
      if (node.op != "Enter") passed_.insert(edge.node);
      if (node.op == "Identity" || (node.op == "Switch" && edge.index == 1 && node.inputs[1].node == loop.condition)) {
        edge = node.inputs[0];
      } else if (node.op == "Enter") {
        enters_.insert(edge.node);
        return {Source::Kind::kOutside, Plain(node.inputs[0]), -1, edge.node};
      } else if (node.op == "Merge" && edge.index == 0) {
        const std::optional<Variable> variable = VariableOf(edge.node);
        if (!variable.has_value()) return {Source::Kind::kInside, edge, -1, -1};
        if (IsUnchanged(loop, edge.node, *variable)) return {Source::Kind::kOutside, Plain(variable->initial), -1, variable->enter};
        return {Source::Kind::kVariable, {-1, 0, 0}, edge.node, variable->enter};
      } else {
        break;
      }
    }
    return {Source::Kind::kInside, edge, -1, -1};
  }
  bool IsUnchanged(const Loop& loop, int64_t merge, const Variable& variable) {
    Output edge = Plain(variable.next);
    const Node& node = At(edge.node);
    if (node.op == "Switch" && edge.index == 1 && node.inputs[1].node == loop.condition) edge = Plain(node.inputs[0]);
    return edge.node == merge && edge.index == 0;
  }
  bool IsVariable(const Loop& loop, Output edge, int64_t merge) {
    const Source source = SourceOf(loop, edge);
    return source.kind == Source::Kind::kVariable && source.merge == merge;
  }
  // The node of that op that makes the value, in the loop; -1: none.
  int64_t Made(const Loop& loop, Output edge, std::string_view op, std::string_view or_op = {}) {
    const Source source = SourceOf(loop, edge);
    if (source.kind != Source::Kind::kInside || source.edge.index != 0) return -1;
    const std::string& own = At(source.edge.node).op;
    return own == op || own == or_op ? source.edge.node : -1;
  }
  // A whole number that is written in the graph.
  std::optional<int64_t> NumberOf(Output edge) {
    edge = Plain(edge);
    if (At(edge.node).op == "Enter") edge = Plain(At(edge.node).inputs[0]);
    // Of one number the largest is itself: so Keras says how many turns there are at most.
    if (At(edge.node).op == "Max") edge = Plain(At(edge.node).inputs[0]);
    if (At(edge.node).op != "Const") return std::nullopt;
    std::optional<int64_t> number;
    p_.With(edge.node, [&](NodeContext& c) {
      const tenon_attr_value value = c.Raw("value");
      if (value.kind != TENON_ATTR_TENSOR || value.count != 1) return;
      const tenon_tensor_view& view = *static_cast<const tenon_tensor_view*>(value.data);
      if (view.dtype != TENON_DT_INT32 || view.dl.ndim != 0 || view.byte_size != sizeof(int32_t)) return;
      number = *reinterpret_cast<const int32_t*>(static_cast<const char*>(view.dl.data) + view.dl.byte_offset);
    });
    return number;
  }

  // ---- The cell ----

  // f(a, b) of a node's two operands, in either order.
  template <class Function>
  bool InEitherOrder(int64_t id, Function&& function) {
    if (id < 0 || At(id).inputs.size() != 2) return false;
    const Output a = At(id).inputs[0], b = At(id).inputs[1];
    return function(a, b) || function(b, a);
  }
  // The gate that op(gate) is of: the number of the split's output, of one split for all.
  int Gate(const Loop& loop, Output edge, std::string_view op, int64_t* split) {
    const int64_t function = Made(loop, edge, op);
    if (function < 0) return -1;
    const Source source = SourceOf(loop, At(function).inputs[0]);
    if (source.kind != Source::Kind::kInside || At(source.edge.node).op != "Split" || (*split >= 0 && *split != source.edge.node)) return -1;
    *split = source.edge.node;
    return source.edge.index;
  }

  // h of a turn: sets what the cell is made of.
  bool MatchCell(Loop* loop, Output h) {
    loop->new_h = SourceOf(*loop, h).edge;
    int64_t split = -1;
    const auto output_gate = [&](Output gate, Output state) {
      const int64_t tanh = Made(*loop, state, "Tanh");
      if (tanh < 0 || Gate(*loop, gate, "Sigmoid", &split) != 3) return false;
      loop->new_c = SourceOf(*loop, At(tanh).inputs[0]).edge;
      return true;
    };
    if (!InEitherOrder(Made(*loop, h, "Mul"), output_gate)) return false;
    const auto kept = [&](Output gate, Output state) {
      const Source c = SourceOf(*loop, state);
      if (c.kind != Source::Kind::kVariable || Gate(*loop, gate, "Sigmoid", &split) != 1) return false;
      loop->c = c.merge;
      return true;
    };
    const auto added = [&](Output gate, Output candidate) { return Gate(*loop, gate, "Sigmoid", &split) == 0 && Gate(*loop, candidate, "Tanh", &split) == 2; };
    const auto state = [&](Output a, Output b) { return InEitherOrder(Made(*loop, a, "Mul"), kept) && InEitherOrder(Made(*loop, b, "Mul"), added); };
    if (!InEitherOrder(Made(*loop, loop->new_c, "AddV2", "Add"), state)) return false;
    if (Attr(split, &NodeContext::Int, "num_split") != 4) return false;
    const std::optional<int64_t> axis = NumberOf(At(split).inputs[0]);
    return (axis == 1 || axis == -1) && MatchGates(loop, At(split).inputs[1]);
  }

  bool MatchGates(Loop* loop, Output gates) {
    const int64_t biased = Made(*loop, gates, "BiasAdd");
    if (biased < 0 || Attr(biased, &NodeContext::String, "data_format") != "NHWC") return false;
    loop->bias = At(biased).inputs[1];
    const auto product = [&](Output edge) {
      const int64_t id = Made(*loop, edge, "MatMul");
      return id >= 0 && !Attr(id, &NodeContext::Bool, "transpose_a") && !Attr(id, &NodeContext::Bool, "transpose_b") ? id : -1;
    };
    const auto sum = [&](Output a, Output b) {
      const int64_t of_x = product(a), of_h = product(b);
      if (of_x < 0 || of_h < 0) return false;
      const Source h = SourceOf(*loop, At(of_h).inputs[0]);
      if (h.kind != Source::Kind::kVariable || !MatchInput(loop, At(of_x).inputs[0])) return false;
      loop->h = h.merge;
      loop->kernel = At(of_x).inputs[1];
      loop->recurrent = At(of_h).inputs[1];
      return true;
    };
    return InEitherOrder(Made(*loop, At(biased).inputs[0], "AddV2", "Add"), sum);
  }
  bool MatchInput(Loop* loop, Output edge) {
    const int64_t item = Made(*loop, edge, "TensorListGetItem");
    if (item < 0) return false;
    const Source list = SourceOf(*loop, At(item).inputs[0]), t = SourceOf(*loop, At(item).inputs[1]);
    if (list.kind != Source::Kind::kOutside || At(list.edge.node).op != "TensorListFromTensor" || t.kind != Source::Kind::kVariable) return false;
    loop->x = At(list.edge.node).inputs[0];
    loop->t = t.merge;
    return true;
  }

  // Whether it becomes itself and one, from 0 on.
  bool Counts(const Loop& loop, int64_t merge) {
    const std::optional<Variable> variable = VariableOf(merge);
    if (!variable.has_value() || NumberOf(variable->initial) != 0) return false;
    return InEitherOrder(Made(loop, variable->next, "AddV2", "Add"), [&](Output a, Output b) { return IsVariable(loop, a, merge) && NumberOf(b) == 1; });
  }
  bool BecomesOf(const Loop& loop, int64_t merge, Output made) {
    const std::optional<Variable> variable = VariableOf(merge);
    if (!variable.has_value()) return false;
    const Source next = SourceOf(loop, variable->next);
    return next.kind == Source::Kind::kInside && next.edge.node == made.node && next.edge.index == made.index;
  }

  // ---- The condition ----

  // How often: t < length, and maybe another counter's as many turns at most.
  bool MatchCondition(Loop* loop) {
    const Output condition = At(loop->condition).inputs[0];
    std::vector<int64_t> questions = {Made(*loop, condition, "Less")};
    if (questions[0] < 0) {
      const int64_t both = Made(*loop, condition, "LogicalAnd");
      if (both < 0) return false;
      questions = {Made(*loop, At(both).inputs[0], "Less"), Made(*loop, At(both).inputs[1], "Less")};
    }
    bool asks_t = false;
    for (const int64_t less : questions) {
      if (less < 0) return false;
      const Source counter = SourceOf(*loop, At(less).inputs[0]);
      if (counter.kind != Source::Kind::kVariable || !Counts(*loop, counter.merge)) return false;
      const Source limit = SourceOf(*loop, At(less).inputs[1]);
      const std::optional<int64_t> length = limit.kind == Source::Kind::kVariable ? std::nullopt : NumberOf(limit.edge);
      if (!length.has_value() || *length < 1 || (loop->length.has_value() && loop->length != length)) return false;
      loop->length = length;
      loop->counters.push_back(counter.merge);
      if (limit.kind == Source::Kind::kOutside) loop->limit = limit.edge;
      asks_t = asks_t || counter.merge == loop->t;
    }
    return asks_t;
  }

  // ---- What leaves ----

  // A list of h: of all steps, or of one element, the last.
  struct List {
    int64_t exit = -1;
    bool is_last = false;
  };
  std::optional<List> MatchList(const Loop& loop, int64_t exit, const Variable& variable) {
    const int64_t set = Made(loop, variable.next, "TensorListSetItem");
    const Output reserve = Plain(variable.initial);
    if (set < 0 || At(reserve.node).op != "TensorListReserve" || !IsItsOwn(loop, set, exit)) return std::nullopt;
    const Source item = SourceOf(loop, At(set).inputs[2]);
    if (item.edge.node != loop.new_h.node || item.edge.index != loop.new_h.index || item.kind != Source::Kind::kInside) return std::nullopt;
    const std::optional<int64_t> elements = NumberOf(At(reserve.node).inputs[1]);
    if (elements == loop.length && IsVariable(loop, At(set).inputs[1], loop.t)) return List{exit, false};
    if (elements == 1 && NumberOf(SourceOf(loop, At(set).inputs[1]).edge) == 0) return List{exit, true};
    return std::nullopt;
  }
  bool IsItsOwn(const Loop& loop, int64_t set, int64_t exit) { return IsVariable(loop, At(set).inputs[0], MergeOf(exit)); }
  int64_t MergeOf(int64_t exit) { return At(At(exit).inputs[0].node).inputs[0].node; }

  // Whether whoever waits in the loop waits for what does nothing else: else that would no longer be done. Who enters waits for the same everywhere, as the layer does.
  bool HasNoOtherEffects(int64_t enter) {
    std::vector<int64_t> left(passed_.begin(), passed_.end());
    std::set<int64_t> seen;
    while (!left.empty()) {
      const int64_t id = left.back();
      left.pop_back();
      if (id < 0 || !seen.insert(id).second) continue;
      if (seen.size() > kMostNodes) return false;
      const Node& node = At(id);
      const bool is_harmless = passed_.contains(id) || sdk::IsOneOf(node.op, {"NoOp", "Identity", "ReadVariableOp", "Const", "Switch", "Merge", "Enter", "LoopCond", "Fill", "TensorListReserve"});
      if (!is_harmless) return false;
      if (node.op == "Enter") continue;
      left.insert(left.end(), node.controls.begin(), node.controls.end());
    }
    const std::vector<int64_t>& waits = At(enter).controls;
    return std::all_of(enters_.begin(), enters_.end(), [&](int64_t id) { return At(id).controls == waits; });
  }

  void Try(int64_t condition, const std::vector<int64_t>& exits) {
    passed_ = {condition};
    enters_.clear();
    Loop loop;
    loop.condition = condition;
    if (At(condition).op != "LoopCond") return;
    // A cell's h is what a list gets, or what a variable becomes.
    for (const int64_t exit : exits) {
      const std::optional<Variable> variable = VariableOf(MergeOf(exit));
      if (!variable.has_value()) return;
      const int64_t set = Made(loop, variable->next, "TensorListSetItem");
      if (MatchCell(&loop, set >= 0 ? At(set).inputs[2] : variable->next)) break;
      loop = Loop();
      loop.condition = condition;
    }
    if (loop.h < 0 || !BecomesOf(loop, loop.h, loop.new_h) || !BecomesOf(loop, loop.c, loop.new_c) || loop.h == loop.c || !Counts(loop, loop.t) || !MatchCondition(&loop)) return;
    loop.device = At(loop.new_h.node).device;
    if (loop.device.find("/device:CPU:") == std::string::npos || !At(loop.new_h.node).is_float) return;
    for (const Output* weights : {&loop.kernel, &loop.recurrent, &loop.bias})
      if (!ComesFromOutside(loop, *weights)) return;
    // All that leaves must be known, or the loop would run beside.
    std::vector<List> lists;
    std::vector<int64_t> counters;
    std::vector<std::pair<int64_t, Output>> others;  // exits, and what they give, of the layer (node -1), or as it came in
    for (const int64_t exit : exits) {
      const int64_t merge = MergeOf(exit);
      const std::optional<Variable> variable = VariableOf(merge);
      if (!variable.has_value()) return;
      if (merge == loop.h || merge == loop.c) {
        others.push_back({exit, {-1, merge == loop.h ? 1 : 2, 0}});
      } else if (IsUnchanged(loop, merge, *variable)) {
        others.push_back({exit, variable->initial});
      } else if (const std::optional<List> list = MatchList(loop, exit, *variable)) {
        lists.push_back(*list);
        const int64_t reserve = Plain(variable->initial).node;
        if (!list->is_last) loop.limit = At(reserve).inputs[1];
      } else if (std::find(loop.counters.begin(), loop.counters.end(), merge) != loop.counters.end()) {
        counters.push_back(exit);
      } else {
        return;
      }
    }
    if (!counters.empty() && loop.limit.node < 0) return;
    for (const int64_t exit : counters) others.push_back({exit, loop.limit});
    if (HasNoOtherEffects(VariableOf(loop.h)->enter)) Build(loop, lists, others);
  }

  // As it is, or a variable that the turns read.
  bool ComesFromOutside(const Loop& loop, Output edge) {
    if (SourceOf(loop, edge).kind == Source::Kind::kOutside) return true;
    const int64_t read = Made(loop, edge, "ReadVariableOp");
    return read >= 0 && At(read).device == loop.device && SourceOf(loop, At(read).inputs[0]).kind == Source::Kind::kOutside;
  }
  // For who stands outside.
  Output Outside(const Loop& loop, Output edge) {
    const Source source = SourceOf(loop, edge);
    if (source.kind == Source::Kind::kOutside) return source.edge;
    return p_.Op("ReadVariableOp", {SourceOf(loop, At(source.edge.node).inputs[0]).edge}, {sdk::Attribute::Type("dtype", TENON_DT_FLOAT)});
  }

  void Build(const Loop& loop, const std::vector<List>& lists, const std::vector<std::pair<int64_t, Output>>& others) {
    const Variable h = *VariableOf(loop.h), c = *VariableOf(loop.c);
    p_.Begin(h.enter, loop.device);
    const int64_t layer = p_.Node("Tenon>LSTMLayer", {loop.x, h.initial, c.initial, Outside(loop, loop.kernel), Outside(loop, loop.recurrent), Outside(loop, loop.bias)}, {{"length", *loop.length}});
    for (const List& list : lists) {
      const int64_t reserve = Plain(VariableOf(MergeOf(list.exit))->initial).node;
      const Output stacked = list.is_last ? p_.Op("Pack", {Output{layer, 1, 0}}) : Output{layer, 0, 0};
      for (const int64_t id : stacks_[list.exit])
        if (IsWhole(id, list.is_last ? 1 : *loop.length)) p_.Replace(id, {stacked});
      const Output made = p_.Op("TensorListFromTensor", {stacked, At(reserve).inputs[0]}, {sdk::Attribute::Type("element_dtype", TENON_DT_FLOAT), sdk::Attribute::Type("shape_type", Attr(reserve, &NodeContext::Type, "shape_type"))});
      p_.Replace(list.exit, {made});
    }
    for (const auto& [exit, value] : others) p_.Replace(exit, {value.node < 0 ? Output{layer, value.index, 0} : value});
  }
  bool IsWhole(int64_t stack, int64_t elements) {
    const int64_t asked = Attr(stack, &NodeContext::Int, "num_elements");
    return asked == -1 || asked == elements;
  }

  PassContext& p_;
  std::map<int64_t, Node> nodes_;
  std::map<int64_t, std::vector<int64_t>> stacks_;  // by the node whose list becomes one tensor
  std::set<int64_t> passed_, enters_;  // of the loop that is looked at: what values come by
};

void Run(PassContext& p) {
  const auto* self = p.self<tenon_plugin_self>();
  // Other precisions are passes' over the products.
  if ((self != nullptr && !self->recurrent) || p.precision() != TENON_PRECISION_STRICT) return;
  Pass(p).Run();
}

constexpr tenon_span kOps[] = {TENON_SPAN("Exit"), TENON_SPAN("TensorListStack")};

}  // namespace

constinit const tenon_graph_pass kRecurrentPass = sdk::DefinePass<Run>("recurrent-loops", kOps);

}  // namespace tenon::cpu
