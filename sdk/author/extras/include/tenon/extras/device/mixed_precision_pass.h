// SPDX-License-Identifier: Apache-2.0
// Steps of sessions of precision bfloat16 or float16: which nodes of a device compute in 16 bits, and where casts stand
// between them and those that stay in float32.
//
//   bool Can() { return ...; }                      // this processor
//   constexpr sdk::MixedPrecisionDevice kDevice = {.type = "CPU", .can = &Can, .cannot = "...", .costs = {...}};
//   void Run(sdk::PassContext& p) { sdk::RunMixedPrecisionPass(p, kDevice); }
//   const tenon_graph_pass kPass = sdk::DefinePass<Run>("bfloat16", {}, TENON_PRECISION_ALLOW_BFLOAT16,
//                                                       sdk::kMixedPrecisionProperties);
//
// A device whose kernels gain by such a type brings a pass for it. A node may be in 16 bits where its op says that it
// "fits_half" (tenon/op.h) and the device has a kernel for it: an op of anybody's.
//
// Three kinds of ops. Products gain by being in 16 bits. What stands between products follows them where that costs
// less than casts would: it moves numbers, compares them, or does to each element what rounds no more than storing it
// does. All else stays in float32: softmax, sums and means, losses, statistics and parameters of normalisations,
// variables and what updates them. Which nodes follow is one minimum cut (minimum_cut.h): a node in 16 bits saves or
// costs time, and so does a cast where two sides meet, once for all that read the same value. So the number of casts is
// as small as the time they take makes it, none goes back and forth, and what would gain less than its casts cost is
// left alone.
//
// Where it matters, nothing is rounded that need not be: a product whose readers are in float32 gives its float32 sums,
// and so does the gradient of a filter. Constants are cast once, when the step is planned; variables once a step,
// however many read them, and where the device asks for it by one node for all.
//
// A device may have kernels that take several nodes at once, and only where all of these are of one type. It says so by
// groups of nodes, which are in 16 bits together or not at all; in these, and nowhere else, are also ops that do not
// fit by themselves (Softmax, sums): the kernel must not round what nodes of float32 would not have rounded.
//
// float16 holds numbers of 2^-14 to 65504 alone. What reads a constant of larger numbers, such as the -1e9 of a mask,
// stays in float32, and so does what its result goes through, up to a product or a function with bounds. So does what
// reads a constant of nothing but smaller numbers, and what a value goes through that was multiplied by one. Of numbers
// that are computed or fed nothing is known: what overflows is infinite. Gradients vanish unless the loss is scaled
// (Micikevicius et al. 2018), and a step that scales it looks whether they are finite: a step that trains and asks for
// no IsFinite stays in float32, unless the device is told otherwise.
#ifndef TENON_SDK_DEVICE_MIXED_PRECISION_PASS_H_
#define TENON_SDK_DEVICE_MIXED_PRECISION_PASS_H_

#include <algorithm>
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
#include "tenon/sdk/op/graph_view.h"
#include "tenon/extras/device/minimum_cut.h"

namespace tenon::sdk {

inline constexpr float kLargestHalf = 65504, kSmallestNormalHalf = 0x1p-14f;

// What the device gains, in nanoseconds of one core or of the whole device: only how they compare matters.
struct MixedPrecisionCosts {
  double product;           // saved by each multiply-add
  double smallest_product;  // multiply-adds of a node, below which its kernels save nothing, and it only follows
  double cast;              // what a cast takes, an element
  double call;              // and besides
  double moved;             // saved by each element that is moved or compared
  double computed;          // lost by each element of arithmetic; negative: saved
  double curve;             // lost by each element of exponentials and the like; negative: saved
};

struct MixedPrecisionDevice {
  std::string_view type;     // as in device names: "CPU"
  uint32_t dtype = TENON_DT_BFLOAT16;  // or TENON_DT_HALF: what is computed in
  bool trains_unscaled = true;         // of float16: steps too that train and do not look for overflow
  bool (*can)();             // whether this machine's computes in it
  std::string_view cannot;   // why not, for people
  bool joins_casts = false;  // casts of many variables are one call: by its kernel of Tenon>CastN
  MixedPrecisionCosts costs;
};

using MixedPrecisionGroups = std::vector<std::vector<int64_t>>;  // of nodes; none is in two

// What ops the pass is called for.
inline constexpr uint64_t kMixedPrecisionProperties = TENON_PROPERTY_PRODUCT;

// One call of the pass.
class MixedPrecisionPass {
 public:
  MixedPrecisionPass(PassContext& p, const MixedPrecisionDevice& device, const MixedPrecisionGroups& groups)
      : p_(p), device_(device), groups_(groups), graph_(p.cursor(), [&p](tenon_status* status) { p.Check(status); }) {}

