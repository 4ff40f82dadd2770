// SPDX-License-Identifier: Apache-2.0
// What is looked for, by ops that steer, identities left out (the cells stand in cell.h):
//
//   t = 0, states = initial ones, list = TensorListReserve(shape, length)
//   while (t < length [and n < length, n counting too])
//     states = cell(TensorListGetItem(TensorListFromTensor(x), t), states)
//     list = TensorListSetItem(list, t or 0, h);  t = t + 1
//
// or the same over tensor arrays, which are filled at once before and gathered after,
// where length is written in the graph, or is x's number of steps, which only the step knows. Every value that leaves
// the loop must be one of those above, or a counter's last: then nothing of the loop runs any more. Anything else, what
// does not fit together by what is known of its shapes, and a loop whose gradient keeps what its turns made, stays as
// it is.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cell.h"
#include "loop_graph.h"
#include "tenon/sdk/op/graph_pass.h"
#include "tenon/sdk/package.h"
#include "weights.h"

namespace tenon::passes {
namespace {

using sdk::NodeContext;
using sdk::Output;
using sdk::PassContext;
using sdk::Shape;

constexpr int64_t kAllSteps = -1;  // a length: that of x

class Pass {
 public:
  explicit Pass(PassContext& p) : p_(p), nodes_(p) {}

  void Run() {
    std::map<int64_t, std::vector<int64_t>> exits;  // by the condition of their loop
    for (const int64_t id : p_.nodes()) {
      if (nodes_.At(id).op == "TensorListStack") stacks_[nodes_.Plain(nodes_.At(id).inputs[0]).node].push_back(id);
      if (nodes_.At(id).op == "TensorArrayGatherV3") stacks_[nodes_.Plain(nodes_.At(id).inputs[2]).node].push_back(id);
      if (nodes_.At(id).op != "Exit") continue;
      const Nodes::Node& from = nodes_.At(nodes_.At(id).inputs[0].node);
      if (from.op == "Switch") exits[from.inputs[1].node].push_back(id);
    }
    for (const auto& [condition, all] : exits)
      if (p_.ok() && nodes_.At(condition).op == "LoopCond") Try(condition, all);
  }

 private:
  // A list of h: of all steps, or of one element, the last; or a tensor array of all steps.
  struct List {
    int64_t exit = -1, reserve = -1;  // what makes it
    bool is_last = false, is_array = false;
  };
  struct Found {
    RecurrentCell cell;
    int64_t length = kAllSteps;
    Output limit = kNothing;        // that number, outside; kNothing: it stands in the loop alone
    std::vector<int64_t> counters;  // merges of what counts up to it
    std::vector<List> lists;
    std::vector<std::pair<int64_t, Output>>
        others;  // exits, and what they give: as it came in, or {-1, number} of the layer
    std::string device;
  };

  int64_t MergeOf(int64_t exit) { return nodes_.At(nodes_.At(exit).inputs[0].node).inputs[0].node; }

  void Try(int64_t condition, const std::vector<int64_t>& exits) {
    LoopGraph loop(nodes_, condition);
    std::optional<RecurrentCell> cell;
    // A cell's h is what a list gets, or what a variable becomes.
    for (const int64_t exit : exits) {
      const std::optional<LoopGraph::Variable> variable = loop.VariableOf(MergeOf(exit));
      if (!variable.has_value()) return;
      const int64_t set = loop.Made(variable->next, "TensorListSetItem", "TensorArrayWriteV3");
      if (!cell.has_value()) cell = FindCell(loop, set >= 0 ? loop.At(set).inputs[2] : variable->next);
    }
    if (!cell.has_value()) return;
    Found found;
    found.cell = *cell;
    found.device = loop.At(cell->states[0].becomes.node).device;
    if (IsWhole(loop, found) && MatchCondition(loop, &found) && MatchExits(loop, exits, &found) && Fits(loop, found) &&
        loop.HasNoOtherEffects(loop.VariableOf(cell->states[0].merge)->enter))
      Build(loop, found);
  }

