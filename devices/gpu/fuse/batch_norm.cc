// SPDX-License-Identifier: Apache-2.0
#include "fuse/batch_norm.h"

#include <algorithm>
#include <string_view>

#include "fuse/product.h"
#include "kernels/batch_norm.h"

namespace tenon::gpu {
namespace {

constexpr int32_t kInputs = 5, kMostOutputs = 6;

bool IsNorm(std::string_view op) {
  return sdk::IsOneOf(op, {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"});
}
bool IsSum(std::string_view op) { return op == "AddV2" || op == "Add"; }

// The one node that reads y, once; -1: none, or there are more.
int64_t ReaderOfY(const sdk::RegionGraph& graph, int64_t norm) {
  int64_t found = -1;
  for (int64_t id = norm + 1; id < static_cast<int64_t>(graph.size()); ++id) {
    for (const tenon_output& input : graph.at(id).inputs) {
      if (input.node != norm || input.index != 0) continue;
      if (found >= 0) return -1;
      found = id;
    }
  }
  return found;
}

// Attributes of the older versions are fewer.
BatchNormSettings ReadSettings(const tenon_node_services& services, const tenon_node* node) {
  BatchNormSettings settings;
  tenon_attr_value value = {};
  sdk::Check(services.attr(node, TENON_SPAN("epsilon"), &value));
  settings.epsilon = *static_cast<const float*>(value.data);
  sdk::Check(services.attr(node, TENON_SPAN("data_format"), &value));
  settings.format = sdk::ToText(*static_cast<const tenon_span*>(value.data));
  settings.training = BoolAttr(services, node, TENON_SPAN("is_training"));
  if (sdk::ToText(services.op(node)) != "FusedBatchNormV3") return settings;
  sdk::Check(services.attr(node, TENON_SPAN("exponential_avg_factor"), &value));
  settings.factor = *static_cast<const float*>(value.data);
  return settings;
}

class NormExecutable final : public Executable {
 public:
  NormExecutable(const BatchNormSettings& settings, Shapes& s, const BatchNormEnd& end)
      : outputs_(s.output_count()), plan_(settings, s, end) {
    for (int32_t k = 1; k < outputs_; ++k)
      spare_[k] = s.Workspace(sdk::Multiply(sdk::Count(s.out(k)), int64_t{sizeof(float)}));
    workspace_bytes = static_cast<uint64_t>(s.workspace_bytes()) + kDeviceAlignment;
  }
  void Run(const tenon_frame& frame) const override {
    SubmitTo(frame, AlignedWorkspace(frame), [&](Launcher& on) {
      char* at[kInputs + kMostOutputs];
      for (int32_t i = 0; i < kInputs; ++i) at[i] = sdk::Data<char>(*frame.inputs[inputs[i]]);
      for (int32_t k = 0; k < outputs_; ++k)
        at[kInputs + k] = outputs[k] >= 0 ? sdk::Data<char>(*frame.outputs[outputs[k]]) : on.Workspace<char>(spare_[k]);
      plan_.Launch(on, at, added < 0 ? nullptr : sdk::Data<const void>(*frame.inputs[added]));
    });
  }
  int32_t inputs[kInputs] = {};
  int32_t added = -1;
  int32_t outputs[kMostOutputs] = {};  // of the frame; -1: nobody reads it

 private:
  const int32_t outputs_;
  int64_t spare_[kMostOutputs] = {};
  const BatchNormPlan plan_;
};

class Compilation {
 public:
  Compilation(const tenon_compile_args& args, Device& device)
      : args_(args), cursor_(*args.cursor), services_(*cursor_.node_services), device_(device) {}

  std::unique_ptr<Executable> Make() {
    const int64_t norm = args_.nodes[0], last = args_.nodes[args_.node_count - 1];
    const tenon_node* const node = NodeOf(norm);
    const int32_t output_count = services_.output_count(node);
    if (services_.input_count(node) != kInputs || output_count > kMostOutputs)
      sdk::Fail(TENON_UNIMPLEMENTED, "a batch normalisation of another version");
    BatchNormEnd end;
    tenon_output added = {-1, 0, 0};
    for (uint64_t i = 1; i < args_.node_count; ++i) ReadEnd(args_.nodes[i], args_.nodes[i - 1], &end, &added);
    CheckLeaving(norm, last);
    const tenon_tensor_view *in[kInputs], *out[kMostOutputs];
    for (int32_t i = 0; i < kInputs; ++i) in[i] = &ViewOf(args_, SourceOf(norm, i));
    for (int32_t k = 0; k < output_count; ++k) out[k] = &ViewOf(args_, {norm, k, 0});
    Shapes shapes(in, kInputs, out, output_count, 0, device_, args_.precision, sdk::ToText(services_.op(node)),
                  sdk::ToText(services_.name(node)));
    if (end.adds && !std::ranges::equal(sdk::DimsOf(ViewOf(args_, added)), shapes.in(0)))
      sdk::Fail(TENON_UNIMPLEMENTED, "a sum that broadcasts behind a batch normalisation");
    auto made = std::make_unique<NormExecutable>(ReadSettings(services_, node), shapes, end);
    for (int32_t i = 0; i < kInputs; ++i) made->inputs[i] = PlaceOf(SourceOf(norm, i));
    if (end.adds) made->added = PlaceOf(added);
    made->outputs[0] = LeavesAt({last, 0, 0});
    for (int32_t k = 1; k < output_count; ++k) made->outputs[k] = LeavesAt({norm, k, 0});
    return made;
  }

 private:
  const tenon_node* NodeOf(int64_t id) const { return cursor_.node(cursor_.graph, id); }
  tenon_output SourceOf(int64_t id, int32_t input) const {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor_.input(cursor_.graph, id, input, &source));
    return source;
  }
  // Adds to the end what the node makes of the value of the one before.
  void ReadEnd(int64_t id, int64_t before, BatchNormEnd* end, tenon_output* added) const {
    const std::string_view op = sdk::ToText(services_.op(NodeOf(id)));
    const tenon_output first = SourceOf(id, 0);
    if (op == "Relu" && first.node == before && !end->rectifies) {
      end->rectifies = true;
    } else if (IsSum(op) && !end->adds && !end->rectifies && (first.node == before || SourceOf(id, 1).node == before)) {
      end->adds = true;
      *added = first.node == before && first.index == 0 ? SourceOf(id, 1) : first;
      if (added->node == before) sdk::Fail(TENON_UNIMPLEMENTED, "a batch normalisation that is added to itself");
    } else {
      sdk::Fail(TENON_UNIMPLEMENTED, op, " behind a batch normalisation");
    }
  }
  void CheckLeaving(int64_t norm, int64_t last) const {
    bool leaves = false;
    for (uint64_t i = 0; i < args_.output_count; ++i) {
      const tenon_output& output = args_.outputs[i];
      leaves = leaves || output.node == last;
      if (output.node != last && (output.node != norm || output.index == 0))
        sdk::Fail(TENON_UNIMPLEMENTED, "somebody reads a batch normalisation before its end");
    }
    if (!leaves) sdk::Fail(TENON_UNIMPLEMENTED, "nobody reads a batch normalisation's end");
  }
  int32_t PlaceOf(const tenon_output& edge) const {
    for (uint64_t i = 0; i < args_.input_count; ++i) {
      if (args_.inputs[i].node == edge.node && args_.inputs[i].index == edge.index) return static_cast<int32_t>(i);
    }
    sdk::Fail(TENON_INTERNAL, "an operand of a batch normalisation does not enter its set");
  }
  int32_t LeavesAt(const tenon_output& edge) const {
    for (uint64_t i = 0; i < args_.output_count; ++i) {
      if (args_.outputs[i].node == edge.node && args_.outputs[i].index == edge.index) return static_cast<int32_t>(i);
    }
    return -1;
  }

  const tenon_compile_args& args_;
  const tenon_graph_cursor& cursor_;
  const tenon_node_services& services_;
  Device& device_;
};

}  // namespace

std::vector<int64_t> EndOfBatchNorm(const sdk::RegionGraph& graph, const std::vector<int>& readers,
                                    const std::vector<bool>& ours, int64_t norm) {
  if (!IsNorm(graph.at(norm).op)) return {};
  const int64_t reader = ReaderOfY(graph, norm);
  if (reader < 0 || !ours[static_cast<size_t>(reader)] || graph.at(reader).dead_with != graph.at(norm).dead_with)
    return {};
  if (graph.at(reader).op == "Relu") return {reader};
  if (!IsSum(graph.at(reader).op)) return {};
  const int64_t relu = OnlyReader(graph, readers, ours, reader, "Relu");
  return relu < 0 ? std::vector<int64_t>{reader} : std::vector<int64_t>{reader, relu};
}

bool IsBatchNorm(const tenon_compile_args& args) {
  const tenon_graph_cursor& cursor = *args.cursor;
  return IsNorm(sdk::ToText(cursor.node_services->op(cursor.node(cursor.graph, args.nodes[0]))));
}

std::unique_ptr<Executable> MakeBatchNorm(const tenon_compile_args& args, Device& device) {
  return Compilation(args, device).Make();
}

}  // namespace tenon::gpu