  void Run() {
    if (!p_.ok()) return;
    Read();
    if (!device_.can()) return Refuse();
    if (device_.dtype == TENON_DT_HALF && !MayBeHalf()) return;
    for (int64_t id = 0; id < graph_.count() && p_.ok(); ++id)
      if (At(id).may) Weigh(id);
    if (p_.ok() && gains_ && !Choose()) return;  // it is told why
    if (p_.ok()) Build();
  }

 private:
  struct Own {
    bool is_constant = false;
    bool may = false;                                 // be in 16 bits; else it stays as it is
    std::vector<bool> narrow_inputs, narrow_outputs;  // those that would be of 16 bits
    bool is_grouped = false;
    int64_t saved = 0;                                   // in picoseconds
    int in = MinimumCut::kFar, out = MinimumCut::kFar;  // what it computes in, and what it gives, in the cut
  };
  using Reader = GraphReader;
  using Node = GraphView<Own>::Node;
  Node& At(int64_t id) { return graph_.at(id); }
  static bool IsProduct(const Node& node) { return node.may && node.Is(TENON_PROPERTY_PRODUCT); }
  static bool IsMatrixProduct(const Node& node) { return node.op == "MatMul" || node.op.starts_with("BatchMatMul"); }
  // Gives its float32 sums where all that read it want those.
  static bool GivesSums(const Node& node) { return !node.is_grouped && IsMatrixProduct(node); }
  static bool IsFilterGradient(const Node& node) { return node.op == "Conv2DBackpropFilter"; }

  // ---- What is there ----

  void Read() {
    for (const auto& group : groups_)
      for (const int64_t id : group) At(id).is_grouped = true;
    for (int64_t id = 0; id < graph_.count(); ++id) {
      Node& node = At(id);
      if (!p_.Runs(id)) continue;
      node.is_constant = node.op == "Const";
      const bool may = node.is_grouped || node.Is(TENON_PROPERTY_FITS_HALF);
      if (may && !node.Is(kOfMoreThanInputs) && IsHere(node)) Narrow(id, &node);
    }
  }
  // Which of its edges would be of 16 bits; none: it stays.
  void Narrow(int64_t id, Node* node) {
    NodeTypes types;
    p_.With(id, [&](NodeContext& c) { types = TypesOf(c); });
    for (int i = 0; i < static_cast<int>(types.inputs.size()); ++i)
      if (p_.InputIsReference(id, i)) return;  // is read when the node runs, and no sooner
    if (!p_.ok()) return;
    std::vector<uint32_t> inputs = types.inputs;
    node->narrow_inputs.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      node->narrow_inputs[i] =
          inputs[i] == TENON_DT_FLOAT && (node->IsElement(i) || !node->Is(TENON_PROPERTY_NORMALIZES));
      if (node->narrow_inputs[i]) inputs[i] = device_.dtype;
    }
    std::optional<std::vector<uint32_t>> outputs = p_.RunsLike(id, node->device, inputs, AttributesOf(*node));
    node->narrow_outputs.resize(types.outputs.size());
    for (size_t k = 0; outputs && k < outputs->size(); ++k) {
      node->narrow_outputs[k] = types.outputs[k] == TENON_DT_FLOAT && (*outputs)[k] == device_.dtype;
      node->may = node->may || node->narrow_outputs[k];
      if (!node->narrow_outputs[k] && (*outputs)[k] != types.outputs[k]) outputs.reset(), node->may = false;
    }
  }
  // Of 16 bits, what its inputs' types do not determine.
  std::vector<Attribute> AttributesOf(const Node& node) const {
    return node.op == "BatchMatMulV3" ? std::vector<Attribute>{Attribute::Type("Tout", device_.dtype)}
                                      : std::vector<Attribute>{};
  }
  struct NodeTypes {
    std::vector<uint32_t> inputs, outputs;
  };
  static NodeTypes TypesOf(NodeContext& c) {
    NodeTypes types;
    for (int i = 0; i < c.input_count(); ++i) types.inputs.push_back(c.input_type(i));
    for (int i = 0; i < c.output_count(); ++i) types.outputs.push_back(c.output_type(i));
    return types;
  }

