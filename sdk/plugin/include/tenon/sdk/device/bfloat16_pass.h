// SPDX-License-Identifier: Apache-2.0
// Steps of sessions of precision bfloat16: which nodes of a device compute in 16 bits, and where casts stand between them and those that stay in float32.
//
//   bool Can() { return ...; }                      // this processor
//   constexpr sdk::Bfloat16Device kDevice = {"CPU", &Can, "...", {...}};
//   void Run(sdk::PassContext& p) { sdk::RunBfloat16Pass(p, kDevice); }
//   const tenon_graph_pass kPass = sdk::DefinePass<Run>("bfloat16", sdk::kBfloat16Ops, TENON_PRECISION_ALLOW_BFLOAT16);
//
// A device whose kernels gain by bfloat16 brings such a pass, and is in turn expected to have kernels in bfloat16 of all of kBfloat16Rules.
//
// Three kinds of ops. Products gain by being in bfloat16. What stands between products follows them where that costs less than casts would: it moves
// numbers, compares them, or does to each element what rounds no more than storing it does. All else stays in float32: softmax, sums and means, losses, statistics
// and parameters of normalisations, variables and what updates them. Which nodes follow is one minimum cut (minimum_cut.h): a node in bfloat16 saves or costs
// time, and so does a cast where two sides meet, once for all that read the same value. So the number of casts is as small as the time they take makes it, none
// goes back and forth, and what would gain less than its casts cost is left alone.
//
// Where it matters, nothing is rounded that need not be: a product whose readers are in float32 gives its float32 sums, and so does the gradient of a filter. Constants are cast once, when
// the step is planned; variables once a step, however many read them.
//
// A device may have kernels that take several nodes at once, and only where all of these are of one type. It says so by groups of nodes, which are in bfloat16 together or not at
// all; in these, and nowhere else, ops of kBfloat16GroupedRules are too: the kernel must not round what nodes of float32 would not have rounded.
#ifndef TENON_SDK_DEVICE_BFLOAT16_PASS_H_
#define TENON_SDK_DEVICE_BFLOAT16_PASS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/kernel.h"
#include "tenon/sdk/kernel/half.h"
#include "tenon/sdk/op/graph_pass.h"
#include "tenon/sdk/device/minimum_cut.h"

