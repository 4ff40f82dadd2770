// SPDX-License-Identifier: Apache-2.0
#include "fuse/compiler.h"

#include <algorithm>
#include <map>

#include "code/fused.h"
#include "driver.h"
#include "fuse/executable.h"
#include "fuse/product.h"
#include "fuse/source.h"
#include "kernels/kernel.h"
#include "tenon/sdk/device/regions.h"
#include "tenon/sdk/walk/broadcast.h"

namespace tenon::gpu {
namespace {

constexpr size_t kMostNodes = 24;

struct Refusal {
  uint32_t reason = 0;  // 0: none
  std::string text;
};

bool IsFused(uint32_t dtype) { return !FusedType(dtype).empty(); }
// Integers that are divided by zero are reported by the op's own kernel.
bool MayFail(std::string_view op, uint32_t dtype) {
  return (dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64) && sdk::IsOneOf(op, {"Div", "RealDiv", "FloorDiv", "FloorMod", "TruncateDiv", "Pow"});
}

bool HasChannelsFirst(const tenon_node_services& services, const tenon_node* node) {
  tenon_attr_value format = {};
  sdk::Check(services.attr(node, TENON_SPAN("data_format"), &format));
  return format.kind == TENON_ATTR_STRING && sdk::ToText(*static_cast<const tenon_span*>(format.data)) == "NCHW";
}

Refusal CheckNode(const sdk::RegionGraph& graph, int64_t id) {
  const sdk::RegionGraph::Node& n = graph.at(id);
  if (FusedFunction(n.op).empty()) return {TENON_REFUSE_OP, sdk::Concat(n.op, " is not element-wise, or is run by its own kernel")};
  const tenon_node_services& services = graph.services();
  const auto inputs = static_cast<int32_t>(n.inputs.size());
  for (int32_t i = 0; i < inputs; ++i) {
    if (!IsFused(services.input_dtype(n.node, i))) return {TENON_REFUSE_DTYPE, sdk::Concat("chains of ", sdk::TypeName(services.input_dtype(n.node, i)), " are not compiled")};
  }
  if (!IsFused(services.output_dtype(n.node, 0))) return {TENON_REFUSE_DTYPE, sdk::Concat("chains of ", sdk::TypeName(services.output_dtype(n.node, 0)), " are not compiled")};
  if (MayFail(n.op, services.output_dtype(n.node, 0))) return {TENON_REFUSE_OP, sdk::Concat(n.op, " of integers may have no answer")};
  if (n.op == "BiasAdd" && HasChannelsFirst(services, n.node)) return {TENON_REFUSE_OP, "its channels are not the last dim"};
  if (n.op == "Cast") {
    tenon_attr_value truncate = {};
    sdk::Check(services.attr(n.node, TENON_SPAN("Truncate"), &truncate));
    if (truncate.kind == TENON_ATTR_BOOL && *static_cast<const uint8_t*>(truncate.data) != 0) return {TENON_REFUSE_OP, "a cast that truncates"};
  }
  return {};
}

// The shape as far as the graph says it; nothing where the rank is unknown.
std::vector<int64_t> ShapeOf(const tenon_graph_cursor& cursor, int64_t id) {
  tenon_shape shape = {nullptr, -1, 0};
  sdk::Check(cursor.output_shape(cursor.graph, {id, 0, 0}, &shape));
  if (shape.rank < 0) return {INT64_MIN};
  return {shape.dims, shape.dims + shape.rank};
}

// Claiming, for one graph.
class Claiming {
 public:
  Claiming(const tenon_graph_cursor& cursor, std::span<const int64_t> ids, const sdk::Claims& claims)
      : cursor_(cursor), graph_(cursor), claims_(claims), regions_(graph_), ours_(graph_.size()), product_of_(graph_.size(), -1), shapes_(graph_.size()) {
    for (int64_t id : ids) ours_[static_cast<size_t>(id)] = true;
    const std::vector<int> readers = ReadersOf(graph_);
    for (int64_t id = 0; id < size(); ++id) {
      const std::vector<int64_t> end = ours_[static_cast<size_t>(id)] ? EndOfProduct(graph_, readers, ours_, id) : std::vector<int64_t>();
      if (end.empty()) continue;
      product_of_[static_cast<size_t>(id)] = id;
      for (int64_t each : end) product_of_[static_cast<size_t>(each)] = id;
    }
  }

  void Run() {
    for (int64_t id = 0; id < size(); ++id) Place(id);
    for (auto& [region, nodes] : members_) {
      std::sort(nodes.begin(), nodes.end());
      if (nodes.size() >= 2) {
        claims_.Claim(nodes);
      } else {
        for (int64_t id : nodes) Refuse(id, {TENON_REFUSE_COST, "it stands alone: nothing is saved"});
      }
    }
  }

 private:
  int64_t size() const { return static_cast<int64_t>(graph_.size()); }
  void Refuse(int64_t id, const Refusal& why) const { claims_.Refuse(id, why.reason, why.text); }