  void Refuse() {
    static std::atomic<bool> told{false};
    bool any = false;
    for (int64_t id = 0; id < graph_.count(); ++id) {
      if (!IsProduct(At(id))) continue;
      any = true;
      if (p_.ok()) p_.Explain(id, Concat("stays in float32: ", device_.cannot));
    }
    if (!any || told.exchange(true)) return;
    const std::string text =
        Concat("precision ", TypeName(), ": what runs on ", device_.type, " is computed in float32: ", device_.cannot);
    tenon_plugin_host->log(TENON_LOG_WARNING, ToSpan(text));
  }
  std::string_view TypeName() const { return device_.dtype == TENON_DT_HALF ? "float16" : "bfloat16"; }

  // ---- What float16 cannot hold ----

  // False: nothing is to be in float16, which is said.
  bool MayBeHalf() {
    bool trains = false, asks = false;
    for (int64_t id = 0; id < graph_.count() && p_.ok(); ++id) {
      trains = trains || Trains(id);
      asks = asks || At(id).op == "IsFinite";
    }
    if (trains && !asks && !device_.trains_unscaled) {
      for (int64_t id = 0; id < graph_.count(); ++id)
        if (IsProduct(At(id)) && p_.ok())
          p_.Explain(id,
                     "stays in float32: the step trains and does not ask whether gradients are finite, as one with a "
                     "scaled loss does; in float16 they may vanish");
      return false;
    }
    LeaveOutOfRange(trains);
    return p_.ok();
  }
  // Gradients, and what changes numbers that are kept.
  bool Trains(int64_t id) {
    const std::string_view op = At(id).op;
    const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
    if ((has("Grad") && !op.ends_with("Gradient")) || has("Backprop") || has("Apply")) return true;
    bool assigns = false;
    if (op.starts_with("Assign"))
      p_.With(id, [&](NodeContext& c) { assigns = c.input_count() > 1 && c.input_type(1) == TENON_DT_FLOAT; });
    return assigns;
  }
  enum class Range { kHeld, kLarge, kSmall };
  Range RangeOf(int64_t constant) {
    Range range = Range::kHeld;
    WithFloats(constant, [&](const tenon_tensor_view&, std::span<const float> values) {
      float largest = 0;
      for (const float value : values) {
        const float size = std::abs(value);
        if (std::isfinite(size)) largest = std::max(largest, size);
      }
      range = largest > kLargestHalf                         ? Range::kLarge
              : largest > 0 && largest < kSmallestNormalHalf ? Range::kSmall
                                                             : Range::kHeld;
    });
    return range;
  }
  // What may give numbers of its inputs' size. By the op alone: a product of another device, or one that was left
  // already, is one too.
  static bool GivesAsLarge(const Node& node) {
    constexpr std::string_view kBounded[] = {"Softmax", "LogSoftmax", "Relu6", "Sigmoid", "Tanh", "Erf"},
                               kOthers[] = {"MatMul", "Conv2D", "Conv2d", "Einsum", "FusedBatchNorm"};
    return std::find(std::begin(kBounded), std::end(kBounded), node.op) == std::end(kBounded) &&
           std::none_of(std::begin(kOthers), std::end(kOthers),
                        [&](std::string_view part) { return node.op.find(part) != std::string::npos; });
  }
  // Whether what the reader makes of such a constant is out of range itself. A scaled loss takes care of small
  // gradients.
  static bool GivesOutOfRange(const Node& reader, int input, Range range, bool trains) {
    const bool divides = reader.op == "RealDiv" || reader.op == "Div";
    const bool is_large = (range == Range::kLarge) != (divides && input == 1);
    return GivesAsLarge(reader) && (is_large || ((divides || reader.op == "Mul") && !trains));
  }
  void LeaveOutOfRange(bool trains) {
    std::vector<int64_t> open;
    std::vector<bool> seen(static_cast<size_t>(graph_.count()));
    const auto leave = [&](int64_t id, bool gives_too) {
      Node& node = At(id);
      if (gives_too && !seen[static_cast<size_t>(id)]) {
        seen[static_cast<size_t>(id)] = true;
        open.push_back(id);
      }
      if (IsProduct(node) && p_.ok()) p_.Explain(id, "stays in float32: it reads numbers that float16 does not hold");
      node.may = false;
    };
    for (int64_t id = 0; id < graph_.count() && p_.ok(); ++id) {
      if (!At(id).is_constant) continue;
      const Range range = RangeOf(id);
      if (range == Range::kHeld) continue;
      for (const Reader& reader : At(id).readers[0])
        leave(reader.node, GivesOutOfRange(At(reader.node), reader.input, range, trains));
    }
    while (!open.empty() && p_.ok()) {
      const int64_t id = open.back();
      open.pop_back();
      for (const auto& readers : At(id).readers)
        for (const Reader& reader : readers) leave(reader.node, GivesAsLarge(At(reader.node)));
    }
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
  int64_t CastPrice(Output edge) {
    constexpr double kJoined = 64;  // such casts are one call, about
    const double call =
        device_.joins_casts && IsPlainRead(edge.node) ? device_.costs.call / kJoined : device_.costs.call;
    return Price(call + device_.costs.cast * Elements(p_.shape(edge)));
  }

  void Weigh(int64_t id) {
    Node& node = At(id);
    const MixedPrecisionCosts& costs = device_.costs;
    double elements = 0;
    for (size_t k = 0; k < node.narrow_outputs.size(); ++k)
      if (node.narrow_outputs[k]) elements += Elements(p_.shape({id, static_cast<int32_t>(k), 0}));
    const double as_elements = -elements * costs.computed;  // where it takes as long as its memory
    if (node.Is(TENON_PROPERTY_VIEW)) return;
    // A depthwise filter has a few products for each element, and waits for memory.
    const bool moves = node.Is(TENON_PROPERTY_EXACT | TENON_PROPERTY_NORMALIZES) || node.op == "MaxPoolGrad" ||
                       node.op == "DepthwiseConv2dNative";
    if (moves) node.saved = Price(elements * costs.moved);
    else if (node.Is(TENON_PROPERTY_CURVE)) node.saved = -Price(elements * costs.curve);
    else if (!node.Is(TENON_PROPERTY_PRODUCT)) node.saved = Price(as_elements);
    else {
      const double work = MultiplyAdds(id);
      if (!p_.ok()) return;
      const bool small = work < costs.smallest_product;
      node.saved = Price(small ? as_elements : std::max(work * costs.product, as_elements));
      gains_ = gains_ || !small;
    }
  }
  double MultiplyAdds(int64_t id) {
    const Node& node = At(id);
    const auto area = [](const Shape& filter) {
      return filter.known_rank() && filter.rank() == 4 ? Elements(filter.Slice(0, 3)) : 0;
    };
    if (node.op == "Conv2D") return Elements(p_.shape({id, 0, 0})) * area(p_.shape(node.inputs[1]));
    if (node.op == "Conv2DBackpropInput") return Elements(p_.shape(node.inputs[2])) * area(p_.shape(node.inputs[1]));
    if (IsFilterGradient(node)) return Elements(p_.shape(node.inputs[2])) * area(p_.shape({id, 0, 0}));
    // Each dim stands in two of the three, those of batches in all: of these it is too many.
    if (node.inputs.empty()) return 0;
    if (!IsMatrixProduct(node))
      return std::sqrt(Elements(p_.shape(node.inputs[0])) * Elements(p_.shape(node.inputs.back())) *
                       Elements(p_.shape({id, 0, 0})));
    const Shape a = p_.shape(node.inputs[0]), b = p_.shape(node.inputs[1]), product = p_.shape({id, 0, 0});
    if (!p_.ok() || !a.known_rank() || !product.known_rank() || a.rank() < 2 || product.rank() < 2) return 0;
    bool turned = false;
    p_.With(id, [&](NodeContext& c) { turned = c.Bool(node.op == "MatMul" ? "transpose_a" : "adj_x"); });
    return Elements(product) * Size(a[turned ? -2 : -1]);
  }

  // ---- Who computes in 16 bits: near in the cut ----

  bool Choose() {
    constexpr uint64_t kMostSteps = 200'000'000;  // a second
    MinimumCut cut;
    for (Node& node : graph_.nodes()) {
      if (!node.may) continue;
      node.in = node.out = cut.Add();
      if (IsProduct(node)) node.out = IsFilterGradient(node) ? MinimumCut::kFar : cut.Add();
    }
    for (int64_t id = 0; id < graph_.count() && p_.ok(); ++id) {
      const Node& node = At(id);
      if (node.may) {
        node.saved > 0 ? cut.Price(MinimumCut::kNear, node.in, node.saved)
                       : cut.Price(node.in, MinimumCut::kFar, -node.saved);
        if (node.out != node.in && node.out != MinimumCut::kFar) {
          cut.Price(node.out, node.in, MinimumCut::kNever);
          if (!GivesSums(node)) cut.Price(node.in, node.out, CastPrice({id, 0, 0}));
        }
      }
      for (size_t k = 0; k < node.readers.size(); ++k) Meet(id, static_cast<int32_t>(k), &cut);
    }
    if (!p_.ok()) return false;
    for (const auto& group : groups_) Unite(group, &cut);
    const auto near = cut.Solve(kMostSteps);
    if (!near) {
      const std::string text = Concat("precision ", TypeName(),
                                      ": the step has so many nodes between its products that where to put casts was "
                                      "not found in time; it is computed in float32");
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
  // The casts of one output: one of it for all readers in 16 bits, or one back for all in float32.
  void Meet(int64_t id, int32_t index, MinimumCut* cut) {
    const Node& node = At(id);
    const Output edge{id, index, 0};
    const bool narrow = node.may && node.narrow_outputs[static_cast<size_t>(index)];
    const auto& readers = node.readers[static_cast<size_t>(index)];
    const auto side = [&](const Reader& reader) { return ReadsNarrow(reader) ? At(reader.node).in : MinimumCut::kFar; };
    const bool read_narrow =
        std::any_of(readers.begin(), readers.end(), [&](const Reader& reader) { return ReadsNarrow(reader); });
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
    return node.may && node.narrow_inputs[static_cast<size_t>(reader.input)];
  }
  bool Near(int side) const { return near_[static_cast<size_t>(side)]; }
  bool IsChosen(int64_t id) { return gains_ && At(id).may && Near(At(id).in); }

  // ---- The new nodes ----

  void Build() {
    if (device_.joins_casts) JoinCasts();
    for (int64_t id = 0; id < graph_.count() && p_.ok(); ++id) {
      if (IsChosen(id)) {
        BuildAll(id);
      } else if (IsProduct(At(id))) {
        p_.Explain(id, "stays in float32: it would gain less than the casts around it cost");
      }
    }
  }
  // A variable's value as it is when the step begins: neither in a loop nor a branch, and it waits for nothing.
  bool IsPlainRead(int64_t id) {
    const Node& node = At(id);
    if (node.op != "ReadVariableOp" || p_.control_input_count(id) != 0) return false;
    const int64_t handle = node.inputs[0].node;
    return handle >= 0 && At(handle).op == "VarHandleOp" && p_.control_input_count(handle) == 0;
  }
  // Of each device's variables, where the first one is read.
  void JoinCasts() {
    std::map<std::string, std::vector<int64_t>> reads_on;
    for (int64_t id = 0; id < graph_.count(); ++id) {
      const Node& node = At(id);
      if (!IsHere(node) || node.readers.empty() || !IsPlainRead(id)) continue;
      const auto reads = [&](const Reader& reader) { return ReadsNarrow(reader) && IsChosen(reader.node); };
      if (std::any_of(node.readers[0].begin(), node.readers[0].end(), reads))
        reads_on[node.device].push_back(id);
    }
    for (const auto& [device, reads] : reads_on) {
      if (reads.size() < 2) continue;
      std::vector<Output> values;
      for (const int64_t id : reads) values.push_back({id, 0, 0});
      p_.Begin(reads.front(), device);
      const int64_t made = p_.Node("Tenon>CastN", values, {Attribute::Type("DstT", device_.dtype)});
      for (size_t k = 0; k < reads.size(); ++k)
        casts_.emplace(std::pair(reads[k], int32_t{0}), Output{made, static_cast<int32_t>(k), 0});
    }
  }
  bool IsHere(const Node& node) const {
    return node.device.find(Concat("/device:", device_.type, ":")) != std::string::npos;
  }

  // The node, after those in 16 bits that it reads. What closes a loop of ours does not fit; a stranger's that says so
  // reads what comes round in float32.
  void BuildAll(int64_t id) {
    std::vector<std::pair<int64_t, size_t>> path = {{id, 0}};
    begun_.insert(id);
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
      if (source.node >= 0 && node.narrow_inputs[input] && IsChosen(source.node) && begun_.insert(source.node).second)
        path.push_back({source.node, 0});
    }
  }

  void Make(int64_t id) {
    const Node& node = At(id);
    const bool sums = IsProduct(node) && (IsFilterGradient(node) || (GivesSums(node) && !Near(node.out)));
    std::vector<Output> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (node.narrow_inputs[i]) inputs[i] = Narrowed(inputs[i], id);
    p_.Begin(id, node.device);
    const int64_t made = sums ? MakeSums(id, inputs) : p_.Like(id, inputs, AttributesOf(node));
    if (!p_.ok()) return;
    made_.emplace(id, std::pair(made, sums));
    p_.Explain(made, Concat("in ", TypeName()));
    // What shows a value of float32 in another shape goes on to do so for others: whoever fetches it gets it as it is.
    if (node.Is(TENON_PROPERTY_VIEW) && IsExact(node.inputs[0].node)) {
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
  // The node of float32 sums of what is in 16 bits.
  int64_t MakeSums(int64_t id, const std::vector<Output>& inputs) {
    const Node& node = At(id);
    std::vector<std::pair<std::string_view, std::string_view>>
        names;  // of an attribute, and of what it is in the sums'
    if (IsFilterGradient(node))
      for (const std::string_view name : {"strides", "padding", "explicit_paddings", "data_format", "dilations"})
        names.emplace_back(name, name);
    else if (node.op == "MatMul")
      names = {{"transpose_a", "adj_x"}, {"transpose_b", "adj_y"}};
    else
      names = {{"adj_x", "adj_x"}, {"adj_y", "adj_y"}};
    std::vector<Attribute> attributes;
    p_.With(id, [&](NodeContext& c) {
      for (const auto& [name, sums] : names) attributes.emplace_back(sums, c.Raw(name));
    });
    if (IsFilterGradient(node)) return p_.Node("Tenon>Conv2DBackpropFilterSums", inputs, attributes);
    attributes.push_back(Attribute::Type("Tout", TENON_DT_FLOAT));
    return p_.Node("BatchMatMulV3", inputs, attributes);
  }
  // The edge in 16 bits.
  Output Narrowed(Output edge, int64_t reader) {
    if (const auto made = made_.find(edge.node);
        made != made_.end() && !made->second.second && At(edge.node).narrow_outputs[static_cast<size_t>(edge.index)])
      return {made->second.first, edge.index, 0};
    const auto [cast, is_new] = casts_.try_emplace({edge.node, edge.index});
    if (is_new && At(edge.node).is_constant) {
      cast->second = NarrowedConstant(edge.node);
    } else if (is_new) {
      // Where the value is, so that half of it travels; on devices of other types the reader's own.
      const std::string& there = At(edge.node).device;
      const bool same_type = IsHere(At(edge.node));
      // Where that one stands in the order too, or what comes after it would wait until all else is done.
      p_.Begin(edge.node, same_type ? there : At(reader).device);
      cast->second = p_.Cast(edge, device_.dtype);
    }
    return cast->second;
  }

  bool IsExact(int64_t id) { return !IsChosen(id) || exact_.contains(id); }
  // function(view, numbers) of a constant of floats; nothing is called of others.
  template <class Function>
  void WithFloats(int64_t id, Function&& function) {
    p_.With(id, [&](NodeContext& c) {
      const tenon_attr_value value = c.Raw("value");
      if (value.kind != TENON_ATTR_TENSOR || value.count != 1)
        return c.Fail(TENON_INTERNAL, "a constant without a value");
      const auto& view = *static_cast<const tenon_tensor_view*>(value.data);
      if (view.dtype != TENON_DT_FLOAT) return;
      function(view,
               std::span(reinterpret_cast<const float*>(static_cast<const char*>(view.dl.data) + view.dl.byte_offset),
                         view.byte_size / sizeof(float)));
    });
  }
  Output NarrowedConstant(int64_t id) {
    return device_.dtype == TENON_DT_HALF ? ConstantAs<Half>(id) : ConstantAs<Bfloat16>(id);
  }
  template <class T>
  Output ConstantAs(int64_t id) {
    std::vector<T> values;
    std::vector<int64_t> dims;
    WithFloats(id, [&](const tenon_tensor_view& view, std::span<const float> from) {
      dims.assign(view.dl.shape, view.dl.shape + view.dl.ndim);
      values.reserve(from.size());
      for (const float value : from) values.push_back(T(value));
    });
    p_.Begin(id, At(id).device);
    return p_.Constant(device_.dtype, {dims.data(), static_cast<int32_t>(dims.size()), 0}, values.data(),
                       values.size() * sizeof(T));
  }

  PassContext& p_;
  const MixedPrecisionDevice& device_;
  const MixedPrecisionGroups& groups_;
  GraphView<Own> graph_;
  bool gains_ = false;  // there is a product that may
  std::vector<bool> near_;
  std::unordered_map<int64_t, std::pair<int64_t, bool>> made_;  // what stands for a node, and whether it gives float32
  std::unordered_set<int64_t> begun_;                           // what is made, or read by what is being made
  std::unordered_set<int64_t> exact_;  // of those, what still gives the same in float32 besides
  std::map<std::pair<int64_t, int32_t>, Output> casts_;
};

inline void RunMixedPrecisionPass(PassContext& p, const MixedPrecisionDevice& device,
                                  const MixedPrecisionGroups& groups = {}) {
  MixedPrecisionPass(p, device, groups).Run();
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_DEVICE_MIXED_PRECISION_PASS_H_