namespace tenon::sdk {

// What the device gains, in nanoseconds of one core or of the whole device: only how they compare matters.
struct Bfloat16Costs {
  double product;           // saved by each multiply-add
  double smallest_product;  // multiply-adds of a node, below which its kernels save nothing, and it only follows
  double cast;              // what a cast takes, an element
  double call;              // and besides
  double moved;             // saved by each element that is moved or compared
  double computed;          // lost by each element of arithmetic; negative: saved
  double curve;             // lost by each element of exponentials and the like; negative: saved
};

struct Bfloat16Device {
  std::string_view type;     // as in device names: "CPU"
  bool (*can)();             // whether this machine's computes in bfloat16
  std::string_view cannot;   // why not, for people
  Bfloat16Costs costs;
};

enum class Bfloat16Kind { kProduct, kDepthwise, kView, kMove, kArithmetic, kCurve, kNormalization, kNormalizationGradient };

struct Bfloat16Rule {
  std::string_view op;
  Bfloat16Kind kind;
  std::string_view attributes;  // that a copy has, with commas
};

inline constexpr std::string_view kBfloat16Window = "strides,padding,explicit_paddings,data_format,dilations";
inline constexpr std::string_view kBfloat16MaxPool = "ksize,strides,padding,explicit_paddings,data_format", kBfloat16AvgPool = "ksize,strides,padding,data_format";
inline constexpr std::string_view kBfloat16Slice = "begin_mask,end_mask,ellipsis_mask,new_axis_mask,shrink_axis_mask";

// Every input and output of float32 is of bfloat16 then, but the parameters and statistics of normalisations.
inline constexpr Bfloat16Rule kBfloat16Rules[] = {
    {"MatMul", Bfloat16Kind::kProduct, "transpose_a,transpose_b"},
    {"BatchMatMul", Bfloat16Kind::kProduct, "adj_x,adj_y"},
    {"BatchMatMulV2", Bfloat16Kind::kProduct, "adj_x,adj_y"},
    {"BatchMatMulV3", Bfloat16Kind::kProduct, "adj_x,adj_y"},
    {"Conv2D", Bfloat16Kind::kProduct, kBfloat16Window},
    {"Conv2DBackpropInput", Bfloat16Kind::kProduct, kBfloat16Window},
    {"Conv2DBackpropFilter", Bfloat16Kind::kProduct, kBfloat16Window},
    {"DepthwiseConv2dNative", Bfloat16Kind::kDepthwise, kBfloat16Window},
    {"BiasAdd", Bfloat16Kind::kArithmetic, "data_format"},
    {"FusedBatchNormV2", Bfloat16Kind::kNormalization, "epsilon,exponential_avg_factor,data_format,is_training"},
    {"FusedBatchNormV3", Bfloat16Kind::kNormalization, "epsilon,exponential_avg_factor,data_format,is_training"},
    {"FusedBatchNormGradV2", Bfloat16Kind::kNormalizationGradient, "epsilon,data_format,is_training"},
    {"FusedBatchNormGradV3", Bfloat16Kind::kNormalizationGradient, "epsilon,data_format,is_training"},
    {"Relu", Bfloat16Kind::kMove, ""},
    {"Relu6", Bfloat16Kind::kMove, ""},
    {"LeakyRelu", Bfloat16Kind::kArithmetic, "alpha"},
    {"ReluGrad", Bfloat16Kind::kMove, ""},
    {"Relu6Grad", Bfloat16Kind::kMove, ""},
    {"LeakyReluGrad", Bfloat16Kind::kArithmetic, "alpha"},
    {"Maximum", Bfloat16Kind::kMove, ""},
    {"Minimum", Bfloat16Kind::kMove, ""},
    {"Neg", Bfloat16Kind::kMove, ""},
    {"Add", Bfloat16Kind::kArithmetic, ""},
    {"AddV2", Bfloat16Kind::kArithmetic, ""},
    {"AddN", Bfloat16Kind::kArithmetic, ""},
    {"Sub", Bfloat16Kind::kArithmetic, ""},
    {"Mul", Bfloat16Kind::kArithmetic, ""},
    {"Elu", Bfloat16Kind::kCurve, ""},
    {"EluGrad", Bfloat16Kind::kArithmetic, ""},
    {"Tanh", Bfloat16Kind::kCurve, ""},
    {"TanhGrad", Bfloat16Kind::kArithmetic, ""},
    {"Sigmoid", Bfloat16Kind::kCurve, ""},
    {"SigmoidGrad", Bfloat16Kind::kArithmetic, ""},
    {"Erf", Bfloat16Kind::kCurve, ""},
    {"MaxPool", Bfloat16Kind::kMove, kBfloat16MaxPool},
    {"MaxPoolGrad", Bfloat16Kind::kMove, kBfloat16MaxPool},
    {"AvgPool", Bfloat16Kind::kArithmetic, kBfloat16AvgPool},
    {"AvgPoolGrad", Bfloat16Kind::kArithmetic, kBfloat16AvgPool},
    {"Concat", Bfloat16Kind::kMove, ""},
    {"ConcatV2", Bfloat16Kind::kMove, ""},
    {"Pack", Bfloat16Kind::kMove, "axis"},
    {"Unpack", Bfloat16Kind::kMove, "num,axis"},
    {"Split", Bfloat16Kind::kMove, "num_split"},
    {"SplitV", Bfloat16Kind::kMove, "num_split"},
    {"Slice", Bfloat16Kind::kMove, ""},
    {"StridedSlice", Bfloat16Kind::kMove, kBfloat16Slice},
    {"Pad", Bfloat16Kind::kMove, ""},
    {"PadV2", Bfloat16Kind::kMove, ""},
    {"Tile", Bfloat16Kind::kMove, ""},
    {"Transpose", Bfloat16Kind::kMove, ""},
    {"SelectV2", Bfloat16Kind::kMove, ""},
    {"Reshape", Bfloat16Kind::kView, ""},
    {"Squeeze", Bfloat16Kind::kView, "squeeze_dims"},
    {"ExpandDims", Bfloat16Kind::kView, ""},
    {"Identity", Bfloat16Kind::kView, ""},
    {"StopGradient", Bfloat16Kind::kView, ""},
};

// Only in groups.
inline constexpr Bfloat16Rule kBfloat16GroupedRules[] = {
    {"Softmax", Bfloat16Kind::kCurve, ""},
    {"Sum", Bfloat16Kind::kArithmetic, "keep_dims"},
    {"RealDiv", Bfloat16Kind::kArithmetic, ""},
    {"Einsum", Bfloat16Kind::kProduct, "equation"},
};
using Bfloat16Groups = std::vector<std::vector<int64_t>>;  // of nodes; none is in two

template <size_t... kIndices>
consteval std::array<tenon_span, sizeof...(kIndices) + 1> Bfloat16OpNames(std::index_sequence<kIndices...>) {
  return {ToSpan(kBfloat16Rules[kIndices].op)..., TENON_SPAN("Const")};  // constants that are fed are not among those that a pass is told of
}
inline constexpr auto kBfloat16Ops = Bfloat16OpNames(std::make_index_sequence<std::size(kBfloat16Rules)>());
// Of a pass with groups.
inline constexpr auto kBfloat16OpsWithGroups = [] {
  std::array<tenon_span, kBfloat16Ops.size() + std::size(kBfloat16GroupedRules)> ops{};
  auto* to = std::copy(kBfloat16Ops.begin(), kBfloat16Ops.end(), ops.data());
  for (const Bfloat16Rule& rule : kBfloat16GroupedRules) *to++ = ToSpan(rule.op);
  return ops;
}();

// One call of the pass.
class Bfloat16Pass {
 public:
  Bfloat16Pass(PassContext& p, const Bfloat16Device& device, const Bfloat16Groups& groups) : p_(p), device_(device), groups_(groups) {}