  // Whether turns pass the cell's states on, and find the weights that the layer will have.
  bool IsWhole(LoopGraph& loop, const Found& found) {
    const RecurrentCell& cell = found.cell;
    if (found.device.find("/device:CPU:") == std::string::npos || !loop.At(cell.states[0].becomes.node).is_float ||
        !loop.Counts(cell.t))
      return false;
    if (cell.states.size() == 2 && cell.states[0].merge == cell.states[1].merge) return false;
    for (const RecurrentCell::State& state : cell.states)
      if (!loop.BecomesOf(state.merge, state.becomes)) return false;
    for (const Output& weights :
         {cell.kernel, cell.recurrent, cell.bias, cell.recurrent_bias, cell.candidate, cell.candidate_bias})
      if (weights.node >= 0 ? !loop.IsInvariant(weights, found.device) : cell.cells < 0) return false;
    return true;
  }

  // ---- How often ----

  // t < length, and maybe another counter's as many turns at most.
  bool MatchCondition(LoopGraph& loop, Found* found) {
    const Output condition = loop.At(loop.condition()).inputs[0];
    std::vector<int64_t> questions = {loop.Computed(condition, "less")};
    if (questions[0] < 0) {
      const int64_t both = loop.Computed(condition, "logical_and");
      if (both < 0) return false;
      questions = {loop.Computed(loop.At(both).inputs[0], "less"), loop.Computed(loop.At(both).inputs[1], "less")};
    }
    bool asks_t = false;
    std::optional<int64_t> length;
    for (const int64_t less : questions) {
      if (less < 0) return false;
      const LoopGraph::Source counter = loop.SourceOf(loop.At(less).inputs[0]),
                              limit = loop.SourceOf(loop.At(less).inputs[1]);
      if (counter.kind != LoopGraph::Source::Kind::kVariable || limit.kind == LoopGraph::Source::Kind::kVariable ||
          !loop.Counts(counter.merge))
        return false;
      const std::optional<int64_t> own = LengthOf(loop, found->cell, limit.edge);
      if (!own.has_value() || (length.has_value() && length != own)) return false;
      length = own;
      found->counters.push_back(counter.merge);
      if (limit.kind == LoopGraph::Source::Kind::kOutside) found->limit = limit.edge;
      asks_t = asks_t || counter.merge == found->cell.t;
    }
    if (!asks_t) return false;
    found->length = *length;
    return true;
  }
  // A number that is written in the graph, or that of x's steps, by an edge past what carries it into the loop.
  std::optional<int64_t> LengthOf(LoopGraph& loop, const RecurrentCell& cell, Output edge) {
    const std::optional<int64_t> number = loop.NumberOf(edge);
    if (number.has_value()) return *number >= 1 ? number : std::nullopt;
    return nodes_.IsTimeOf(cell.x, loop.Plain(edge)) ? std::optional(kAllSteps) : std::nullopt;
  }

  // ---- What leaves ----

