// SPDX-License-Identifier: Apache-2.0
#include "cell.h"

namespace tenon::passes {
namespace {

using sdk::NodeContext;
using sdk::Output;

bool IsSameEdge(Output a, Output b) { return a.node == b.node && a.index == b.index; }

// A range of columns: of equal parts one, or cut out.
struct Part {
  Output whole = kNothing;
  int64_t parts = 0, index = 0;  // parts 0: cut out
  int64_t from = 0, to = -1;     // to -1: all columns after

  bool Is(int64_t of, int64_t wanted, int64_t cells) const {
    if (parts > 0) return parts == of && index == wanted;
    const bool is_last = wanted == of - 1;
    return cells > 0 && from == wanted * cells &&
           (to < 0 ? is_last : to == from + cells || (is_last && to > from + cells));
  }
};

class Matcher {
 public:
  explicit Matcher(LoopGraph& loop) : loop_(loop) {}

  std::optional<RecurrentCell> Lstm(Output h, bool joined) {
    cell_ = {};
    cell_.joined = joined;
    if (!LstmOutput(h)) return std::nullopt;
    return cell_;
  }
  std::optional<RecurrentCell> Gru(Output h, bool joined) {
    cell_ = {};
    cell_.joined = joined;
    cell_.kind = RecurrentCell::Kind::kGru;
    if (!(joined ? JoinedGruOutput(h) : GruOutput(h))) return std::nullopt;
    return cell_;
  }

 private:
  // ---- What both are made of ----

  std::optional<int64_t> StateOf(Output edge) {
    const LoopGraph::Source source = loop_.SourceOf(edge);
    return source.kind == LoopGraph::Source::Kind::kVariable ? std::optional(source.merge) : std::nullopt;
  }
  Output MadeOf(Output edge) { return loop_.SourceOf(edge).edge; }
  // The operand of a function.
  Output Of(Output edge, std::string_view function) {
    const int64_t id = loop_.Computed(edge, function);
    return id < 0 ? kNothing : loop_.At(id).inputs[0];
  }
  std::optional<Part> PartOf(Output edge) {
    if (edge.node < 0) return std::nullopt;
    const LoopGraph::Source source = loop_.SourceOf(edge);
    if (source.kind != LoopGraph::Source::Kind::kInside) return std::nullopt;
    const Nodes::Node node = loop_.At(source.edge.node);
    if (node.op == "StridedSlice") return CutOut(source.edge.node);
    if (node.op != "Split") return std::nullopt;
    const std::optional<int64_t> axis = loop_.NumberOf(node.inputs[0]);
    if (axis != 1 && axis != -1) return std::nullopt;
    return Part{Whole(node.inputs[1]), loop_.nodes().Attr(source.edge.node, &NodeContext::Int, "num_split"),
                source.edge.index, 0, -1};
  }
  // whole[:, from:to].
  std::optional<Part> CutOut(int64_t id) {
    const auto mask = [&](const char* name) { return loop_.nodes().Attr(id, &NodeContext::Int, name); };
    const std::vector<Output> inputs = loop_.At(id).inputs;
    std::vector<int32_t> numbers[3];
    for (size_t i = 0; i < 3; ++i) {
      const LoopGraph::Source source = loop_.SourceOf(inputs[i + 1]);
      const auto found =
          source.kind == LoopGraph::Source::Kind::kVariable ? std::nullopt : loop_.nodes().Integers(source.edge);
      if (!found.has_value() || found->size() != 2) return std::nullopt;
      numbers[i] = *found;
    }
    const int64_t begin_mask = mask("begin_mask"), end_mask = mask("end_mask");
    const bool is_plain = mask("ellipsis_mask") == 0 && mask("new_axis_mask") == 0 && mask("shrink_axis_mask") == 0 &&
                          numbers[2][0] == 1 && numbers[2][1] == 1;
    if (!is_plain || (begin_mask & 1) == 0 || (end_mask & 1) == 0) return std::nullopt;
    Part part{Whole(inputs[0]), 0, 0, (begin_mask & 2) != 0 ? 0 : numbers[0][1],
              (end_mask & 2) != 0 ? -1 : numbers[1][1]};
    if (part.from < 0 || ((end_mask & 2) == 0 && part.to <= part.from)) return std::nullopt;
    return part;
  }
  // What it is a part of, past what hands it on; of a value from outside that edge.
  Output Whole(Output edge) {
    const LoopGraph::Source source = loop_.SourceOf(edge);
    return source.kind == LoopGraph::Source::Kind::kVariable ? kNothing
           : source.kind == LoopGraph::Source::Kind::kInside ? source.edge
                                                             : edge;
  }