  void Run() {
    if (!p_.ok()) return;
    Read();
    if (!device_.can()) return Refuse();
    for (size_t id = 0; id < nodes_.size() && p_.ok(); ++id)
      if (nodes_[id].rule != nullptr) Weigh(static_cast<int64_t>(id));
    if (p_.ok() && gains_ && !Choose()) return;  // it is told why
    if (p_.ok()) Build();
  }

 private:
  using Kind = Bfloat16Kind;
  struct Reader {
    int64_t node;
    int input;
  };
  struct Node {
    std::string op, device;
    bool is_constant = false;
    std::vector<Output> inputs;
    std::vector<std::vector<Reader>> readers;  // of each output
    const Bfloat16Rule* rule = nullptr;        // NULL: it stays as it is
    std::vector<bool> narrow_inputs, narrow_outputs;  // those that would be of bfloat16
    bool is_grouped = false;
    int64_t saved = 0;                         // in picoseconds
    int in = MinimumCut::kFar, out = MinimumCut::kFar;  // what it computes in, and what it gives, in the cut
  };
  Node& At(int64_t id) { return nodes_[static_cast<size_t>(id)]; }
  static bool IsProduct(const Node& node) { return node.rule != nullptr && (node.rule->kind == Kind::kProduct || node.rule->kind == Kind::kDepthwise); }
  // Gives its float32 sums where all that read it want those.
  static bool GivesSums(const Node& node) {
    return !node.is_grouped && (node.op == "MatMul" || node.op == "BatchMatMul" || node.op == "BatchMatMulV2" || node.op == "BatchMatMulV3");
  }
  static bool IsFilterGradient(const Node& node) { return node.op == "Conv2DBackpropFilter"; }

  // ---- What is there ----