  void Place(int64_t id) {
    const auto at = static_cast<size_t>(id);
    const int64_t product = product_of_[at];
    const Refusal refusal = !ours_[at] ? Refusal{TENON_REFUSE_OTHER, ""} : product >= 0 ? Refusal() : CheckNode(graph_, id);
    if (refusal.reason != 0) {
      regions_.Pass(id);
      if (ours_[at]) Refuse(id, refusal);
      return;
    }
    shapes_[at] = ShapeOf(cursor_, id);
    std::vector<size_t> joined;
    size_t size = 1;
    regions_.Place(id, [&](size_t region) {
      const std::vector<int64_t>& others = members_[region];
      const auto first = static_cast<size_t>(others.front());
      if (product_of_[first] != product) return false;
      if (product < 0 && (shapes_[first] != shapes_[at] || size + others.size() > kMostNodes)) return false;
      size += others.size();
      joined.push_back(region);
      return true;
    });
    std::vector<int64_t> all;
    for (size_t region : joined) {
      if (regions_.Of(members_[region].front()) != regions_.Of(id)) continue;  // it would have made a circle
      all.insert(all.end(), members_[region].begin(), members_[region].end());
      members_.erase(region);
    }
    all.push_back(id);
    members_[regions_.Of(id)] = std::move(all);
  }

  const tenon_graph_cursor& cursor_;
  const sdk::RegionGraph graph_;
  const sdk::Claims& claims_;
  sdk::Regions regions_;
  std::vector<bool> ours_;
  std::vector<int64_t> product_of_;  // the product that a node is or ends; -1: none
  std::vector<std::vector<int64_t>> shapes_;
  std::map<size_t, std::vector<int64_t>> members_;  // of regions
};

// How inputs of any shape walk beside the elements of `out`; dims over which all walk on evenly are one.
struct Walk {
  Walk(const std::vector<sdk::Dims>& inputs, sdk::Dims out) {
    total = sdk::Count(out);
    const std::vector<sdk::BroadcastDim> dims = sdk::BroadcastDims(inputs, out, "a chain");
    for (const sdk::Dims& input : inputs) {
      if (input.size() > out.size() && sdk::Count(input) != 1) sdk::Fail(TENON_UNIMPLEMENTED, "a chain with shapes ", input, " and ", out);
    }
    if (dims.size() > kMostFusedDims + 1) sdk::Fail(TENON_UNIMPLEMENTED, "a chain whose shapes alternate ", dims.size(), " times");
    spreads.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      spreads[i] = sdk::Count(inputs[i]) == 1 ? FusedInput::kSingle : dims.size() <= 1 ? FusedInput::kEven : FusedInput::kStrided;
      if (sdk::Count(inputs[i]) == total && spreads[i] == FusedInput::kStrided) spreads[i] = FusedInput::kEven;
    }
    inner = dims.empty() ? 1 : dims.front().size;
    strides.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) steps.push_back(dims.empty() ? 0 : dims.front().steps[i]);
    for (size_t d = dims.size(); d-- > 1;) {
      outer.push_back(dims[d].size);
      for (size_t i = 0; i < inputs.size(); ++i) strides[i].push_back(dims[d].steps[i]);
    }
  }
  int64_t total = 0, inner = 1;
  std::vector<int64_t> outer;  // slowest first
  std::vector<FusedInput::Spread> spreads;
  std::vector<int64_t> steps;                 // of each input, along a row
  std::vector<std::vector<int64_t>> strides;  // and along the outer dims
};

struct ChainExecutable final : Executable {
  void Run(const tenon_frame& frame) const override {
    FusedParams now = {total, 1, {}, {}};
    uintptr_t packed = 0;
    for (int32_t i = 0; i < frame.input_count; ++i) {
      now.inputs[i] = sdk::Data<const void>(*frame.inputs[i]);
      if (is_packed[static_cast<size_t>(i)]) packed |= reinterpret_cast<uintptr_t>(now.inputs[i]);
    }
    for (int32_t i = 0; i < frame.output_count; ++i) {
      now.outputs[i] = sdk::Data<void>(*frame.outputs[i]);
      packed |= reinterpret_cast<uintptr_t>(now.outputs[i]);
    }
    now.even = packed % 16 == 0 ? 1 : 0;
    SubmitTo(frame, [&](Launcher& on) { on(code, Flat(total, pack), now); });
  }
  static_assert(kFlatThreads <= kFusedThreads);
  Function code = nullptr;
  int64_t total = 0;
  int pack = 1;
  std::vector<bool> is_packed;  // inputs
};

class Compilation {
 public:
  Compilation(const tenon_compile_args& args, Device& device) : args_(args), device_(device) {}

