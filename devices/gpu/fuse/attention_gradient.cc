// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention_gradient.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "code/attention_gradient.h"
#include "fuse/attention_compilation.h"
#include "fuse/attention_gradient_pattern.h"
#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

constexpr int kInputs = 5, kGradients = 3;  // query, key, value, gradient, mask; of query, key, value

class GradientExecutable final : public Executable {
 public:
  GradientExecutable(const AttentionGradientParams& params, Function of_queries, Function of_keys,
                     const AttentionTile& tile)
      : params_(params), of_queries_(of_queries), of_keys_(of_keys), tile_(tile) {
    const int64_t rows = sdk::Multiply(params_.of.batches, params_.of.queries);
    workspace_bytes =
        rows == 0 ? 0 : static_cast<uint64_t>(sdk::Multiply(rows, int64_t{sizeof(AttentionRow)})) + kDeviceAlignment;
  }

  void Run(const tenon_frame& frame) const override {
    if (params_.of.batches == 0) return SubmitTo(frame, [](Launcher&) {});
    AttentionGradientParams now = params_;
    const void** const from[kInputs] = {&now.of.query, &now.of.key, &now.of.value,
                                        const_cast<const void**>(&now.of.out), &now.of.mask};
    void** const to[kGradients] = {&now.of_query, &now.of_key, &now.of_value};
    uintptr_t read = row_bytes, written = gradient_row_bytes;
    for (int i = 0; i < kInputs; ++i) {
      if (inputs[i] >= 0) *from[i] = sdk::Data<const void>(*frame.inputs[inputs[i]]);
      if (i < kInputs - 1) read |= reinterpret_cast<uintptr_t>(*from[i]);  // a mask's elements are read one by one
    }
    for (int i = 0; i < kGradients; ++i) {
      if (outputs[i] >= 0) *to[i] = sdk::Data<void>(*frame.outputs[outputs[i]]);
      written |= reinterpret_cast<uintptr_t>(*to[i]);
    }
    now.of.even = read % 16 == 0;
    now.even = written % 16 == 0;
    SubmitTo(frame, AlignedWorkspace(frame), [&](Launcher& on) {
      now.rows = on.Workspace<AttentionRow>(0);
      if (now.of.queries > 0) on(of_queries_, GridOf(now.of.queries), now);
      if (now.of_key != nullptr || now.of_value != nullptr) on(of_keys_, GridOf(now.of.keys), now);
    });
  }
  int32_t inputs[kInputs] = {-1, -1, -1, -1, -1};  // of the frame; -1: none
  int32_t outputs[kGradients] = {-1, -1, -1};
  uint64_t row_bytes = 0, gradient_row_bytes = 0;  // the bits of all distances between rows and batches

 private:
  Grid GridOf(int64_t rows) const {
    const auto tiles = static_cast<uint32_t>((rows + tile_.queries - 1) / tile_.queries);
    return {{tiles, static_cast<uint32_t>(params_.of.batch_blocks), 1}, static_cast<uint32_t>(AttentionThreads(tile_))};
  }

  const AttentionGradientParams params_;
  const Function of_queries_, of_keys_;
  const AttentionTile tile_;
};

class Compilation final : AttentionCompilation {
 public:
  using AttentionCompilation::AttentionCompilation;