  void Read() {
    using Rules = std::unordered_map<std::string_view, const Bfloat16Rule*>;
    Rules rules;
    for (const Bfloat16Rule& rule : kBfloat16Rules) rules.emplace(rule.op, &rule);
    Rules of_groups = rules;
    for (const Bfloat16Rule& rule : kBfloat16GroupedRules) of_groups.emplace(rule.op, &rule);
    const std::string here = Concat("/device:", device_.type, ":");
    std::vector<bool> may(static_cast<size_t>(p_.node_count()));
    for (const int64_t id : p_.nodes()) may[static_cast<size_t>(id)] = true;
    nodes_.resize(may.size());
    for (const auto& group : groups_)
      for (const int64_t id : group) At(id).is_grouped = true;
    for (size_t id = 0; id < nodes_.size(); ++id) {
      Node& node = nodes_[id];
      node.device = p_.DeviceOf(static_cast<int64_t>(id));
      const bool ours = may[id] && node.device.find(here) != std::string::npos;
      p_.With(static_cast<int64_t>(id), [&](NodeContext& c) {
        node.op = c.op();
        node.inputs.resize(static_cast<size_t>(c.input_count()));
        node.readers.resize(static_cast<size_t>(c.output_count()));
        node.is_constant = may[id] && node.op == "Const";
        const Rules& known = node.is_grouped ? of_groups : rules;
        const auto rule = ours ? known.find(node.op) : known.end();
        if (rule != known.end()) Narrow(c, *rule->second, static_cast<int64_t>(id), &node);
      });
      for (size_t i = 0; i < node.inputs.size(); ++i) node.inputs[i] = p_.input(static_cast<int64_t>(id), static_cast<int>(i));
    }
    for (size_t id = 0; id < nodes_.size(); ++id)
      for (size_t i = 0; i < nodes_[id].inputs.size(); ++i)
        if (const Output source = nodes_[id].inputs[i]; source.node >= 0) At(source.node).readers[static_cast<size_t>(source.index)].push_back({static_cast<int64_t>(id), static_cast<int>(i)});
  }
  // Which of its edges would be of bfloat16; none: it stays.
  void Narrow(NodeContext& c, const Bfloat16Rule& rule, int64_t id, Node* node) {
    const bool norm = rule.kind == Kind::kNormalization, gradient = rule.kind == Kind::kNormalizationGradient;
    if ((norm || gradient) && c.Type("U") != TENON_DT_FLOAT) return;
    bool any = false;
    node->narrow_inputs.resize(static_cast<size_t>(c.input_count()));
    for (int i = 0; i < c.input_count(); ++i) {
      if (p_.InputIsReference(id, i)) return;  // is read when the node runs, and no sooner
      node->narrow_inputs[static_cast<size_t>(i)] = c.input_type(i) == TENON_DT_FLOAT && (norm ? i == 0 : gradient ? i < 2 : true);
    }
    node->narrow_outputs.resize(static_cast<size_t>(c.output_count()));
    for (int i = 0; i < c.output_count(); ++i) {
      node->narrow_outputs[static_cast<size_t>(i)] = c.output_type(i) == TENON_DT_FLOAT && (i == 0 || !(norm || gradient));
      any = any || node->narrow_outputs[static_cast<size_t>(i)];
    }
    if (any) node->rule = &rule;
  }

  void Refuse() {
    static std::atomic<bool> told{false};
    bool any = false;
    for (size_t id = 0; id < nodes_.size(); ++id) {
      if (!IsProduct(nodes_[id])) continue;
      any = true;
      if (p_.ok()) p_.Explain(static_cast<int64_t>(id), Concat("stays in float32: ", device_.cannot));
    }
    if (!any || told.exchange(true)) return;
    const std::string text = Concat("precision bfloat16: what runs on ", device_.type, " is computed in float32: ", device_.cannot);
    tenon_plugin_host->log(TENON_LOG_WARNING, ToSpan(text));
  }

  // ---- What each gains ----

  // Of dims that are not known a usual size.
  static double Size(int64_t dim) {
    constexpr double kUsual = 32;
    return dim < 0 ? kUsual : static_cast<double>(dim);
  }
  static double Elements(const Shape& shape) {
    if (!shape.known_rank()) return 0;
    double count = 1;
    for (const int64_t dim : shape.dims()) count *= Size(dim);
    return count;
  }
  static int64_t Price(double ns) {
    constexpr double kPicoseconds = 1e3, kMost = 1e15;
    return static_cast<int64_t>(std::clamp(ns * kPicoseconds, -kMost, kMost));
  }
  int64_t CastPrice(Output edge) { return Price(device_.costs.call + device_.costs.cast * Elements(p_.shape(edge))); }