  // The product below a sum with a bias, which is taken for `bias`; the edge itself where none is added.
  Output WithoutBias(Output edge, Output* bias) {
    *bias = kNothing;
    const int64_t biased = loop_.Made(edge, "BiasAdd");
    if (biased >= 0 && loop_.nodes().Attr(biased, &NodeContext::String, "data_format") == "NHWC") {
      *bias = loop_.At(biased).inputs[1];
      return loop_.At(biased).inputs[0];
    }
    // A sum broadcasts: one vector it must be, and of more than one element.
    Output product = edge;
    loop_.InEitherOrder(loop_.Computed(edge, "add"), [&](Output a, Output b) {
      const sdk::Shape shape = loop_.pass().shape(b);
      if (shape.rank() != 1 || shape[0] < 2 || !loop_.IsInvariant(b, DeviceOf(edge))) return false;
      *bias = b, product = a;
      return true;
    });
    return product;
  }
  std::string DeviceOf(Output edge) { return loop_.At(MadeOf(edge).node).device; }
  int64_t Product(Output edge) {
    const int64_t id = loop_.Made(edge, "MatMul");
    Nodes& nodes = loop_.nodes();
    return id >= 0 && !nodes.Attr(id, &NodeContext::Bool, "transpose_a") &&
                   !nodes.Attr(id, &NodeContext::Bool, "transpose_b")
               ? id
               : -1;
  }
  // x W.
  bool InputProduct(Output edge) {
    const int64_t product = Product(edge);
    if (product < 0 || !Step(loop_.At(product).inputs[0])) return false;
    cell_.kernel = loop_.At(product).inputs[1];
    return true;
  }
  // x of this turn.
  bool Step(Output edge) {
    const int64_t item = loop_.Made(edge, "TensorListGetItem"), read = loop_.Made(edge, "TensorArrayReadV3");
    if (item < 0 && read < 0) return false;
    const std::vector<Output> inputs = loop_.At(item < 0 ? read : item).inputs;
    const std::optional<int64_t> t = StateOf(inputs[1]);
    const Output x = item < 0 ? ArrayOf(inputs[0], inputs[2]) : ListOf(inputs[0], inputs[2]);
    if (!t.has_value() || x.node < 0 || (cell_.x.node >= 0 && (!IsSameEdge(x, cell_.x) || *t != cell_.t))) return false;
    cell_.x = x;
    cell_.t = *t;
    return true;
  }
  // The tensor whose steps a list has.
  Output ListOf(Output list, Output asked) {
    const LoopGraph::Source source = loop_.SourceOf(list);
    if (source.kind != LoopGraph::Source::Kind::kOutside || loop_.At(source.edge.node).op != "TensorListFromTensor")
      return kNothing;
    const Output x = loop_.At(source.edge.node).inputs[0];
    return IsShapeOf(x, asked) ? x : kNothing;
  }
  // The same of a tensor array that nobody wrote to before.
  Output ArrayOf(Output handle, Output flow) {
    const LoopGraph::Source array = loop_.SourceOf(handle), written = loop_.SourceOf(flow);
    if (array.kind != LoopGraph::Source::Kind::kOutside || written.kind != array.kind ||
        loop_.At(array.edge.node).op != "TensorArrayV3")
      return kNothing;
    const Nodes::Node scatter = loop_.At(written.edge.node);
    if (scatter.op != "TensorArrayScatterV3" || !IsSameEdge(loop_.Plain(scatter.inputs[0]), array.edge) ||
        !IsSameEdge(loop_.Plain(scatter.inputs[3]), {array.edge.node, 1, 0}))
      return kNothing;
    // As many places as x has steps, or it fails.
    return loop_.nodes().AllBelow(scatter.inputs[1]).has_value() ? scatter.inputs[2] : kNothing;
  }
  // [x, y]: the edge of y.
  Output BesideStep(Output edge) {
    const int64_t id = loop_.Made(edge, "ConcatV2");
    if (id < 0 || loop_.At(id).inputs.size() != 3) return kNothing;
    const std::vector<Output> inputs = loop_.At(id).inputs;
    const std::optional<int64_t> axis = loop_.NumberOf(inputs[2]);
    return (axis == 1 || axis == -1) && Step(inputs[0]) ? inputs[1] : kNothing;
  }
  // [x, y] W + b: the edge of y, and those of W and b.
  Output JoinedProduct(Output edge, Output* weights, Output* bias) {
    const int64_t product = Product(WithoutBias(edge, bias));
    if (product < 0) return kNothing;
    *weights = loop_.At(product).inputs[1];
    return BesideStep(loop_.At(product).inputs[0]);
  }
  // Whether a list of x's steps has elements of the shape that is asked for: a constant's dims, or any.
  bool IsShapeOf(Output x, Output asked) {
    const LoopGraph::Source source = loop_.SourceOf(asked);
    const auto dims =
        source.kind == LoopGraph::Source::Kind::kVariable ? std::nullopt : loop_.nodes().Integers(source.edge);
    if (!dims.has_value()) return false;
    if (loop_.pass().shape(source.edge).rank() == 0) return dims->front() == -1;
    const sdk::Shape shape = loop_.pass().shape(x);
    const auto fits = [&](size_t at, int64_t dim) {
      return (*dims)[at] == -1 || ((*dims)[at] >= 0 && (dim < 0 || dim == (*dims)[at]));
    };
    return dims->size() == 2 && fits(0, shape[1]) && fits(1, shape[2]);
  }
  // h U: the edge of U.
  Output StateProduct(Output edge, int64_t h) {
    const int64_t product = Product(edge);
    return product >= 0 && loop_.IsVariable(loop_.At(product).inputs[0], h) ? loop_.At(product).inputs[1] : kNothing;
  }
  // A state's columns, as far as anything says.
  int64_t CellsOf(int64_t merge, Output becomes) {
    const int64_t initial = loop_.pass().shape(loop_.VariableOf(merge)->initial)[1];
    return initial >= 0 ? initial : loop_.pass().shape(becomes)[1];
  }

