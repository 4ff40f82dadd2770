// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention.h"

#include <algorithm>
#include <optional>

#include "fuse/attention_compilation.h"
#include "fuse/attention_gradient.h"
#include "fuse/attention_pattern.h"
#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

class AttentionExecutable final : public Executable {
 public:
  AttentionExecutable(const AttentionParams& params, Function code, const AttentionTile& tile, uint64_t row_bytes)
      : params_(params), code_(code), tile_(tile), row_bytes_(row_bytes) {}

  void Run(const tenon_frame& frame) const override {
    if (params_.queries == 0 || params_.batches == 0) return SubmitTo(frame, [](Launcher&) {});
    AttentionParams now = params_;
    now.query = sdk::Data<const void>(*frame.inputs[inputs[0]]);
    now.key = sdk::Data<const void>(*frame.inputs[inputs[1]]);
    now.value = sdk::Data<const void>(*frame.inputs[inputs[2]]);
    now.mask = inputs[3] < 0 ? nullptr : sdk::Data<const void>(*frame.inputs[inputs[3]]);
    now.out = sdk::Data<void>(*frame.outputs[0]);
    const auto bits = [](const void* address) { return reinterpret_cast<uintptr_t>(address); };
    now.even = (row_bytes_ | bits(now.query) | bits(now.key) | bits(now.value) | bits(now.out)) % 16 == 0;
    const auto tiles = static_cast<uint32_t>((params_.queries + tile_.queries - 1) / tile_.queries);
    SubmitTo(frame, [&](Launcher& on) {
      on(code_,
         Grid{{tiles, static_cast<uint32_t>(params_.batch_blocks), 1}, static_cast<uint32_t>(AttentionThreads(tile_))},
         now);
    });
  }
  int32_t inputs[4] = {-1, -1, -1, -1};  // of the frame: query, key, value, mask; -1: none

 private:
  const AttentionParams params_;
  const Function code_;
  const AttentionTile tile_;
  const uint64_t row_bytes_;  // the bits of all distances between rows and batches
};

class Compilation final : AttentionCompilation {
 public:
  using AttentionCompilation::AttentionCompilation;

  std::unique_ptr<Executable> Make() {
    const AttentionPattern found = Recognise();
    const AttentionParams p = Read(found, {found.values, 0, 0});
    const uint32_t dtype = View(found.query).dtype;
    const bool by_cores = IsByCores(dtype);
    const int depth = DepthOf(p);
    const AttentionTile plain = depth == 32   ? kShortHeads
                                : depth == 64 ? kMiddleHeads
                                              : kLongHeads,
                        cores = depth == 32   ? kShortCores
                                : depth == 64 ? kMiddleCores
                                              : kLongCores;
    const Function code = FindCode(by_cores ? "AttentionCores_" : "Attention_", depth, dtype);
    auto made = std::make_unique<AttentionExecutable>(
        p, code, by_cores ? cores : plain,
        RowBits(p, {&p.query_at, &p.key_at, &p.value_at, &p.out_at}) * sdk::ElementSize(dtype));
    made->inputs[0] = PlaceOf(found.query);
    made->inputs[1] = PlaceOf(found.key);
    made->inputs[2] = PlaceOf(found.value);
    if (found.mask.node >= 0) made->inputs[3] = PlaceOf(found.mask);
    return made;
  }

 private:
  AttentionPattern Recognise() const {
    const int64_t softmax = NodeOf("Softmax");
    std::optional<AttentionPattern> found;
    if (softmax >= 0 && args_.output_count == 1) {
      found = FindAttention(
          cursor_, softmax, args_.outputs[0].node, [&](int64_t id) { return IsMember(id); }, DimsOfEdges());
    }
    if (!found.has_value() || found->nodes.size() != args_.node_count)
      sdk::Fail(TENON_UNIMPLEMENTED, "attention whose scores or probabilities somebody else reads");
    return *std::move(found);
  }
};

}  // namespace

ReaderLists ListReaders(const sdk::RegionGraph& graph) {
  ReaderLists readers(graph.size());
  for (int64_t id = 0; id < static_cast<int64_t>(graph.size()); ++id) {
    for (const tenon_output& input : graph.at(id).inputs) {
      if (input.node >= 0) readers[static_cast<size_t>(input.node)].push_back(id);
    }
  }
  return readers;
}

std::vector<int64_t> NodesOfAttention(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph,
                                      const ReaderLists& readers, const std::vector<bool>& ours, int64_t softmax) {
  if (graph.at(softmax).op != "Softmax" || readers[static_cast<size_t>(softmax)].size() != 1) return {};
  const int64_t values = readers[static_cast<size_t>(softmax)].front();
  const auto lives_with = [&](int64_t id) {
    return ours[static_cast<size_t>(id)] && graph.at(id).dead_with == graph.at(softmax).dead_with;
  };
  if (!lives_with(values)) return {};
  const auto found = FindAttention(
      cursor, softmax, values,
      [&](int64_t id) { return lives_with(id) && readers[static_cast<size_t>(id)].size() == 1; }, KnownDims(cursor));
  return found.has_value() ? found->nodes : std::vector<int64_t>();
}

bool IsAttention(const tenon_compile_args& args) {
  return std::any_of(args.nodes, args.nodes + args.node_count,
                     [&](int64_t id) { return IsBatchProduct(*args.cursor, id); });
}

std::unique_ptr<Executable> MakeAttention(const tenon_compile_args& args, Device& device) {
  if (IsAttentionGradient(args)) return MakeAttentionGradient(args, device);
  return Compilation(args, device).Make();
}

}  // namespace tenon::gpu
