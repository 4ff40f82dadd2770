// SPDX-License-Identifier: Apache-2.0
#include "chain.h"

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conv.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/device/compiler.h"
#include "tenon/sdk/op/formula.h"
#include "tenon/sdk/op/graph_view.h"

namespace tenon::cpu_onednn {
namespace {

// A node with its attributes.
class ChainNode : public sdk::NodeContext {
 public:
  ChainNode(const tenon_graph_cursor& cursor, int64_t id)
      : NodeContext(cursor.node_services, cursor.node(cursor.graph, id)), cursor_(cursor), id_(id) {}
  int64_t id() const { return id_; }
  tenon_output source(int32_t input) const {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor_.input(cursor_.graph, id_, input, &source));
    return source;
  }
  // Its attributes' failure, if there was one, as an exception.
  void Done() { sdk::Check(Finish()); }
  sdk::WindowAttributes Window() const {
    tenon_create_args args{TENON_HEAD(tenon_create_args), services_, node_, nullptr, nullptr, nullptr, nullptr};
    sdk::CreateContext context(args);
    sdk::WindowAttributes window(context, "");
    sdk::Check(context.Finish());
    return window;
  }

  bool IsConvolution() const { return op() == "Conv2D" || op() == "DepthwiseConv2dNative"; }
  bool IsNormalization() const {
    return op() == "FusedBatchNorm" || op() == "FusedBatchNormV2" || op() == "FusedBatchNormV3";
  }
  bool IsSum() { return sdk::FunctionOf(*this) == "add"; }

 private:
  const tenon_graph_cursor& cursor_;
  int64_t id_;
};

// Nothing: it is none of those that a product can end with.
std::optional<Epilogue::Activation> ActivationOf(const tenon_graph_cursor& cursor, int64_t id) {
  using dnnl::algorithm;
  const tenon_node* const node = cursor.node(cursor.graph, id);
  const sdk::Formula formula = sdk::FormulaOf(*cursor.node_services, node);
  if (formula.size() != 1 || cursor.node_services->input_count(node) != 1 || formula[0].operands.empty() ||
      formula[0].operands[0].kind != sdk::FormulaOperand::Kind::kInput)
    return std::nullopt;
  const std::string_view function = formula[0].function;
  if (function == "relu") return {{algorithm::eltwise_relu, 0, 0}};
  if (function == "relu6") return {{algorithm::eltwise_clip, 0, 6}};
  if (function == "elu") return {{algorithm::eltwise_elu, 1, 0}};
  if (function == "tanh") return {{algorithm::eltwise_tanh, 0, 0}};
  if (function == "sigmoid") return {{algorithm::eltwise_logistic, 0, 0}};
  const bool leaks = function == "leaky_relu" && formula[0].operands.size() == 2 &&
                     formula[0].operands[1].kind == sdk::FormulaOperand::Kind::kNumber;
  if (!leaks) return std::nullopt;
  return {{algorithm::eltwise_relu, static_cast<float>(formula[0].operands[1].number), 0}};
}

// ---- claim ----

class Finder {
 public:
  Finder(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes)
      : cursor_(cursor), graph_(cursor, sdk::Check), may_(static_cast<size_t>(graph_.count())), awaited_(may_.size()) {
    for (const int64_t id : nodes) may_[static_cast<size_t>(id)] = true;
    for (const auto& node : graph_.nodes())
      for (const int64_t source : node.controls)
        if (source >= 0) awaited_[static_cast<size_t>(source)] = true;
  }

  // The nodes of the chain that begins with the convolution; itself alone when nothing follows.
  std::vector<int64_t> From(int64_t first) const {
    std::vector<int64_t> chain = {first};
    ChainNode convolution(cursor_, first);
    if (convolution.output_type(0) != TENON_DT_FLOAT &&
        !(convolution.output_type(0) == TENON_DT_BFLOAT16 && HasBfloat16()))
      return chain;
    const std::string format(convolution.String("data_format"));
    bool summed = false, activated = false;
    for (bool goes_on = true; goes_on;) {
      const sdk::GraphReader reader = graph_.OnlyReader(chain.back());
      if (reader.node < 0 || awaited_[static_cast<size_t>(chain.back())]) break;
      const auto& next = graph_.at(reader.node);
      if (next.inputs[static_cast<size_t>(reader.input)].index != 0 || !next.controls.empty()) break;
      if (!may_[static_cast<size_t>(reader.node)] || taken_[static_cast<size_t>(reader.node)]) break;
      ChainNode node(cursor_, reader.node);
      // The sums of bfloat16 may be wanted as they are.
      if (node.op() == "Cast" && node.input_type(0) == TENON_DT_BFLOAT16 && node.output_type(0) == TENON_DT_FLOAT &&
          !summed) {
        chain.push_back(reader.node);
        break;
      }
      if (activated) break;
      activated = ActivationOf(cursor_, reader.node).has_value();
      goes_on = activated || Follows(node, reader.input, format, &summed);
      if (goes_on) chain.push_back(reader.node);
    }
    return chain;
  }
  void Take(const std::vector<int64_t>& chain) {
    for (int64_t id : chain) taken_[static_cast<size_t>(id)] = true;
  }
  bool MayTake(int64_t id) const { return may_[static_cast<size_t>(id)] && !taken_[static_cast<size_t>(id)]; }

