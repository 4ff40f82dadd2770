// SPDX-License-Identifier: Apache-2.0
// External placers: the C table of capability "tenon.placer/1" as a function of a Request.
#ifndef TENON_CORE_PLACE_EXTERNAL_PLACER_H_
#define TENON_CORE_PLACE_EXTERNAL_PLACER_H_

#include <vector>

#include "core/place/problem.h"
#include "tenon/ext/draft/place.h"

namespace tenon::place {

// Asks the placer; devices by group. Failures have the placer's words. The table and `self` must outlive the function.
Result<std::vector<int>> AskPlacer(const tenon_placer& placer, tenon_plugin_self* self, const Problem& problem,
                                   const std::vector<int32_t>& sequence, const std::vector<int>& start);

// INVALID_ARGUMENT unless there is a device for each group and the group may go there.
Status CheckAssignment(const Problem& problem, const std::vector<int>& device_of_group);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_EXTERNAL_PLACER_H_
