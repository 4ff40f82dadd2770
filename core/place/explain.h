// SPDX-License-Identifier: Apache-2.0
// A placement explained: as JSON, and as a picture of its predicted time line.
//
// JSON: {"seconds", "transfers", "transfer_bytes", "notes": [text],
//   "devices": [{"name", "type", "nodes", "busy_seconds", "peak_bytes", "memory_bytes"}],
//   "nodes": [{"name", "op", "device", "reason", "why", "with", "start", "finish", "alternatives": [{"device",
//   "finish"}]}], "transfer_spans": [{"value", "from", "to", "bytes", "start", "finish"}], "costs": [{"op", "nodes",
//   "static_seconds", "measured_seconds", "ratio"}], "refusals": [{"node", "plugin", "reason"}]}
// Times are seconds from the step's start; nodes are in the order in which they are simulated. An alternative's finish
// is the node's, given all that went before it. "costs" (op "" is all of them) is there when costs were measured,
// "refusals" when a device's compiler or a kernel (its plugin's id) would not take a node.
#ifndef TENON_CORE_PLACE_EXPLAIN_H_
#define TENON_CORE_PLACE_EXPLAIN_H_

#include <map>
#include <string>
#include <vector>

#include "core/place/cost_model.h"
#include "core/place/placement.h"

namespace tenon::place {

// "kernel", "device name", ...
std::string_view ReasonName(Reason reason);

// A node that a plugin's compiler or kernel was asked to take, and why it would not.
struct Refusal {
  std::string node, plugin, reason;
};

// Both for a placement of a request that asked to explain.
std::string ToJson(const Request& request, const Placement& placement,
                   const std::map<std::string, CostError>& costs = {}, const std::vector<Refusal>& refusals = {});
// A row a device, a bar a node, a line a transfer; hovering shows names and times. Bars too thin to be seen are left
// out, and counted.
std::string ToSvg(const Request& request, const Placement& placement);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_EXPLAIN_H_