 private:
  // Whether the node belongs to the chain and more may follow.
  bool Follows(ChainNode& node, int32_t input, const std::string& format, bool* summed) const {
    if (node.op() == "BiasAdd") return input == 0 && !*summed && node.String("data_format") == format;
    if (node.IsNormalization())
      return input == 0 && !*summed && !node.Bool("is_training") && node.String("data_format") == format;
    if (!node.IsSum()) return false;
    const int32_t rank = Rank(node.source(1 - input));
    if (rank == 1 && format == "NHWC") return !*summed;
    if (rank != 4 || *summed || !SameShape(node.source(0), node.source(1))) return false;
    *summed = true;
    return true;
  }
  int32_t Rank(tenon_output edge) const { return ShapeOf(edge).rank; }
  bool SameShape(tenon_output a, tenon_output b) const {
    const tenon_shape left = ShapeOf(a), right = ShapeOf(b);
    for (int32_t d = 0; d < left.rank && left.rank == right.rank; ++d)
      if (left.dims[d] >= 0 && right.dims[d] >= 0 && left.dims[d] != right.dims[d]) return false;
    return left.rank == right.rank;
  }
  tenon_shape ShapeOf(tenon_output edge) const {
    tenon_shape shape = {nullptr, -1, 0};
    if (edge.node >= 0) sdk::Check(cursor_.output_shape(cursor_.graph, edge, &shape));
    return shape;
  }

  const tenon_graph_cursor& cursor_;
  const sdk::GraphView<> graph_;
  std::vector<bool> may_, taken_ = std::vector<bool>(may_.size());
  std::vector<bool> awaited_;  // some node waits for it, besides those that read it
};

void ClaimChains(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, const sdk::Claims& claims) {
  const auto is_convolution = [&cursor](int64_t id) { return ChainNode(cursor, id).IsConvolution(); };
  if (std::none_of(nodes.begin(), nodes.end(), is_convolution)) return;  // before the whole graph is read
  Finder finder(cursor, nodes);
  // From the last on: where two convolutions are added, the later one has the sum, and the other is there by then.
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!finder.MayTake(nodes[i]) || !is_convolution(nodes[i])) continue;
    const std::vector<int64_t> chain = finder.From(nodes[i]);
    if (chain.size() < 2) {
      claims.Refuse(nodes[i], TENON_REFUSE_COST,
                    "nothing that it could take along follows this convolution: nothing is saved");
      continue;
    }
    finder.Take(chain);
    claims.Claim(chain);
  }
}

// ---- compile ----

// The values of a vector of float32 or bfloat16.
struct ChannelValues {
  const void* data;
  ElementType type;
  float operator[](int64_t i) const {
    return type == ElementType::bf16 ? static_cast<float>(static_cast<const sdk::Bfloat16*>(data)[i])
                                     : static_cast<const float*>(data)[i];
  }
};

// A factor and a term of each channel that inputs give in each run: x -> scale x + shift, one step after the other.
struct AffineStep {
  bool is_sum;                    // of one vector; else a normalisation
  std::array<int32_t, 4> inputs;  // the vector; or scale, offset, mean, variance
  float epsilon;
};
struct Affine {
  // `value` gives the vectors of an input.
  template <class Value>
  void Compute(int64_t channels, Value&& value, float* scale, float* shift) const {
    std::fill_n(scale, channels, 1.f);
    std::fill_n(shift, channels, 0.f);
    for (const AffineStep& step : steps) {
      const ChannelValues first = value(step.inputs[0]);
      if (step.is_sum) {
        for (int64_t i = 0; i < channels; ++i) shift[i] += first[i];
        continue;
      }
      const ChannelValues offset = value(step.inputs[1]), mean = value(step.inputs[2]),
                          variance = value(step.inputs[3]);
      for (int64_t i = 0; i < channels; ++i) {
        const float factor = first[i] / std::sqrt(variance[i] + step.epsilon);
        scale[i] *= factor;
        shift[i] = (shift[i] - mean[i]) * factor + offset[i];
      }
    }
  }
  bool scales() const {
    return std::any_of(steps.begin(), steps.end(), [](const AffineStep& step) { return !step.is_sum; });
  }
  std::vector<AffineStep> steps;
};