  std::unique_ptr<Executable> Make() {
    if (args_.input_count > kMostFusedInputs || args_.output_count > kMostFusedOutputs) {
      sdk::Fail(TENON_UNIMPLEMENTED, "a chain of ", args_.input_count, " inputs and ", args_.output_count, " outputs; it may have ", kMostFusedInputs,
                " and ", kMostFusedOutputs);
    }
    const sdk::Dims out = sdk::DimsOf(ViewOf(args_.outputs[0]));
    for (uint64_t i = 1; i < args_.output_count; ++i) {
      const sdk::Dims other = sdk::DimsOf(ViewOf(args_.outputs[i]));
      if (!std::equal(out.begin(), out.end(), other.begin(), other.end())) sdk::Fail(TENON_UNIMPLEMENTED, "a chain with outputs of shapes ", out, " and ", other);
    }
    std::vector<sdk::Dims> shapes;
    for (uint64_t i = 0; i < args_.input_count; ++i) shapes.push_back(sdk::DimsOf(ViewOf(args_.inputs[i])));
    const Walk walk(shapes, out);
    for (uint64_t i = 0; i < args_.input_count; ++i) {
      const bool strided = walk.spreads[i] == FusedInput::kStrided;
      kernel_.inputs.push_back({ViewOf(args_.inputs[i]).dtype, walk.spreads[i], strided ? walk.steps[i] : 0, strided ? walk.strides[i] : std::vector<int64_t>()});
      if (strided) {
        kernel_.inner = walk.inner;
        kernel_.dims = walk.outer;
      }
      operand_[{args_.inputs[i].node, args_.inputs[i].index}] = -1 - static_cast<int>(i);
    }
    for (uint64_t i = 0; i < args_.node_count; ++i) AddNode(args_.nodes[i]);
    for (uint64_t i = 0; i < args_.output_count; ++i) kernel_.outputs.push_back(operand_.at({args_.outputs[i].node, args_.outputs[i].index}));
    auto made = std::make_unique<ChainExecutable>();
    kernel_.wide = walk.total > INT32_MAX;
    made->total = walk.total;
    made->pack = PackOf(kernel_);
    for (const FusedInput& input : kernel_.inputs) made->is_packed.push_back(IsPacked(kernel_, input));
    const Outcome outcome = device_.FindCompiled(SourceOf(kernel_), kFusedName, &made->code);
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
    AddInPlace(made.get());
    return made;
  }

 private:
  const tenon_tensor_view& ViewOf(const tenon_output& output) const { return gpu::ViewOf(args_, output); }

  void AddNode(int64_t id) {
    const tenon_graph_cursor& cursor = *args_.cursor;
    const tenon_node_services& services = *cursor.node_services;
    const tenon_node* node = cursor.node(cursor.graph, id);
    const std::string_view op = sdk::ToText(services.op(node));
    FusedNode fused;
    fused.function = FusedFunction(op);
    const int32_t inputs = services.input_count(node);
    for (int32_t i = 0; i < inputs; ++i) {
      tenon_output source = {-1, 0, 0};
      sdk::Check(cursor.input(cursor.graph, id, i, &source));
      fused.operands.push_back(operand_.at({source.node, source.index}));
    }
    fused.result = services.output_dtype(node, 0);
    if (op == "LeakyRelu" || op == "LeakyReluGrad") {
      tenon_attr_value alpha = {};
      sdk::Check(services.attr(node, TENON_SPAN("alpha"), &alpha));
      fused.alpha = *static_cast<const float*>(alpha.data);
    }
    operand_[{id, 0}] = static_cast<int>(kernel_.nodes.size());
    kernel_.nodes.push_back(std::move(fused));
  }

  // A thread reads all that stands at its place before it writes there.
  void AddInPlace(Executable* made) const {
    for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (kernel_.inputs[i].spread != FusedInput::kEven) continue;
      for (size_t k = 0; k < kernel_.outputs.size(); ++k) {
        const uint32_t result = kernel_.nodes[static_cast<size_t>(kernel_.outputs[k])].result;
        if (sdk::ElementSize(kernel_.inputs[i].dtype) == sdk::ElementSize(result)) {
          made->in_place.push_back({static_cast<int32_t>(i), static_cast<int32_t>(k)});
        }
      }
    }
  }

  const tenon_compile_args& args_;
  Device& device_;
  FusedKernel kernel_;
  std::map<std::pair<int64_t, int32_t>, int> operand_;
};

struct Compiler {
  static constexpr tenon_span kDeviceType = sdk::ToSpan(gpu::kDeviceType);
  static constexpr int32_t kPriority = 0;
  using Executable = gpu::Executable;

  static void Claim(const tenon_plugin_self*, const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, const tenon_device* device,
                    const sdk::Claims& claims) {
    if (OwnDevice(device) != nullptr) Claiming(cursor, nodes, claims).Run();
  }
  static std::unique_ptr<Executable> Compile(const tenon_plugin_self*, const tenon_compile_args& args) {
    Device& device = RequireOwn(args.device);
    return IsProduct(args) ? MakeProduct(args, device) : Compilation(args, device).Make();
  }
};

}  // namespace

constinit const tenon_compiler kCompiler = sdk::kCompilerTable<Compiler>;

}  // namespace tenon::gpu
