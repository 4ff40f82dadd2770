// SPDX-License-Identifier: Apache-2.0
// Placement of a session's graphs: what core/place is told of the session's devices and kernels.
#ifndef TENON_CORE_SESSION_PLACEMENT_H_
#define TENON_CORE_SESSION_PLACEMENT_H_

#include <string>
#include <vector>

#include "core/place/place.h"

namespace tenon::exec {
struct DeviceCopy;
struct Environment;
struct SessionDevice;
}

namespace tenon::session {

// The devices of a session as the placement sees them.
place::Devices DescribeDevices(const exec::Environment& env);

// What is known of a network before anything was measured.
inline constexpr place::Link kGuessedNetwork = {50e-6, 1e9};
// Between the memories of two devices; through the host where the drivers differ and `between` is nullptr (or does not
// say how fast it is), over the network where the tasks do.
place::Link LinkBetween(const exec::SessionDevice& from, const exec::SessionDevice& to, const place::Link& network,
                        const exec::DeviceCopy* between = nullptr);

// A request for the graph; it refers to `graph`, `devices` and `env`.
Result<place::Request> MakePlaceRequest(const graph::Graph& graph, const std::vector<graph::Edge>& feeds,
                                        const std::vector<graph::Edge>& fetches, const exec::Environment& env,
                                        const place::Devices& devices);

// Writes the answer into the nodes: each has the full name of its device.
void ApplyPlacement(const place::Placement& placement, const place::Devices& devices, graph::Graph* graph);

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PLACEMENT_H_