  // ---- LSTM ----

  // The gate of that number (of Keras's i, f, g, o) below a function.
  bool Gate(Output edge, std::string_view function, int64_t number) {
    constexpr int64_t kJoined[] = {0, 2, 1, 3};
    edge = Of(edge, function);
    if (cell_.joined && number == 1) edge = WithoutForget(edge);
    const std::optional<Part> part = PartOf(edge);
    if (!part.has_value() || part->whole.node < 0 || (gates_.node >= 0 && !IsSameEdge(gates_, part->whole)) ||
        !part->Is(4, cell_.joined ? kJoined[number] : number, cell_.cells))
      return false;
    gates_ = part->whole;
    return true;
  }
  Output WithoutForget(Output edge) {
    cell_.forget = 0;
    if (edge.node < 0) return edge;
    Output gate = edge;
    loop_.InEitherOrder(loop_.Computed(edge, "add"), [&](Output a, Output b) {
      const std::optional<float> number = loop_.RealOf(b);
      if (!number.has_value()) return false;
      gate = a, cell_.forget = *number;
      return true;
    });
    return gate;
  }
  bool LstmOutput(Output h) {
    Output new_c = kNothing;
    gates_ = kNothing;
    const auto output = [&](Output gate, Output state) {
      new_c = Of(state, "tanh");
      return new_c.node >= 0 && loop_.Computed(gate, "sigmoid") >= 0;
    };
    Output output_gate = kNothing;
    const auto either = [&](Output a, Output b) { return output(a, b) && (output_gate = a, true); };
    if (!loop_.InEitherOrder(loop_.Computed(h, "mul"), either)) return false;
    int64_t c = -1;
    const auto kept = [&](Output gate, Output state) {
      const std::optional<int64_t> merge = StateOf(state);
      if (!merge.has_value()) return false;
      c = *merge;
      cell_.cells = CellsOf(c, MadeOf(new_c));
      return Gate(gate, "sigmoid", 1);
    };
    const auto added = [&](Output gate, Output candidate) {
      return Gate(gate, "sigmoid", 0) && Gate(candidate, "tanh", 2);
    };
    const auto sum = [&](Output a, Output b) {
      return loop_.InEitherOrder(loop_.Computed(a, "mul"), kept) &&
             loop_.InEitherOrder(loop_.Computed(b, "mul"), added);
    };
    if (!loop_.InEitherOrder(loop_.Computed(new_c, "add"), sum) || !Gate(output_gate, "sigmoid", 3)) return false;
    return LstmGates() && (cell_.states = {{cell_.states[0].merge, MadeOf(h)}, {c, MadeOf(new_c)}}, true);
  }
  bool LstmGates() {
    if (cell_.joined) {
      const Output y = JoinedProduct(gates_, &cell_.kernel, &cell_.bias);
      const std::optional<int64_t> h = y.node < 0 ? std::nullopt : StateOf(y);
      if (h.has_value()) cell_.states = {{*h, kNothing}};
      return h.has_value();
    }
    const Output products = WithoutBias(gates_, &cell_.bias);
    return loop_.InEitherOrder(loop_.Computed(products, "add"), [&](Output of_x, Output of_h) {
      const int64_t product = Product(of_h);
      const std::optional<int64_t> h = product < 0 ? std::nullopt : StateOf(loop_.At(product).inputs[0]);
      if (!h.has_value() || !InputProduct(of_x)) return false;
      cell_.recurrent = loop_.At(product).inputs[1];
      cell_.states = {{*h, kNothing}};
      return true;
    });
  }

