// SPDX-License-Identifier: Apache-2.0
// What is numbered while a graph is placed, each kind by ids of its own. Files, plugins and other rooms get number().
#ifndef TENON_CORE_PLACE_IDS_H_
#define TENON_CORE_PLACE_IDS_H_

#include <vector>

#include "core/base/id.h"

namespace tenon::place {

using DeviceId = Id<struct DeviceKind>;      // in Request::devices; the session's devices are in the same order
using ClassId = Id<struct ClassKind>;        // devices that are equally fast
using SetId = Id<struct SetKind>;            // in DeviceSets
using Position = Id<struct PositionKind>;    // of a node, in Request::order
using GroupId = Id<struct GroupKind>;        // nodes that go to one device together
using MemberId = Id<struct MemberKind>;      // in Groups::members
using ValueId = Id<struct ValueKind>;        // in Problem::values
using InputId = Id<struct InputKind>;        // in Problem::inputs: a value, as one node reads it

using Sequence = std::vector<Position>;                // in which a step is simulated
using GroupDevices = IdVector<GroupId, DeviceId>;      // where each group goes

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_IDS_H_
