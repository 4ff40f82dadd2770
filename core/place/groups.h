// SPDX-License-Identifier: Apache-2.0
// Groups: nodes that go to one device together, found with union-find in nearly linear time.
//
// Must be together: nodes of one class ("_class" has "loc:@name"), what takes a reference or a resource handle with the
// node that made it, the control-flow nodes of one loop variable. Must be in one task, as their values do not leave
// their process: the ends of an edge of variant (datasets); of one that may leave it (lists, optionals) they are in one
// task unless their device names part them. Are put together where nothing speaks against it: what looks at its input's
// shape alone, and that input; a value that a loop does not change, and its first reader inside; a loop's condition,
// the predicate, and the host.
#ifndef TENON_CORE_PLACE_GROUPS_H_
#define TENON_CORE_PLACE_GROUPS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/place/constraints.h"

namespace tenon::place {

struct Groups {
  IdVector<Position, GroupId> group_of;
  IdVector<GroupId, SetId> sets;               // the devices where it may go, never empty
  IdVector<MemberId, Position> members;        // group after group, each ascending
  IdVector<GroupId, MemberId> first_member;  // one more than there are groups
  std::vector<std::string> notes;

  size_t size() const { return sets.size(); }
  IdRange<GroupId> ids() const { return sets.ids(); }
  std::span<const Position> of(GroupId group) const {
    return members.Between(first_member[group], first_member[group.next()]);
  }
};

// Whether the node makes a handle or a reference, and not from another: a variable, a queue, a table.
bool MakesState(const graph::Node& node);

// Contradictions are INVALID_ARGUMENT naming two nodes. With soft placement device names give way with a note, types
// and indices before tasks: what takes a handle goes to its state, wherever its own name points, but nodes of one class
// whose names say different tasks stay an error, as does a variant that would have to cross and may not.
//
// State has one home for all clients of a cluster (Request::of_cluster), which neither costs nor the part of a graph
// that a client has change: of the devices where the group of a node that makes a handle or a reference may go, those
// of the first task in the cluster's order, there the one with the most arithmetic a second that does not leave the
// work to the host, and of equal ones the first.
Result<Groups> FindGroups(const Request& request, const Positions& position, const Constraints& constraints,
                          DeviceSets* sets);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_GROUPS_H_
