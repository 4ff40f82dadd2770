// SPDX-License-Identifier: Apache-2.0
// Sets of nodes that a device's compiler took, each run as one operation.
#include <algorithm>

#include "core/exec/lower/emitter.h"
#include "core/exec/plan/tile_program.h"
#include "core/graph/graph.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;

// A claim is emitted with its first node.
Status Emitter::EmitClaim(int32_t number, std::vector<Operation>* block) {
  if (!emitted_claims_.insert(number).second) return Status::Ok();
  const Claims::Claim& claim = plan_.claims()->claims()[number];
  std::vector<graph::NodeId> nodes;
  for (graph::NodeId id : claim.nodes)
    if (facts_.needed(id)) nodes.push_back(id);
  if (claim.compiler.table == nullptr) return EmitTiles(*claim.device, nodes, block);
  const Border border = borders_.Of(nodes);
  std::shared_ptr<const CompiledRegion> region;
  if (border.shapes_known) {
    TENON_ASSIGN_OR_RETURN(
        region, CompileClaim(plan_, *plan_.claims(), claim, nodes, border.in, border.out, facts_.inference()));
  }
  if (region == nullptr && !claim.device->queued()) return EmitTiles(*claim.device, nodes, block);
  return EmitWhole(std::move(region), *claim.device, nodes, border, block);
}

// region: nullptr: node by node.
Status Emitter::EmitWhole(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                          const std::vector<graph::NodeId>& nodes, const Border& border,
                          std::vector<Operation>* block) {
  if (region != nullptr) return EmitRegion(std::move(region), device, border.in, border.out, block);
  for (graph::NodeId id : nodes) TENON_RETURN_IF_ERROR(EmitKernel(graph_.node(id), block));
  return Status::Ok();
}

// Those of one shape that follow one another are one program. What is of another shape, or has no tile function, comes
// before them, if it reads none of them; else they end there.
Status Emitter::EmitTiles(const SessionDevice& device, const std::vector<graph::NodeId>& nodes,
                          std::vector<Operation>* block) {
  std::vector<graph::NodeId> together;
  const auto close = [&]() -> Status {
    const std::vector<graph::NodeId> of_one_shape = std::exchange(together, {});
    if (of_one_shape.empty()) return Status::Ok();
    const Border border = borders_.Of(of_one_shape);
    std::shared_ptr<const CompiledRegion> region;
    if (border.shapes_known && of_one_shape.size() > 1) {
      TENON_ASSIGN_OR_RETURN(region, TileProgram::Make(plan_, of_one_shape, border.in, border.out, facts_.inference()));
    }
    return EmitWhole(std::move(region), device, of_one_shape, border, block);
  };
  for (const graph::NodeId id : nodes) {
    const bool may = MayBeTiled(plan_, id);
    const Node& node = graph_.node(id);
    if (!may && together.empty()) {
      TENON_RETURN_IF_ERROR(EmitKernel(node, block));
      continue;
    }
    if (!together.empty() && (!may || facts_.of({id, 0}).shape != facts_.of({together[0], 0}).shape)) {
      const auto is_together = [&](graph::NodeId source) {
        return std::find(together.begin(), together.end(), source) != together.end();
      };
      const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](const Edge& edge) { return is_together(edge.node); }) ||
                         std::any_of(node.controls.begin(), node.controls.end(), is_together);
      if (!waits) {
        TENON_RETURN_IF_ERROR(EmitKernel(node, block));
        continue;
      }
      TENON_RETURN_IF_ERROR(close());
      if (!may) {
        TENON_RETURN_IF_ERROR(EmitKernel(node, block));
        continue;
      }
    }
    together.push_back(id);
  }
  return close();
}

Status Emitter::EmitRegion(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                           const std::vector<Edge>& in, const std::vector<Edge>& out, std::vector<Operation>* block) {
  const Node& first = graph_.node(region->nodes()[0]);
  std::vector<SlotId> inputs, outputs;
  for (const Edge& edge : in) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, writer_.SlotOf(edge));
    if (IsRef(code_->at(slot).dtype)) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, first, edge, block));
    }
    writer_.Use(inputs.emplace_back(slot));
  }
  QueueId queue;
  double seconds = 0;
  if (device.queued()) {
    queue = queues_.ForRegion(device, inputs);
    seconds = queues_.SecondsOfAll(region->nodes(), device);
  }
  for (const Edge& edge : out) {
    outputs.push_back(writer_.NewSlot(graph_.TypeOf(edge), facts_.of(edge).shape, Home::kArena, plan_.MemoryOf(edge)));
    writer_.SetSlot(edge, outputs.back());
  }
  if (queue) queues_.Submit(queue, seconds, inputs, outputs);
  uint64_t& workspace = code_->workspace(queue);
  workspace = std::max(workspace, region->workspace_bytes());
  Operation& operation = writer_.Push(block, queue ? Operation::Kind::kQueued : Operation::Kind::kCompiled, first.id);
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(outputs);
  operation.queue = queue;
  operation.region = std::move(region);
  return Status::Ok();
}

}  // namespace tenon::exec
