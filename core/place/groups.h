// SPDX-License-Identifier: Apache-2.0
// Groups: nodes that go to one device together, found with union-find in nearly linear time.
//
// Must be together: nodes of one class ("_class" has "loc:@name"), what takes a reference or a resource handle with the
// node that made it, the control-flow nodes of one loop variable. Are put together where nothing speaks against it: what
// looks at its input's shape alone, and that input; a value that a loop does not change, and its first reader inside; a
// loop's condition, the predicate, and the host.
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
  std::span<const Position> of(GroupId group) const { return members.Between(first_member[group], first_member[group.next()]); }
};

// Contradictions are INVALID_ARGUMENT
// naming two nodes; with soft placement device names give way, with a note.
Result<Groups> FindGroups(const Request& request, const Positions& position, const Constraints& constraints, DeviceSets* sets);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_GROUPS_H_