  // ---- GRU ----

  bool GruOutput(Output h) {
    int64_t update = -1, state = -1;
    Output candidate = kNothing;
    const auto kept = [&](Output gate, Output before) {
      const std::optional<int64_t> merge = StateOf(before);
      if (!merge.has_value()) return false;
      update = loop_.Computed(gate, "sigmoid"), state = *merge;
      return update >= 0;
    };
    const auto rest = [&](Output share, Output value) {
      const int64_t sub = loop_.Computed(share, "sub");
      if (sub < 0 || loop_.RealOf(loop_.At(sub).inputs[0]) != 1.0F ||
          loop_.Computed(loop_.At(sub).inputs[1], "sigmoid") != update)
        return false;
      candidate = Of(value, "tanh");
      return candidate.node >= 0;
    };
    const auto mixed = [&](Output a, Output b) {
      return loop_.InEitherOrder(loop_.Computed(a, "mul"), kept) && loop_.InEitherOrder(loop_.Computed(b, "mul"), rest);
    };
    if (!loop_.InEitherOrder(loop_.Computed(h, "add"), mixed)) return false;
    cell_.states = {{state, MadeOf(h)}};
    cell_.cells = CellsOf(state, MadeOf(h));
    return GruUpdate(loop_.At(update).inputs[0]) && GruCandidate(candidate);
  }
  bool JoinedGruOutput(Output h) {
    std::optional<Part> gates;
    Output candidate = kNothing;
    int64_t state = -1;
    const auto is = [&](Output edge, int64_t number) {
      const std::optional<Part> part = PartOf(edge);
      if (!part.has_value() || part->whole.node < 0 || part->parts != 2 || part->index != number ||
          (gates.has_value() && !IsSameEdge(gates->whole, part->whole)))
        return false;
      gates = part;
      return true;
    };
    const auto kept = [&](Output gate, Output before) {
      const std::optional<int64_t> merge = StateOf(before);
      if (!merge.has_value() || !is(gate, 1)) return false;
      state = *merge;
      return true;
    };
    const auto rest = [&](Output share, Output value) {
      const int64_t sub = loop_.Computed(share, "sub");
      if (sub < 0 || loop_.RealOf(loop_.At(sub).inputs[0]) != 1.0F || !is(loop_.At(sub).inputs[1], 1)) return false;
      candidate = Of(value, "tanh");
      return candidate.node >= 0;
    };
    const auto mixed = [&](Output a, Output b) {
      return (gates.reset(), loop_.InEitherOrder(loop_.Computed(a, "mul"), kept)) &&
             loop_.InEitherOrder(loop_.Computed(b, "mul"), rest);
    };
    if (!loop_.InEitherOrder(loop_.Computed(h, "add"), mixed)) return false;
    const Output sum = Of(gates->whole, "sigmoid");
    if (sum.node < 0) return false;
    const Output before = JoinedProduct(sum, &cell_.kernel, &cell_.bias);
    if (before.node < 0 || !loop_.IsVariable(before, state)) return false;
    const Output kept_of = JoinedProduct(candidate, &cell_.candidate, &cell_.candidate_bias);
    const auto reset = [&](Output gate, Output value) { return loop_.IsVariable(value, state) && is(gate, 0); };
    if (kept_of.node < 0 || !loop_.InEitherOrder(loop_.Computed(kept_of, "mul"), reset)) return false;
    cell_.states = {{state, MadeOf(h)}};
    cell_.cells = CellsOf(state, MadeOf(h));
    cell_.reset_after = false;
    return true;
  }
  // Part `number` of 3 of the input's sum, which is the same for all.
  bool OfInput(Output edge, int64_t number) {
    const std::optional<Part> part = PartOf(edge);
    if (!part.has_value() || part->whole.node < 0 || !part->Is(3, number, cell_.cells)) return false;
    if (of_x_.node >= 0) return IsSameEdge(of_x_, part->whole);
    Output bias = kNothing;
    if (!InputProduct(WithoutBias(part->whole, &bias))) return false;
    of_x_ = part->whole;
    cell_.bias = bias;
    return true;
  }
  // The same of the state's, of as many parts as hang on where the reset gate stands.
  bool OfState(Output edge, int64_t number, int64_t parts) {
    const std::optional<Part> part = PartOf(edge);
    if (!part.has_value() || part->whole.node < 0) return false;
    if (of_h_.node < 0) {
      Output bias = kNothing;
      const Output weights = StateProduct(WithoutBias(part->whole, &bias), cell_.states[0].merge);
      if (weights.node < 0) return false;
      of_h_ = part->whole;
      cell_.recurrent = weights, cell_.recurrent_bias = bias;
    }
    if (number == 0) update_ = *part;
    return IsSameEdge(of_h_, part->whole) &&
           (part->Is(parts, number, cell_.cells) || (number == 0 && part->Is(2, 0, cell_.cells)));
  }
  bool GruUpdate(Output sum) {
    of_x_ = of_h_ = kNothing;
    return loop_.InEitherOrder(loop_.Computed(sum, "add"),
                               [&](Output x, Output h) { return OfInput(x, 0) && OfState(h, 0, 3); });
  }
  bool Reset(Output gate, int64_t parts) {
    const Output sum = Of(gate, "sigmoid");
    return sum.node >= 0 && update_.Is(parts, 0, cell_.cells) &&
           loop_.InEitherOrder(loop_.Computed(sum, "add"),
                               [&](Output x, Output h) { return OfInput(x, 1) && OfState(h, 1, parts); });
  }
  bool GruCandidate(Output sum) {
    return loop_.InEitherOrder(loop_.Computed(sum, "add"),
                               [&](Output x, Output h) { return OfInput(x, 2) && (ResetAfter(h) || ResetBefore(h)); });
  }
  bool ResetAfter(Output product) {
    cell_.reset_after = true;
    const int64_t columns = loop_.pass().shape(cell_.recurrent)[1];
    return (columns < 0 || cell_.cells < 0 || columns == 3 * cell_.cells) &&
           loop_.InEitherOrder(loop_.Computed(product, "mul"),
                               [&](Output gate, Output value) { return Reset(gate, 3) && OfState(value, 2, 3); });
  }
  // (r h) U', where U' and what z and r are made of are parts of one matrix.
  bool ResetBefore(Output edge) {
    cell_.reset_after = false;
    const int64_t product = Product(edge);
    if (product < 0 || cell_.recurrent_bias.node >= 0) return false;
    const auto reset = [&](Output gate, Output h) {
      return loop_.IsVariable(h, cell_.states[0].merge) && Reset(gate, 2);
    };
    if (!loop_.InEitherOrder(loop_.Computed(loop_.At(product).inputs[0], "mul"), reset)) return false;
    const std::optional<Part> gates = PartOf(cell_.recurrent), candidate = PartOf(loop_.At(product).inputs[1]);
    if (!gates.has_value() || !candidate.has_value() || gates->whole.node < 0 || candidate->whole.node < 0 ||
        cell_.cells < 0)
      return false;
    if (gates->parts != 0 || gates->from != 0 || gates->to != 2 * cell_.cells || !candidate->Is(3, 2, cell_.cells) ||
        !loop_.IsSame(gates->whole, candidate->whole))
      return false;
    // What is cut out to the end must end there.
    if (loop_.pass().shape(loop_.SourceOf(gates->whole).edge)[1] != 3 * cell_.cells && candidate->to != 3 * cell_.cells)
      return false;
    cell_.recurrent = gates->whole;
    return true;
  }

  LoopGraph& loop_;
  RecurrentCell cell_;
  Output gates_ = kNothing;                    // an LSTM's
  Output of_x_ = kNothing, of_h_ = kNothing;  // a GRU's sums
  Part update_;                               // of the state's, for z
};

}  // namespace

std::optional<RecurrentCell> FindCell(LoopGraph& loop, Output h) {
  Matcher matcher(loop);
  for (const bool joined : {false, true}) {
    if (auto cell = matcher.Lstm(h, joined)) return cell;
    if (auto cell = matcher.Gru(h, joined)) return cell;
  }
  return std::nullopt;
}

}  // namespace tenon::passes
