// SPDX-License-Identifier: Apache-2.0
// Tile groups: nodes of element-wise kernels that feed one another, to be computed in one pass over memory
// (tile_program.h).
//
// A group is convex: no way leads out of it and in again. It holds nodes whose kernels have a tile function
// (ext/draft/tile.h), whoever brought them. Shapes are not looked at here, as they may be unknown until a step comes:
// who emits the group parts it where they differ.
#ifndef TENON_CORE_EXEC_PLAN_TILE_GROUPS_H_
#define TENON_CORE_EXEC_PLAN_TILE_GROUPS_H_

#include <functional>
#include <vector>

#include "core/graph/edge.h"

namespace tenon::exec {

class Plan;

// Each of at least two nodes, in the plan's order. may: which nodes are free to be taken.
std::vector<std::vector<graph::NodeId>> FindTileGroups(const Plan& plan, const std::function<bool(graph::NodeId)>& may);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_TILE_GROUPS_H_