  void Weigh(int64_t id) {
    Node& node = At(id);
    const Bfloat16Costs& costs = device_.costs;
    double elements = 0;
    for (size_t k = 0; k < node.narrow_outputs.size(); ++k)
      if (node.narrow_outputs[k]) elements += Elements(p_.shape({id, static_cast<int32_t>(k), 0}));
    switch (node.rule->kind) {
      case Kind::kProduct: {
        const double work = MultiplyAdds(id);
        if (!p_.ok()) return;
        const bool small = work < costs.smallest_product;
        const double as_others = -elements * costs.computed;  // where it takes as long as its memory
        node.saved = Price(small ? as_others : std::max(work * costs.product, as_others));
        gains_ = gains_ || !small;
        return;
      }
      case Kind::kDepthwise:
      case Kind::kNormalization:
      case Kind::kNormalizationGradient:
      case Kind::kMove: node.saved = Price(elements * costs.moved); return;
      case Kind::kView: return;
      case Kind::kArithmetic: node.saved = -Price(elements * costs.computed); return;
      case Kind::kCurve: node.saved = -Price(elements * costs.curve); return;
    }
  }
  double MultiplyAdds(int64_t id) {
    const Node& node = At(id);
    // Each dim stands in two of the three, those of batches in all: of these it is too many.
    if (node.op == "Einsum") return std::sqrt(Elements(p_.shape(node.inputs[0])) * Elements(p_.shape(node.inputs.back())) * Elements(p_.shape({id, 0, 0})));
    const auto area = [](const Shape& filter) { return filter.known_rank() && filter.rank() == 4 ? Elements(filter.Slice(0, 3)) : 0; };
    if (node.op == "Conv2D") return Elements(p_.shape({id, 0, 0})) * area(p_.shape(node.inputs[1]));
    if (node.op == "Conv2DBackpropInput") return Elements(p_.shape(node.inputs[2])) * area(p_.shape(node.inputs[1]));
    if (IsFilterGradient(node)) return Elements(p_.shape(node.inputs[2])) * area(p_.shape({id, 0, 0}));
    const Shape a = p_.shape(node.inputs[0]), b = p_.shape(node.inputs[1]), product = p_.shape({id, 0, 0});
    if (!p_.ok() || !a.known_rank() || !product.known_rank() || a.rank() < 2 || product.rank() < 2) return 0;
    bool turned = false;
    p_.With(id, [&](NodeContext& c) { turned = c.Bool(node.op == "MatMul" ? "transpose_a" : "adj_x"); });
    return Elements(product) * Size(a[turned ? -2 : -1]);
  }

  // ---- Who computes in bfloat16: near in the cut ----