  // All of it must be known, or the loop would run beside.
  bool MatchExits(LoopGraph& loop, const std::vector<int64_t>& exits, Found* found) {
    for (const int64_t exit : exits) {
      const int64_t merge = MergeOf(exit);
      const LoopGraph::Variable variable = *loop.VariableOf(merge);
      const auto& states = found->cell.states;
      const auto state = std::find_if(states.begin(), states.end(),
                                      [&](const RecurrentCell::State& each) { return each.merge == merge; });
      if (state != states.end()) {
        found->others.push_back({exit, {-1, static_cast<int32_t>(1 + (state - states.begin())), 0}});
      } else if (loop.IsUnchanged(merge, variable)) {
        found->others.push_back({exit, variable.initial});
      } else if (const std::optional<List> list = MatchList(loop, *found, exit, variable)) {
        found->lists.push_back(*list);
        if (!list->is_last) found->limit = nodes_.At(list->reserve).inputs[list->is_array ? 0 : 1];
      } else if (std::find(found->counters.begin(), found->counters.end(), merge) != found->counters.end()) {
        found->others.push_back({exit, kNothing});
      } else {
        return false;
      }
    }
    for (auto& [exit, value] : found->others)
      if (value.node < 0 && value.index == 0) value = found->limit;
    return std::none_of(found->others.begin(), found->others.end(),
                        [](const auto& other) { return other.second.node < 0 && other.second.index == 0; });
  }
  std::optional<List> MatchList(LoopGraph& loop, const Found& found, int64_t exit,
                                const LoopGraph::Variable& variable) {
    const int64_t set = loop.Made(variable.next, "TensorListSetItem");
    const Output reserve = loop.Plain(variable.initial);
    if (set < 0) return MatchArray(loop, found, exit, variable);
    if (loop.At(reserve.node).op != "TensorListReserve" || !loop.IsVariable(loop.At(set).inputs[0], MergeOf(exit)))
      return std::nullopt;
    const LoopGraph::Source item = loop.SourceOf(loop.At(set).inputs[2]);
    const Output h = found.cell.states[0].becomes;
    if (item.kind != LoopGraph::Source::Kind::kInside || item.edge.node != h.node || item.edge.index != h.index)
      return std::nullopt;
    const Output elements = loop.At(reserve.node).inputs[1];
    if (LengthOf(loop, found.cell, elements) == found.length && loop.IsVariable(loop.At(set).inputs[1], found.cell.t))
      return List{exit, reserve.node, false};
    if (loop.NumberOf(elements) != 1 || loop.NumberOf(loop.At(set).inputs[1]) != 0) return std::nullopt;
    // Without a step its element is nobody's, which reads as zeros.
    if (found.length == kAllSteps && !IsZeros(loop.VariableOf(found.cell.states[0].merge)->initial))
      return std::nullopt;
    return List{exit, reserve.node, true};
  }
  std::optional<List> MatchArray(LoopGraph& loop, const Found& found, int64_t exit,
                                 const LoopGraph::Variable& variable) {
    const int64_t write = loop.Made(variable.next, "TensorArrayWriteV3");
    const Output flow = loop.Plain(variable.initial);
    if (write < 0 || flow.index != 1 || loop.At(flow.node).op != "TensorArrayV3") return std::nullopt;
    const std::vector<Output> inputs = loop.At(write).inputs;
    const LoopGraph::Source array = loop.SourceOf(inputs[0]), item = loop.SourceOf(inputs[2]);
    const Output h = found.cell.states[0].becomes;
    const bool is_h =
        item.kind == LoopGraph::Source::Kind::kInside && item.edge.node == h.node && item.edge.index == h.index;
    if (!is_h || array.kind != LoopGraph::Source::Kind::kOutside || array.edge.node != flow.node ||
        array.edge.index != 0)
      return std::nullopt;
    if (!loop.IsVariable(inputs[1], found.cell.t) || !loop.IsVariable(inputs[3], MergeOf(exit))) return std::nullopt;
    if (LengthOf(loop, found.cell, loop.At(flow.node).inputs[0]) != found.length) return std::nullopt;
    return List{exit, flow.node, false, true};
  }
  bool IsZeros(Output edge) {
    edge = nodes_.Plain(edge);
    return nodes_.At(edge.node).op == "Fill" &&
           nodes_.Floats(nodes_.Plain(nodes_.At(edge.node).inputs[1])) == std::vector<float>{0};
  }

  // ---- Whether shapes go together ----

