// SPDX-License-Identifier: Apache-2.0
// External placers: the C table of capability "tenon.placer/1" as a function of a Request.
#ifndef TENON_CORE_PLACE_EXTERNAL_PLACER_H_
#define TENON_CORE_PLACE_EXTERNAL_PLACER_H_

#include <vector>

#include "core/place/problem.h"
#include "tenon/ext/draft/place.h"

namespace tenon::place {

// Asks the placer. Failures have the placer's words. The table and `self` must outlive the function.
Result<GroupDevices> AskPlacer(const tenon_placer& placer, tenon_plugin_self* self, const Problem& problem,
                               const Sequence& sequence, const GroupDevices& start);

// INVALID_ARGUMENT unless there is a device for each group and the group may go there.
Status CheckAssignment(const Problem& problem, const GroupDevices& device_of_group);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_EXTERNAL_PLACER_H_