  bool Choose() {
    constexpr uint64_t kMostSteps = 200'000'000;  // a second
    MinimumCut cut;
    for (Node& node : nodes_) {
      if (node.rule == nullptr) continue;
      node.in = node.out = cut.Add();
      if (IsProduct(node)) node.out = IsFilterGradient(node) ? MinimumCut::kFar : cut.Add();
    }
    for (size_t id = 0; id < nodes_.size() && p_.ok(); ++id) {
      const Node& node = nodes_[id];
      if (node.rule != nullptr) {
        node.saved > 0 ? cut.Price(MinimumCut::kNear, node.in, node.saved) : cut.Price(node.in, MinimumCut::kFar, -node.saved);
        if (node.out != node.in && node.out != MinimumCut::kFar) {
          cut.Price(node.out, node.in, MinimumCut::kNever);
          if (!GivesSums(node)) cut.Price(node.in, node.out, CastPrice({static_cast<int64_t>(id), 0, 0}));
        }
      }
      for (size_t k = 0; k < node.readers.size(); ++k) Meet(static_cast<int64_t>(id), static_cast<int32_t>(k), &cut);
    }
    if (!p_.ok()) return false;
    for (const auto& group : groups_) Unite(group, &cut);
    const auto near = cut.Solve(kMostSteps);
    if (!near) {
      const std::string text = "precision bfloat16: the step has so many nodes between its products that where to put casts was not found in time; it is computed in float32";
      tenon_plugin_host->log(TENON_LOG_WARNING, ToSpan(text));
      return false;
    }
    near_ = *near;
    return true;
  }
  // What one of the nodes computes in, all of them do.
  void Unite(const std::vector<int64_t>& group, MinimumCut* cut) {
    for (size_t i = 0; i < group.size(); ++i) {
      const int one = At(group[i]).in, next = At(group[(i + 1) % group.size()]).in;
      if (one != next) cut->Price(one, next, MinimumCut::kNever);
    }
  }
  // The casts of one output: one of it for all readers in bfloat16, or one back for all in float32.
  void Meet(int64_t id, int32_t index, MinimumCut* cut) {
    const Node& node = At(id);
    const Output edge{id, index, 0};
    const bool narrow = node.rule != nullptr && node.narrow_outputs[static_cast<size_t>(index)];
    const auto& readers = node.readers[static_cast<size_t>(index)];
    const auto side = [&](const Reader& reader) { return ReadsNarrow(reader) ? At(reader.node).in : MinimumCut::kFar; };
    const bool read_narrow = std::any_of(readers.begin(), readers.end(), [&](const Reader& reader) { return ReadsNarrow(reader); });
    if (!narrow && !read_narrow) return;
    const int from = narrow ? node.out : MinimumCut::kFar;
    const int64_t price = CastPrice(edge);
    if (read_narrow && !node.is_constant) {
      const int cast = cut->Add();
      cut->Price(cast, from, price);
      for (const Reader& reader : readers) cut->Price(side(reader), cast, MinimumCut::kNever);
    }
    if (narrow && from != MinimumCut::kFar) {
      const int back = cut->Add();
      cut->Price(from, back, price);
      for (const Reader& reader : readers) cut->Price(back, side(reader), MinimumCut::kNever);
      if (readers.empty()) cut->Price(back, MinimumCut::kFar, MinimumCut::kNever);  // it is fetched, or nobody's
    }
  }
  bool ReadsNarrow(const Reader& reader) {
    const Node& node = At(reader.node);
    return node.rule != nullptr && node.narrow_inputs[static_cast<size_t>(reader.input)];
  }
  bool Near(int side) const { return near_[static_cast<size_t>(side)]; }
  bool IsChosen(int64_t id) { return gains_ && At(id).rule != nullptr && Near(At(id).in); }

  // ---- The new nodes ----

  void Build() {
    for (size_t id = 0; id < nodes_.size() && p_.ok(); ++id) {
      if (IsChosen(static_cast<int64_t>(id))) {
        BuildAll(static_cast<int64_t>(id));
      } else if (IsProduct(nodes_[id])) {
        p_.Explain(static_cast<int64_t>(id), "stays in float32: it would gain less than the casts around it cost");
      }
    }
  }
  // The node, after those in bfloat16 that it reads. No loop goes through these alone: what closes one is not among the rules.
  void BuildAll(int64_t id) {
    std::vector<std::pair<int64_t, size_t>> path = {{id, 0}};
    while (!path.empty() && p_.ok()) {
      const int64_t at = path.back().first;
      if (made_.contains(at)) {
        path.pop_back();
        continue;
      }
      const Node& node = At(at);
      if (path.back().second == node.inputs.size()) {
        Make(at);
        path.pop_back();
        continue;
      }
      const size_t input = path.back().second++;
      const Output source = node.inputs[input];
      if (source.node >= 0 && node.narrow_inputs[input] && IsChosen(source.node) && !made_.contains(source.node)) path.push_back({source.node, 0});
    }
  }