  // In a loop sums and products broadcast, and what does not fit fails in a turn, if there is one: neither is the
  // layer's. Dims that only the step knows fit, but for one against them, which would broadcast.
  bool Fits(LoopGraph& loop, const Found& found) {
    const RecurrentCell& cell = found.cell;
    const Shape x = p_.shape(cell.x);
    const int64_t width = cell.cells < 0 ? -1 : cell.gates() * cell.cells;
    if (!Is(x, {-1, -1, -1})) return false;
    if (cell.joined ? !JoinedFits(loop, cell, x) : !WeightsFit(loop, cell, x, width)) return false;
    if (found.length != kAllSteps && x[0] >= 0 && found.length > x[0]) return false;
    for (const RecurrentCell::State& state : cell.states) {
      const Shape initial = p_.shape(loop.VariableOf(state.merge)->initial);
      if (!Is(initial, {x[1], cell.cells}) || (initial[0] == 1) != (x[1] == 1)) return false;
    }
    for (const Output& bias : {cell.bias, cell.recurrent_bias})
      if (!cell.joined && bias.node >= 0 && !Is(loop.ShapeOf(bias), {width})) return false;
    for (const List& list : found.lists) {
      if (list.is_array) continue;
      const std::optional<std::vector<int64_t>> element = p_.Integers(nodes_.At(list.reserve).inputs[0]);
      if (element.has_value() && (element->size() != 2 || !Is(Shape(*element), {x[1], cell.cells}))) return false;
    }
    return true;
  }
  bool WeightsFit(LoopGraph& loop, const RecurrentCell& cell, const Shape& x, int64_t width) {
    const Shape kernel = loop.ShapeOf(cell.kernel), recurrent = loop.ShapeOf(cell.recurrent);
    return Is(kernel, {x[2], width}) && Is(recurrent, {cell.cells, width}) && Alike(kernel[1], recurrent[1]);
  }
  bool JoinedFits(LoopGraph& loop, const RecurrentCell& cell, const Shape& x) {
    const int64_t rows = loop.ShapeOf(cell.kernel)[0], inputs = rows - cell.cells,
                  width = (cell.kind == RecurrentCell::Kind::kGru ? 2 : 4) * cell.cells;
    if (rows < 0 || cell.cells < 0 || inputs < 1 || !Alike(x[2], inputs)) return false;  // where to cut it
    const auto fits = [&](Output weights, std::initializer_list<int64_t> dims) {
      return weights.node < 0 || Is(loop.ShapeOf(weights), dims);
    };
    return fits(cell.kernel, {rows, width}) && fits(cell.bias, {width}) && fits(cell.candidate, {rows, cell.cells}) &&
           fits(cell.candidate_bias, {cell.cells});
  }
  static bool Alike(int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; }
  static bool Is(const Shape& shape, std::initializer_list<int64_t> wanted) {
    if (!shape.known_rank()) return true;
    if (shape.dims().size() != wanted.size()) return false;
    return std::equal(wanted.begin(), wanted.end(), shape.dims().begin(), Alike);
  }

  // ---- The layer ----

