// SPDX-License-Identifier: Apache-2.0
// The package's pass over the steps of sessions of precision int8: products and convolutions with weights become those
// of bytes (ops/quantized/int8.cc), by the ranges of the session's calibration.
//
// A chain is Conv2D, DepthwiseConv2dNative or MatMul, then what may follow it (biases, normalisations of inference, one
// other image that is added, Relu or Relu6), each the only reader of the one before: one node of bytes takes its place.
// Where another chain reads what it makes, or a pooling or reshaping between the two, it makes bytes, and between the
// two nothing is a float; whoever else reads it gets the floats that the bytes stand for. So images stay bytes through
// a row of layers and the sums around them. All else, and every chain for which a reason is given, stays as it was.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibration.h"
#include "tenon/sdk/op/graph_view.h"
#include "tenon/sdk/package.h"
#include "tenon/session_options.h"

namespace tenon::passes {
using namespace sdk;

namespace {

struct Scale {
  float scale = 1;
  int64_t zero = 0;
};
// Bytes, and what they stand for.
struct Bytes {
  Output output{-1, 0, 0};
  Scale scale;
};

std::string NumberText(float number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

std::string Key(Output edge) { return Concat(edge.node, ":", edge.index); }

struct Chain {
  int64_t first = -1;
  std::string op, device, name;
  Output image, filter;
  std::vector<int64_t> nodes;  // from the first to the last
  std::vector<std::string> steps;
  std::vector<float> epsilons;
  std::vector<Output> vectors;
  std::optional<Output> addend;
  std::string activation;
  // Attributes as the node has them.
  std::vector<int64_t> strides, dilations, pads;
  std::string padding;
  bool transpose_b = false;
  bool gives_bytes = false;
  Output end() const { return {nodes.back(), 0, 0}; }
};

class Pass {
 public:
  explicit Pass(PassContext& p)
      : p_(p), calibration_(p, p.calibration()), graph_(p.cursor(), [&p](tenon_status* status) { p.Check(status); }) {}

  void Run() {
    if (!p_.ok()) return;
    Read();
    CheckGraph();
    Order();
    for (size_t i = order_.size(); i-- > 0 && p_.ok();)
      if (Candidate(order_[i])) Find(order_[i]);
    // Each after those whose bytes it reads, so that nothing is built within the building of another.
    std::ranges::sort(chains_, {},
                      [this](const Chain& chain) { return position_[static_cast<size_t>(chain.end().node)]; });
    for (size_t i = 0; i < chains_.size(); ++i) chain_of_.emplace(Key(chains_[i].end()), i);
    for (size_t i = 0; i < chains_.size() && p_.ok(); ++i) Build(chains_[i]);
  }

 private:
  struct Own {
    bool is_float = false;  // its first output
  };
  using Node = sdk::GraphView<Own>::Node;

  // ---- What is there ----

  void Read() {
    for (int64_t id = 0; id < graph_.count(); ++id) {
      Node& node = At(id);
      p_.With(id, [&](NodeContext& c) {
        node.is_float = c.output_count() > 0 && c.output_type(0) == TENON_DT_FLOAT;
      });
    }
  }
  Node& At(int64_t id) { return graph_.at(id); }
  std::string NameOf(Output edge) { return Concat(At(edge.node).name, ":", edge.index); }

  // Ranges of another graph would be wrong without anybody noticing.
  void CheckGraph() {
    std::unordered_map<std::string_view, const Node*> by_name;
    for (const Node& node : graph_.nodes()) by_name.emplace(node.name, &node);
    bool any = false;
    for (const auto& [tensor, range] : calibration_.ranges()) {
      const auto found = by_name.find(std::string_view(tensor).substr(0, tensor.rfind(':')));
      if (found == by_name.end()) continue;
      any = true;
      if (range.op == "-" || range.op == found->second->op) continue;
      return p_.Invalid("the calibration is of another graph: its node '", found->first, "' is of op ", range.op,
                        ", and the graph's of op ", found->second->op,
                        "; calibrate this graph (`tenon run --calibrate`)");
    }
    if (!any)
      p_.Invalid("the calibration is of another graph: of the ", calibration_.ranges().size(),
                 " tensors that it names this one's step has none; calibrate this graph (`tenon run --calibrate`)");
  }

  void Order() {
    order_ = graph_.Order();
    position_.resize(order_.size());
    weight_depth_.assign(order_.size(), kNoWeight);
    for (size_t i = 0; i < order_.size(); ++i) {
      position_[static_cast<size_t>(order_[i])] = i;
      weight_depth_[static_cast<size_t>(order_[i])] = WeightDepth(At(order_[i]));
    }
    is_candidate_.assign(order_.size(), false);
    for (const int64_t id : p_.nodes()) is_candidate_[static_cast<size_t>(id)] = true;
  }
  bool Candidate(int64_t id) const { return is_candidate_[static_cast<size_t>(id)]; }

  // Whether the value is the same in every step, as far as the graph says: a constant, a variable, or made of those in
  // few steps.
  bool IsWeight(Output edge) const {
    constexpr int kDeepest = 64;
    return edge.node >= 0 && weight_depth_[static_cast<size_t>(edge.node)] != kNoWeight &&
           weight_depth_[static_cast<size_t>(edge.node)] <= kDeepest;
  }
  // How many steps it is from a constant or variable at the most, where its inputs know that of themselves.
  int WeightDepth(const Node& node) const {
    constexpr std::string_view kSources[] = {"Const",          "VariableV2",    "Variable",
                                             "ReadVariableOp", "_VarHandlesOp", "VarHandleOp"};
    if (std::ranges::find(kSources, node.op) != std::end(kSources)) return 0;
    constexpr uint64_t kPassing = TENON_PROPERTY_ELEMENTWISE | TENON_PROPERTY_MOVES | TENON_PROPERTY_VIEW;
    if (!node.Is(kPassing) || node.Is(kOfMoreThanInputs) || node.inputs.empty()) return kNoWeight;
    int depth = 0;
    for (const Output input : node.inputs) {
      if (input.node < 0 || weight_depth_[static_cast<size_t>(input.node)] == kNoWeight) return kNoWeight;
      depth = std::max(depth, weight_depth_[static_cast<size_t>(input.node)] + 1);
    }
    return depth;
  }

  // ---- Ranges ----

  // What only passes values on is nobody's work, and in no calibration: the range is that of what comes in there.
  const CalibratedRange* RangeOf(Output edge) {
    while (edge.node >= 0) {
      if (const CalibratedRange* const range = calibration_.Find(NameOf(edge))) return range;
      const Node& node = At(edge.node);
      if (!node.Is(TENON_PROPERTY_VIEW) || edge.index != 0 || node.inputs.empty()) return nullptr;
      edge = node.inputs[ShownInput(node)];
    }
    return nullptr;
  }
  // Which input a view shows; of others, the first.
  static size_t ShownInput(const Node& node) {
    return node.Is(TENON_PROPERTY_VIEW)
               ? std::min<size_t>(static_cast<size_t>(std::countr_zero(node.elements)), node.inputs.size() - 1)
               : 0;
  }
  // None: the calibration has none. One that bytes cannot stand for is an error.
  std::optional<Scale> ScaleOf(Output edge, std::string_view reader) {
    const CalibratedRange* const range = RangeOf(edge);
    if (range == nullptr) return std::nullopt;
    if (!(std::isfinite(range->low) && std::isfinite(range->high) && range->low <= range->high)) {
      p_.Invalid("the range of '", NameOf(edge), "' in the calibration is ", NumberText(range->low), " to ",
                 NumberText(range->high), ", and ", reader,
                 range->low > range->high
                     ? " needs the numbers that it has: there were none; calibrate with batches that are not empty"
                     : " reads it, which bytes cannot hold; look with --check-numerics where it comes from, and "
                       "calibrate again");
      return std::nullopt;
    }
    constexpr double kSteps = 255;
    const double low = std::min(0.0F, range->low), high = std::max(0.0F, range->high), scale = (high - low) / kSteps;
    constexpr double kLeast = 1e-30, kMost = 1e30;  // so that no scale of two of them leaves the floats
    if (scale < kLeast || scale > kMost) return std::nullopt;
    return Scale{static_cast<float>(scale), static_cast<int64_t>(std::nearbyint(-low / scale))};
  }

  // ---- Chains, from the last to the first ----

  void Stay(int64_t id, const std::string& why) {
    if (p_.ok()) p_.Explain(id, Concat("stays in floats: ", why));
  }

  void Find(int64_t id) {
    const Node& node = At(id);
    if (taken_.contains(id)) return;
    if (!node.is_float) return Stay(id, "its numbers are no float32");
    if (node.device.find("/device:CPU:") == std::string::npos)
      return Stay(id, Concat("it runs on ", node.device, ", and 8-bit integers are for CPUs"));
    Chain chain;
    chain.first = id;
    chain.op = node.op;
    chain.device = node.device;
    chain.name = node.name;
    chain.image = node.inputs[0];
    chain.filter = node.inputs[1];
    std::string why;
    p_.With(id, [&](NodeContext& c) { why = Attributes(c, &chain); });
    if (!p_.ok()) return;
    if (why.empty() && At(chain.filter.node).op == "Enter")
      why = "its weights enter a loop, which would make integers of them in every turn";
    if (why.empty() && !IsWeight(chain.filter))
      why = Concat("'", NameOf(chain.filter), "' is no weight, but computed in the step");
    if (!why.empty()) return Stay(id, why);
    const std::string reader = Concat(node.op, " '", node.name, "'");
    if (!ScaleOf(chain.image, reader)) {
      if (!p_.ok()) return;
      return Stay(id, RangeOf(chain.image) == nullptr
                          ? Concat("the calibration has no range of '", NameOf(chain.image), "', which it reads")
                          : Concat("'", NameOf(chain.image), "' was 0 everywhere in the calibration"));
    }
    Follow(&chain);
    if (!p_.ok()) return;
    chain.gives_bytes = wanted_.contains(Key(chain.end())) && ScaleOf(chain.end(), reader).has_value();
    // Without bytes to go out nothing is added: what came before the sum is a chain.
    if (!chain.gives_bytes && chain.addend) {
      Chain shorter = chain;
      shorter.nodes.resize(sum_at_);
      shorter.addend.reset();
      shorter.activation.clear();
      chain = std::move(shorter);
      chain.gives_bytes = wanted_.contains(Key(chain.end())) && ScaleOf(chain.end(), reader).has_value();
    }
    if (!p_.ok()) return;
    for (const int64_t each : chain.nodes) taken_.insert(each);
    Want(chain.image);
    if (chain.addend) Want(*chain.addend);
    chains_.push_back(std::move(chain));
  }

  // Why it cannot be; "" when it can.
  static std::string Attributes(NodeContext& c, Chain* chain) {
    if (chain->op == "MatMul") {
      chain->transpose_b = c.Bool("transpose_b");
      return c.Bool("transpose_a") ? "its first matrix is transposed" : "";
    }
    chain->strides = c.Ints("strides");
    chain->dilations = c.Ints("dilations");
    chain->padding = std::string(c.String("padding"));
    chain->pads = c.Ints("explicit_paddings");
    return c.String("data_format") == "NHWC" ? "" : "its images have their channels first (NCHW)";
  }

  void Follow(Chain* chain) {
    chain->nodes = {chain->first};
    sum_at_ = 0;
    const Shape result = p_.shape({chain->first, 0, 0});
    for (bool goes_on = true; goes_on && p_.ok();) {
      const auto [id, input] = graph_.OnlyReader(chain->nodes.back());
      if (id < 0) return;
      const Node& node = At(id);
      if (taken_.contains(id) || !node.controls.empty() || node.device != chain->device || !node.is_float) return;
      goes_on = Takes(chain, id, input, result);
      if (goes_on || !chain->activation.empty()) chain->nodes.push_back(id);
    }
  }
  // Whether the node belongs to the chain and more may follow.
  bool Takes(Chain* chain, int64_t id, int input, const Shape& result) {
    const Node& node = At(id);
    if (node.function == "relu" || node.function == "relu6") {
      chain->activation = node.function == "relu" ? "Relu" : "Relu6";
      return false;
    }
    const bool summed = chain->addend.has_value();
    if (node.op == "BiasAdd")
      return !summed && input == 0 && IsOfFormat(id) && TakeVectors(chain, "bias", {node.inputs[1]});
    if (node.op == "FusedBatchNorm" || node.op == "FusedBatchNormV2" || node.op == "FusedBatchNormV3") {
      bool training = true;
      float epsilon = 0;
      p_.With(id, [&](NodeContext& c) { training = c.Bool("is_training"), epsilon = c.Float("epsilon"); });
      if (summed || training || input != 0 || !IsOfFormat(id)) return false;
      if (!TakeVectors(chain, "norm", {node.inputs[1], node.inputs[2], node.inputs[3], node.inputs[4]})) return false;
      chain->epsilons.push_back(epsilon);
      return true;
    }
    if (node.function != "add" || summed) return false;
    const Output other = node.inputs[static_cast<size_t>(1 - input)];
    const Shape shape = p_.shape(other);
    if (!p_.ok() || !shape.known_rank() || other.node == chain->nodes.back()) return false;
    if (shape.rank() == 1) return shape[0] > 1 && shape[0] == result[-1] && TakeVectors(chain, "bias", {other});
    if (!result.known_rank() || shape.rank() != result.rank()) return false;
    for (int d = 0; d < shape.rank(); ++d)
      if (shape[d] != result[d] || (shape[d] < 0 && d > 0)) return false;
    if (result[0] < 0 && Key(BatchOf(other)) != Key(BatchOf({chain->first, 0, 0})))
      return false;  // one of them may be broadcast
    if (!ScaleOf(other, Concat(node.op, " '", node.name, "'"))) return false;
    chain->addend = other;
    sum_at_ = chain->nodes.size();
    return true;
  }
  // What says how many examples there are: the first input of what keeps their number.
  Output BatchOf(Output edge) {
    constexpr std::string_view kKeepingToo[] = {"MatMul", "Pad", "Identity", "Squeeze"};
    const auto keeps = [&](const Node& node) {
      return node.rows != 0 || node.Is(TENON_PROPERTY_ELEMENTWISE | TENON_PROPERTY_NORMALIZES) ||
             std::ranges::find(kKeepingToo, node.op) != std::end(kKeepingToo);
    };
    std::vector<int64_t> way;
    while (edge.node >= 0) {
      if (const auto known = batch_of_.find(edge.node); known != batch_of_.end()) {
        edge = known->second;
        break;
      }
      const Node& node = At(edge.node);
      if (!keeps(node)) break;
      const auto from = std::ranges::find_if(node.inputs, [this](Output input) { return !IsWeight(input); });
      if (from == node.inputs.end()) break;
      way.push_back(edge.node);
      edge = *from;
    }
    for (const int64_t id : way) batch_of_.emplace(id, edge);
    return edge;
  }
  bool IsOfFormat(int64_t id) {
    bool is = false;
    p_.With(id, [&](NodeContext& c) { is = c.String("data_format") == "NHWC"; });
    return is;
  }
  bool TakeVectors(Chain* chain, const char* step, const std::vector<Output>& vectors) {
    for (const Output vector : vectors) {
      const Shape shape = p_.shape(vector);
      if (p_.type(vector) != TENON_DT_FLOAT || !shape.known_rank() || shape.rank() != 1) return false;
    }
    chain->steps.emplace_back(step);
    chain->vectors.insert(chain->vectors.end(), vectors.begin(), vectors.end());
    return true;
  }

  // ---- Bytes between chains ----

  // What makes of bytes what it makes of the floats that they stand for.
  bool PassesOn(int64_t id) {
    const Node& node = At(id);
    if (!node.controls.empty() || node.device.find("/device:CPU:") == std::string::npos || node.inputs.empty() ||
        node.readers.size() != 1)
      return false;
    return node.Is(TENON_PROPERTY_VIEW) ? RunsOnBytes(id)
                                        : node.op == "Pad" || (node.op == "MaxPool" && IsOfFormat(id));
  }
  bool RunsOnBytes(int64_t id) {
    const auto [known, is_new] = runs_on_bytes_.try_emplace(id, false);
    if (!is_new) return known->second;
    std::vector<uint32_t> types;
    p_.With(id, [&](NodeContext& c) {
      for (int i = 0; i < c.input_count(); ++i)
        types.push_back(At(id).IsElement(static_cast<size_t>(i)) ? uint32_t{TENON_DT_UINT8} : c.input_type(i));
    });
    return known->second = p_.RunsLike(id, At(id).device, types).has_value();
  }
  Output PassedBy(int64_t id) const { return graph_.at(id).inputs[ShownInput(graph_.at(id))]; }
  // Somebody reads it as bytes.
  void Want(Output edge) {
    while (wanted_.insert(Key(edge)).second && PassesOn(edge.node)) edge = PassedBy(edge.node);
  }
  bool MadeAsBytes(Output edge) {
    for (;;) {
      if (const auto found = chain_of_.find(Key(edge)); found != chain_of_.end())
        return chains_[found->second].gives_bytes;
      if (edge.node < 0 || !PassesOn(edge.node)) return false;
      edge = PassedBy(edge.node);
    }
  }

  // The edge as bytes, made of floats where nobody makes them.
  Bytes Get(Output edge, const Chain& reader) {
    std::vector<Output> way;  // of what passes them on, from the edge back
    const bool as_bytes = MadeAsBytes(edge);
    while (as_bytes && !bytes_.contains(Key(edge)) && !chain_of_.contains(Key(edge))) {
      way.push_back(edge);
      edge = PassedBy(edge.node);
    }
    Bytes made;
    if (const auto found = bytes_.find(Key(edge)); found != bytes_.end()) {
      made = found->second;
    } else {
      made.scale = ScaleOf(edge, reader.name).value_or(Scale());
      p_.Begin(reader.first, reader.device);
      made.output = p_.Op("Tenon>Int8Quantize", {edge}, {{"scale", made.scale.scale}, {"zero", made.scale.zero}});
      bytes_.emplace(Key(edge), made);
    }
    for (size_t i = way.size(); i-- > 0;) {
      made.output = Passed(way[i].node, made);
      bytes_.emplace(Key(way[i]), made);
    }
    return made;
  }
  // The same as the node, of bytes.
  Output Passed(int64_t id, const Bytes& bytes) {
    const Node& node = At(id);
    p_.Begin(id, node.device);
    if (node.op == "Pad")
      return p_.Op("PadV2",
                   {bytes.output, node.inputs[1], p_.ScalarOf(static_cast<double>(bytes.scale.zero), TENON_DT_UINT8)});
    std::vector<Output> inputs = node.inputs;
    inputs[ShownInput(node)] = bytes.output;
    return {p_.Like(id, inputs), 0, 0};
  }
  static Attribute List(std::string_view name, const std::vector<int64_t>& values) {
    return {name, tenon_attr_value{TENON_ATTR_INT | TENON_ATTR_LIST, 0, values.size(), values.data()}};
  }

  // ---- The new nodes ----

  void Build(const Chain& chain) {
    const Bytes image = Get(chain.image, chain);
    const Bytes addend = chain.addend ? Get(*chain.addend, chain) : Bytes();
    const Scale out = chain.gives_bytes ? ScaleOf(chain.end(), chain.name).value_or(Scale()) : Scale();
    std::vector<Output> inputs = {image.output, chain.filter};
    inputs.insert(inputs.end(), chain.vectors.begin(), chain.vectors.end());
    if (chain.addend) inputs.push_back(addend.output);
    std::vector<tenon_span> steps;
    for (const std::string& step : chain.steps) steps.push_back(ToSpan(step));
    std::vector<Attribute> attributes = {
        Attribute::Type("Tout", chain.gives_bytes ? TENON_DT_UINT8 : TENON_DT_FLOAT),
        {"M", static_cast<int64_t>(chain.vectors.size())},
        {"A", chain.addend ? 1 : 0},
        {"steps", tenon_attr_value{TENON_ATTR_STRING | TENON_ATTR_LIST, 0, steps.size(), steps.data()}},
        {"epsilons",
         tenon_attr_value{TENON_ATTR_FLOAT | TENON_ATTR_LIST, 0, chain.epsilons.size(), chain.epsilons.data()}},
        {"activation", std::string_view(chain.activation)},
        {"input_scale", image.scale.scale},
        {"input_zero", image.scale.zero},
        {"addend_scale", addend.scale.scale},
        {"addend_zero", addend.scale.zero},
        {"output_scale", out.scale},
        {"output_zero", out.zero}};
    const bool product = chain.op == "MatMul";
    if (product) {
      attributes.push_back({"transpose_b", chain.transpose_b});
    } else {
      attributes.push_back({"depthwise", chain.op == "DepthwiseConv2dNative"});
      attributes.push_back(List("strides", chain.strides));
      attributes.push_back(List("dilations", chain.dilations));
      attributes.push_back(List("explicit_paddings", chain.pads));
      attributes.push_back({"padding", std::string_view(chain.padding)});
    }
    p_.Begin(chain.first, chain.device);
    const Output made = p_.Op(product ? "Tenon>Int8MatMul" : "Tenon>Int8Conv2D", inputs, attributes);
    if (!p_.ok()) return;
    p_.Explain(made.node,
               Concat("in 8-bit integers: '", chain.name, "'",
                      chain.nodes.size() > 1 ? Concat(" to '", At(chain.nodes.back()).name, "'") : std::string(),
                      chain.gives_bytes ? ", which goes on as bytes" : ""));
    Output floats = made;
    if (chain.gives_bytes) {
      floats = p_.Op("Tenon>Int8Dequantize", {made}, {{"scale", out.scale}, {"zero", out.zero}});
      bytes_.emplace(Key(chain.end()), Bytes{made, out});
    }
    p_.Replace(chain.nodes.back(), WithOthers(chain, floats));
  }
  // A normalisation of inference gives what it was given besides: mean and variance twice, and a 0.
  std::vector<Output> WithOthers(const Chain& chain, Output floats) {
    const int64_t last = chain.nodes.back();
    const Node& node = At(last);
    std::vector<Output> outputs = {floats};
    for (size_t k = 1; k < node.readers.size(); ++k)
      outputs.push_back(k == 5 ? p_.ScalarOf(0, TENON_DT_FLOAT) : node.inputs[k % 2 == 1 ? 3 : 4]);
    return outputs;
  }

  PassContext& p_;
  const Calibration calibration_;
  sdk::GraphView<Own> graph_;
  static constexpr int kNoWeight = -1;
  std::vector<int64_t> order_;
  std::vector<size_t> position_;   // in order_
  std::vector<int> weight_depth_;  // kNoWeight: it may change from step to step
  std::vector<bool> is_candidate_;
  std::unordered_map<int64_t, Output> batch_of_;
  std::unordered_map<int64_t, bool> runs_on_bytes_;
  std::set<int64_t> taken_;
  std::set<std::string> wanted_;  // edges that somebody reads as bytes
  std::vector<Chain> chains_;
  std::unordered_map<std::string, size_t> chain_of_;  // by the edges at their ends
  std::unordered_map<std::string, Bytes> bytes_;
  size_t sum_at_ = 0;  // how many nodes of the newest chain come before its sum
};

void RunPass(PassContext& p) { Pass(p).Run(); }

constexpr tenon_span kOps[] = {TENON_SPAN("Conv2D"), TENON_SPAN("DepthwiseConv2dNative"), TENON_SPAN("MatMul")};

constexpr tenon_graph_pass kPass =
    DefinePass<RunPass>("int8", kOps, TENON_PRECISION_INT8, 0, "known-axes,recurrent-loops");

}  // namespace
}  // namespace tenon::passes

TENON_PASS_PLUGIN("tenon.passes.int8", "0.1.0", "Products and convolutions of sessions of precision int8 in bytes.",
                  tenon::passes::kPass)