  std::unique_ptr<Executable> Make() {
    const AttentionGradientPattern found = Recognise();
    AttentionGradientParams p = {};
    const int64_t nodes[kGradients] = {found.of_query, found.of_key, found.of_value};
    const DimLabels* const labels[kGradients] = {&found.of_query_labels, &found.of_key_labels, &found.of_value_labels};
    AttentionOperand* const at[kGradients] = {&p.of_query_at, &p.of_key_at, &p.of_value_at};
    std::vector<Operand> operands;
    for (int i = 0; i < kGradients; ++i) {
      if (nodes[i] >= 0)
        operands.push_back(
            {*labels[i], DimsAt({nodes[i], 0, 0}), at[i], i == 0 ? found.of.query_label : found.of.key_label, true});
    }
    p.of = Read(found.of, found.gradient, operands);
    p.gradient_scale = static_cast<float>(found.scale);
    const uint32_t dtype = View(found.of.query).dtype;
    const int depth = DepthOf(p.of);
    const std::string_view by = IsByCores(dtype) ? "Cores_" : "_";
    const AttentionTile plain = depth == 32 ? kShortGradients : depth == 64 ? kMiddleGradients : kLongGradients;
    const AttentionTile cores = depth == 32   ? kShortGradientCores
                                : depth == 64 ? kMiddleGradientCores
                                              : kLongGradientCores;
    auto made = std::make_unique<GradientExecutable>(
        p, FindCode(sdk::Concat("AttentionQueryGradient", by), depth, dtype),
        FindCode(sdk::Concat("AttentionKeyGradient", by), depth, dtype), IsByCores(dtype) ? cores : plain);
    made->row_bytes =
        RowBits(p.of, {&p.of.query_at, &p.of.key_at, &p.of.value_at, &p.of.out_at}) * sdk::ElementSize(dtype);
    made->gradient_row_bytes = RowBits(p.of, {at[0], at[1], at[2]}) * sdk::ElementSize(dtype);
    const tenon_output from[kInputs] = {found.of.query, found.of.key, found.of.value, found.gradient, found.of.mask};
    for (int i = 0; i < kInputs; ++i) made->inputs[i] = from[i].node < 0 ? -1 : PlaceOf(from[i]);
    for (int i = 0; i < kGradients; ++i) made->outputs[i] = LeavesAt(nodes[i]);
    return made;
  }

 private:
  AttentionGradientPattern Recognise() const {
    std::map<int64_t, std::vector<int64_t>> readers;
    for (uint64_t i = 0; i < args_.node_count; ++i) {
      const int64_t id = args_.nodes[i];
      for (int32_t k = 0; k < services_.input_count(cursor_.node(cursor_.graph, id)); ++k) {
        tenon_output source = {-1, 0, 0};
        sdk::Check(cursor_.input(cursor_.graph, id, k, &source));
        readers[source.node].push_back(id);
      }
    }
    const ReadersOfNode readers_of = [&](int64_t id) { return readers[id]; };
    const int64_t softmax = NodeOf("Softmax");
    std::optional<AttentionGradientPattern> found;
    if (softmax >= 0)
      found = FindAttentionGradient(
          cursor_, softmax, readers_of, [&](int64_t id) { return IsMember(id); }, DimsOfEdges());
    const bool is_all =
        found.has_value() && found->of.values < 0 && found->nodes.size() == args_.node_count &&
        std::all_of(args_.outputs, args_.outputs + args_.output_count, [&](const tenon_output& output) {
          return output.node == found->of_query || output.node == found->of_key || output.node == found->of_value;
        });
    if (!is_all)
      sdk::Fail(TENON_UNIMPLEMENTED, "gradients of attention whose scores or probabilities somebody else reads");
    return *std::move(found);
  }
  int32_t LeavesAt(int64_t node) const {
    for (uint64_t i = 0; i < args_.output_count; ++i) {
      if (args_.outputs[i].node == node) return static_cast<int32_t>(i);
    }
    return -1;
  }
};

}  // namespace

std::vector<int64_t> NodesOfAttentionGradient(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph,
                                              const ReaderLists& readers, const std::vector<bool>& ours,
                                              int64_t softmax) {
  if (graph.at(softmax).op != "Softmax") return {};
  const auto lives_with = [&](int64_t id) {
    return ours[static_cast<size_t>(id)] && graph.at(id).dead_with == graph.at(softmax).dead_with;
  };
  const auto found = FindAttentionGradient(
      cursor, softmax, [&](int64_t id) { return readers[static_cast<size_t>(id)]; }, lives_with, KnownDims(cursor));
  return found.has_value() && found->of.values < 0 ? found->nodes : std::vector<int64_t>();
}

bool IsAttentionGradient(const tenon_compile_args& args) {
  const tenon_graph_cursor& cursor = *args.cursor;
  return std::any_of(args.nodes, args.nodes + args.node_count, [&](int64_t id) {
    return sdk::ToText(cursor.node_services->op(cursor.node(cursor.graph, id))) == "Sum";
  });
}

std::unique_ptr<Executable> MakeAttentionGradient(const tenon_compile_args& args, Device& device) {
  return Compilation(args, device).Make();
}

}  // namespace tenon::gpu