// What a chain was compiled into.
struct Executable : sdk::Compiled {
  Executable(ForwardShares made, Affine of_inputs) : shares(std::move(made)), affine(std::move(of_inputs)) {}
  void Run(tenon_frame& frame) const {
    const sdk::RunContext c(&frame);
    if (!affine.steps.empty())
      affine.Compute(
          channels,
          [&](int32_t input) {
            return ChannelValues{c.input<char>(input), TypeOf(c.input_view(input))};
          },
          c.workspace<float>(scale_at), c.workspace<float>(shift_at));
    shares.Run(c);
  }

  ForwardShares shares;
  Affine affine;  // of values that are not constant; empty: none
  int64_t channels = 0, scale_at = 0, shift_at = 0;
};

// What a chain is made of, and its shapes.
class Builder {
 public:
  explicit Builder(const tenon_compile_args& args) : args_(args) {
    for (uint64_t i = 0; i < args.input_count; ++i) views_.push_back(&View(args.inputs[i]));
    if (args.output_count != 1) sdk::Fail(TENON_UNIMPLEMENTED, "a value within the chain is wanted too");
    views_.push_back(&View(args.outputs[0]));
  }

  std::unique_ptr<Executable> Build();

 private:
  const tenon_tensor_view& View(tenon_output edge) const {
    const tenon_tensor_view* view = nullptr;
    sdk::Check(args_.edge(args_.context, edge, &view));
    return *view;
  }
  int32_t InputOf(tenon_output edge) const {
    for (uint64_t i = 0; i < args_.input_count; ++i)
      if (args_.inputs[i].node == edge.node && args_.inputs[i].index == edge.index) return static_cast<int32_t>(i);
    sdk::Fail(TENON_UNIMPLEMENTED, "what a chain reads does not come from outside of it");
  }
  void Add(ChainNode& node);
  // An input that holds a value of each channel.
  int32_t Vector(tenon_output edge) const {
    if (sdk::DimsOf(View(edge)).size() != 1 || sdk::Count(View(edge)) != channels_)
      sdk::Fail(TENON_UNIMPLEMENTED, "a vector of ", sdk::DimsOf(View(edge)), " beside ", channels_, " channels");
    return InputOf(edge);
  }
  bool IsConstant(int32_t input) const { return views_[static_cast<size_t>(input)]->dl.data != nullptr; }

  const tenon_compile_args& args_;
  std::vector<const tenon_tensor_view*> views_;  // of the inputs, then of the output
  int64_t channels_ = 0;
  tenon_output value_ = {-1, 0, 0};  // the chain's so far
  Affine affine_;
  Epilogue epilogue_;
  bool widened_ = false;  // float32 comes out of bfloat16
};

void Builder::Add(ChainNode& node) {
  // Both operands of a sum may be another one's result; which is the chain's is the one that it made.
  const auto is_value = [&](tenon_output edge) { return edge.node == value_.node && edge.index == value_.index; };
  if (node.op() == "BiasAdd") {
    affine_.steps.push_back({true, {Vector(node.source(1))}, 0});
  } else if (node.IsNormalization()) {
    affine_.steps.push_back(
        {false,
         {Vector(node.source(1)), Vector(node.source(2)), Vector(node.source(3)), Vector(node.source(4))},
         node.Float("epsilon")});
  } else if (node.op() == "Cast") {
    widened_ = true;
  } else if (node.IsSum()) {
    const tenon_output other = node.source(is_value(node.source(0)) ? 1 : 0);
    if (sdk::DimsOf(View(other)).size() == 1) {
      affine_.steps.push_back({true, {Vector(other)}, 0});
    } else {
      const auto ours = sdk::DimsOf(View(value_)), theirs = sdk::DimsOf(View(other));
      if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end()))
        sdk::Fail(TENON_UNIMPLEMENTED, "a sum of ", ours, " and ", theirs);
      epilogue_.addend = InputOf(other);
    }
  } else if (const auto activation = ActivationOf(*args_.cursor, node.id())) {
    epilogue_.activation = *activation;
  } else {
    sdk::Fail(TENON_UNIMPLEMENTED, node.op(), " in a chain");
  }
  node.Done();
  value_ = {node.id(), 0, 0};
}