  // Between layers Keras puts steps second, and first again: x itself then.
  Output StepsFirst(Output x) {
    const Output once = Exchanged(x), twice = once.node < 0 ? kNothing : Exchanged(once);
    return twice.node < 0 ? x : twice;
  }
  // Of what exchanges its first two dims; kNothing: it is no such value.
  Output Exchanged(Output edge) {
    edge = nodes_.Plain(edge);
    const Nodes::Node& node = nodes_.At(edge.node);
    if (node.op != "Transpose" || !node.controls.empty()) return kNothing;
    return nodes_.Integers(nodes_.Plain(node.inputs[1])) == std::vector<int32_t>{1, 0, 2} ? node.inputs[0] : kNothing;
  }
  int64_t Layer(LoopGraph& loop, const Found& found) {
    const RecurrentCell& cell = found.cell;
    std::vector<Output> inputs = {StepsFirst(cell.x)};
    for (const RecurrentCell::State& state : cell.states) inputs.push_back(loop.VariableOf(state.merge)->initial);
    for (const Output& weights : LayerWeights(loop, cell)) inputs.push_back(weights);
    if (cell.kind == RecurrentCell::Kind::kLstm) return p_.Node("Tenon>LSTMLayer", inputs, {{"length", found.length}});
    return p_.Node("Tenon>GRULayer", inputs, {{"length", found.length}, {"reset_after", cell.reset_after}});
  }
  void Build(LoopGraph& loop, const Found& found) {
    p_.Begin(loop.VariableOf(found.cell.states[0].merge)->enter, found.device);
    const int64_t layer = Layer(loop, found);
    for (const List& list : found.lists) {
      if (list.is_array) {
        FillArray(found, list, {layer, 0, 0});
        continue;
      }
      const Output stacked = list.is_last ? p_.Op("Pack", {Output{layer, 1, 0}}) : Output{layer, 0, 0};
      for (const int64_t id : stacks_[list.exit])
        if (IsOfAll(found, id, list.is_last ? 1 : found.length)) p_.Replace(id, {stacked});
      const uint32_t shape_type = nodes_.Attr(list.reserve, &NodeContext::Type, "shape_type");
      const Output made = p_.Op(
          "TensorListFromTensor", {stacked, nodes_.At(list.reserve).inputs[0]},
          {sdk::Attribute::Type("element_dtype", TENON_DT_FLOAT), sdk::Attribute::Type("shape_type", shape_type)});
      p_.Replace(list.exit, {made});
    }
    for (const auto& [exit, value] : found.others)
      p_.Replace(exit, {value.node < 0 ? Output{layer, value.index, 0} : value});
  }
  // Whoever gathers all steps gets them; who looks at the array in another way finds them in it.
  void FillArray(const Found& found, const List& list, Output stacked) {
    for (const int64_t id : stacks_[list.exit])
      if (nodes_.Plain(nodes_.At(id).inputs[0]).node == list.reserve && IsEachStep(found, nodes_.At(id).inputs[1]))
        p_.Replace(id, {stacked});
    const auto number = [&](int32_t value) {
      return p_.Constant(TENON_DT_INT32, {nullptr, 0, 0}, &value, sizeof(value));
    };
    const Output steps = p_.Op(
        "Range",
        {number(0), found.length == kAllSteps ? found.limit : number(static_cast<int32_t>(found.length)), number(1)});
    p_.Replace(list.exit,
               {p_.Op("TensorArrayScatterV3", {{list.reserve, 0, 0}, steps, stacked, {list.reserve, 1, 0}})});
  }
  bool IsEachStep(const Found& found, Output edge) {
    const std::optional<Nodes::Below> below = nodes_.AllBelow(edge);
    if (!below.has_value()) return false;
    return found.length == kAllSteps ? below->end.node >= 0 && nodes_.IsTimeOf(found.cell.x, below->end)
                                     : below->number == found.length;
  }
  bool IsOfAll(const Found& found, int64_t stack, int64_t elements) {
    const int64_t asked = nodes_.Attr(stack, &NodeContext::Int, "num_elements");
    const std::optional<std::vector<int32_t>> shape = nodes_.Integers(nodes_.Plain(nodes_.At(stack).inputs[1]));
    if ((asked != -1 && asked != elements) || !shape.has_value() || shape->size() != 2) return false;
    const auto fits = [](int32_t dim, int64_t known) { return dim == -1 || (dim >= 0 && dim == known); };
    return fits((*shape)[0], p_.shape(found.cell.x)[1]) && fits((*shape)[1], found.cell.cells);
  }

  PassContext& p_;
  Nodes nodes_;
  std::map<int64_t, std::vector<int64_t>> stacks_;  // by the node whose list becomes one tensor
};

// The ends of what is looked for.
constexpr tenon_span kOps[] = {TENON_SPAN("Exit"), TENON_SPAN("TensorListStack"), TENON_SPAN("TensorArrayGatherV3")};

void RunPass(PassContext& p) {
  // Other precisions are passes' over the products.
  if (p.precision() == TENON_PRECISION_STRICT) Pass(p).Run();
}

constexpr tenon_graph_pass kPass = sdk::DefinePass<RunPass>("recurrent-loops", kOps, 0, 0, "known-axes,collectives");

}  // namespace
}  // namespace tenon::passes

TENON_PASS_PLUGIN("tenon.passes.recurrent", "0.1.0", "Loops of LSTM and GRU cells as one node.", tenon::passes::kPass)
