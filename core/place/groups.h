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
  std::vector<int32_t> group_of;  // by position
  std::vector<int> sets;          // by group: the devices where it may go, never empty
  std::vector<int32_t> offsets;   // members of group g: members[offsets[g]] up to members[offsets[g + 1]]
  std::vector<int32_t> members;   // positions, ascending
  std::vector<std::string> notes;

  size_t size() const { return sets.size(); }
  std::span<const int32_t> of(int32_t group) const {
    const size_t g = static_cast<size_t>(group);
    return std::span(members).subspan(static_cast<size_t>(offsets[g]), static_cast<size_t>(offsets[g + 1] - offsets[g]));
  }
};

// `position` gives a node's place in the order by its id, -1 when it is not there. Contradictions are INVALID_ARGUMENT
// naming two nodes; with soft placement device names give way, with a note.
Result<Groups> FindGroups(const Request& request, const graph::NodeMap<int32_t>& position, const Constraints& constraints,
                          DeviceSets* sets);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_GROUPS_H_