std::unique_ptr<Executable> Builder::Build() {
  ChainNode first(*args_.cursor, args_.nodes[0]);
  const bool depthwise = first.op() == "DepthwiseConv2dNative";
  const int32_t image = InputOf(first.source(0)), filter = InputOf(first.source(1));
  value_ = {first.id(), 0, 0};
  const sdk::Dims x = sdk::DimsOf(View(first.source(0))), w = sdk::DimsOf(View(first.source(1))),
                  y = sdk::DimsOf(View(value_));
  if (w.size() != 4 || x.size() != 4 || y.size() != 4) sdk::Fail(TENON_UNIMPLEMENTED, "a filter of shape ", w);
  const std::array<int64_t, 4> grouped = DepthwiseFilter(w);
  Convolution convolution(first.Window(), x, depthwise ? sdk::Dims(grouped) : w, y, TypeOf(View(first.source(0))));
  channels_ = convolution.y.channels;
  for (uint64_t i = 1; i < args_.node_count; ++i) {
    ChainNode node(*args_.cursor, args_.nodes[i]);
    Add(node);
  }
  if (widened_) convolution.result = ElementType::f32;
  if (value_.node != args_.outputs[0].node || args_.outputs[0].index != 0)
    sdk::Fail(TENON_UNIMPLEMENTED, "a value within the chain is wanted");

  const auto inputs = static_cast<int32_t>(args_.input_count);
  tenon_prepare_args prepare{TENON_HEAD(tenon_prepare_args),
                             views_.data(),
                             views_.data() + inputs,
                             inputs,
                             1,
                             args_.precision,
                             args_.threads,
                             args_.device,
                             nullptr,
                             0,
                             nullptr,
                             nullptr,
                             nullptr};
  sdk::PrepareContext c(prepare);
  using From = Epilogue::Vector::From;
  int64_t scale_at = 0, shift_at = 0;
  const bool constant =
      IsConstant(filter) && std::all_of(affine_.steps.begin(), affine_.steps.end(), [&](const AffineStep& step) {
        return IsConstant(step.inputs[0]) &&
               (step.is_sum ||
                (IsConstant(step.inputs[1]) && IsConstant(step.inputs[2]) && IsConstant(step.inputs[3])));
      });
  if (constant && !affine_.steps.empty()) {
    epilogue_.filter_scale.resize(static_cast<size_t>(channels_));
    epilogue_.shift.from = From::kConstant;
    epilogue_.shift.values.resize(static_cast<size_t>(channels_));
    affine_.Compute(
        channels_,
        [&](int32_t input) {
          return ChannelValues{c.Constant<char>(input), TypeOf(c.input(input))};
        },
        epilogue_.filter_scale.data(), epilogue_.shift.values.data());
    if (!affine_.scales()) epilogue_.filter_scale.clear();
    affine_.steps.clear();
  } else if (affine_.steps.size() == 1 && affine_.steps[0].is_sum) {
    epilogue_.shift = {
        From::kInput, affine_.steps[0].inputs[0], {}, TypeOf(*views_[static_cast<size_t>(affine_.steps[0].inputs[0])])};
    affine_.steps.clear();
  } else if (!affine_.steps.empty()) {
    scale_at = c.Workspace(sdk::Multiply(channels_, kFloat));
    shift_at = c.Workspace(sdk::Multiply(channels_, kFloat));
    if (affine_.scales()) epilogue_.scale = {From::kWorkspace, scale_at, {}, ElementType::f32};
    epilogue_.shift = {From::kWorkspace, shift_at, {}, ElementType::f32};
  }
  auto executable =
      std::make_unique<Executable>(ForwardShares(convolution, c, epilogue_, image, filter), std::move(affine_));
  executable->channels = channels_;
  executable->scale_at = scale_at;
  executable->shift_at = shift_at;
  executable->workspace_bytes = prepare.out_workspace_bytes;
  // The addend lies where the sum goes. The image is still read then: its rows are those of other shares.
  if (epilogue_.addend >= 0 && epilogue_.addend != image) executable->in_place.push_back({epilogue_.addend, 0});
  return executable;
}

struct Compiler {
  static constexpr tenon_span kDeviceType = TENON_SPAN("CPU");
  static constexpr int32_t kPriority = library::kPriority;
  using Executable = cpu_onednn::Executable;

  static void Claim(const tenon_plugin_self*, const tenon_graph_cursor& cursor, std::span<const int64_t> nodes,
                    const tenon_device*, const sdk::Claims& claims) {
    ClaimChains(cursor, nodes, claims);
  }
  static std::unique_ptr<Executable> Compile(const tenon_plugin_self*, const tenon_compile_args& args) {
    return Builder(args).Build();
  }
};

}  // namespace

constinit const tenon_compiler kCompiler = sdk::kCompilerTable<Compiler>;

}  // namespace tenon::cpu_onednn