  void Make(int64_t id) {
    const Node& node = At(id);
    const bool sums = IsProduct(node) && (IsFilterGradient(node) || (GivesSums(node) && !Near(node.out)));
    std::vector<Output> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (node.narrow_inputs[i]) inputs[i] = Narrowed(inputs[i], id);
    std::vector<Attribute> attributes;
    p_.With(id, [&](NodeContext& c) {
      for (std::string_view rest = node.rule->attributes; !rest.empty();) {
        const size_t comma = std::min(rest.find(','), rest.size());
        std::string_view name = rest.substr(0, comma);
        rest.remove_prefix(std::min(comma + 1, rest.size()));
        const tenon_attr_value value = c.Raw(name);
        if (sums && name == "transpose_a") name = "adj_x";
        if (sums && name == "transpose_b") name = "adj_y";
        attributes.emplace_back(name, value);
      }
    });
    std::string_view op = node.op;
    if (sums) op = IsFilterGradient(node) ? "Tenon>Conv2DBackpropFilterSums" : "BatchMatMulV3";
    if (op == "BatchMatMulV3") attributes.push_back(Attribute::Type("Tout", sums ? TENON_DT_FLOAT : TENON_DT_BFLOAT16));
    p_.Begin(id, node.device);
    const int64_t made = p_.Node(op, inputs, attributes);
    if (!p_.ok()) return;
    made_.emplace(id, std::pair(made, sums));
    p_.Explain(made, "in bfloat16");
    // What shows a value of float32 in another shape goes on to do so for others: whoever fetches it gets it as it is.
    if (node.rule->kind == Kind::kView && IsExact(node.inputs[0].node)) {
      exact_.insert(id);
      return;
    }
    std::vector<Output> outputs;
    for (size_t k = 0; k < node.readers.size(); ++k) {
      const Output output{made, static_cast<int32_t>(k), 0};
      outputs.push_back(node.narrow_outputs[k] && !sums ? p_.Cast(output, TENON_DT_FLOAT) : output);
    }
    p_.Replace(id, outputs);
  }
  // The edge in bfloat16.
  Output Narrowed(Output edge, int64_t reader) {
    if (const auto made = made_.find(edge.node); made != made_.end() && !made->second.second && At(edge.node).narrow_outputs[static_cast<size_t>(edge.index)])
      return {made->second.first, edge.index, 0};
    const auto [cast, is_new] = casts_.try_emplace({edge.node, edge.index});
    if (is_new && At(edge.node).is_constant) {
      cast->second = NarrowedConstant(edge.node);
    } else if (is_new) {
      // Where the value is, so that half of it travels; on devices of other types the reader's own.
      const std::string& there = At(edge.node).device;
      const bool same_type = there.find(Concat("/device:", device_.type, ":")) != std::string::npos;
      // Where that one stands in the order too, or what comes after it would wait until all else is done.
      p_.Begin(edge.node, same_type ? there : At(reader).device);
      cast->second = p_.Cast(edge, TENON_DT_BFLOAT16);
    }
    return cast->second;
  }

  bool IsExact(int64_t id) { return !IsChosen(id) || exact_.contains(id); }
  Output NarrowedConstant(int64_t id) {
    std::vector<Bfloat16> values;
    tenon_tensor_view view{};
    p_.With(id, [&](NodeContext& c) {
      const tenon_attr_value value = c.Raw("value");
      if (value.kind != TENON_ATTR_TENSOR || value.count != 1) return c.Fail(TENON_INTERNAL, "a constant without a value");
      view = *static_cast<const tenon_tensor_view*>(value.data);
      const auto* const from = reinterpret_cast<const float*>(static_cast<const char*>(view.dl.data) + view.dl.byte_offset);
      values.resize(view.byte_size / sizeof(float));
      for (size_t i = 0; i < values.size(); ++i) values[i] = Bfloat16(from[i]);
    });
    p_.Begin(id, At(id).device);
    return p_.Constant(TENON_DT_BFLOAT16, {view.dl.shape, view.dl.ndim, 0}, values.data(), values.size() * sizeof(Bfloat16));
  }

  PassContext& p_;
  const Bfloat16Device& device_;
  const Bfloat16Groups& groups_;
  std::vector<Node> nodes_;
  bool gains_ = false;  // there is a product that may
  std::vector<bool> near_;
  std::unordered_map<int64_t, std::pair<int64_t, bool>> made_;  // what stands for a node, and whether it gives float32
  std::unordered_set<int64_t> exact_;                           // of those, what still gives the same in float32 besides
  std::map<std::pair<int64_t, int32_t>, Output> casts_;
};

inline void RunBfloat16Pass(PassContext& p, const Bfloat16Device& device, const Bfloat16Groups& groups = {}) { Bfloat16Pass(p, device, groups).Run(); }

}  // namespace tenon::sdk
#endif  // TENON_SDK_DEVICE_BFLOAT16_PASS_H_
