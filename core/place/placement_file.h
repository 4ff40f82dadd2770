// SPDX-License-Identifier: Apache-2.0
// PlacementFile: device names for the nodes of a graph that is not changed.
//
// Text, one rule a line: a node's name or a pattern, blanks, a device name. '#' begins a comment, blank lines are
// nothing. In a pattern '*' stands for any characters, '?' for one. A node takes the rule with its exact name, else the
// last pattern that fits. A rule goes before the device name that stands in the graph.
//
//   layer1/*          /device:TPU:0     # all below layer1
//   layer1/summary    /device:CPU:0
#ifndef TENON_CORE_PLACE_PLACEMENT_FILE_H_
#define TENON_CORE_PLACE_PLACEMENT_FILE_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"
#include "core/graph/edge.h"
#include "core/place/ids.h"

namespace tenon::place {

class PlacementFile {
 public:
  // `source` names the text in errors, which say the line.
  static Result<PlacementFile> Parse(std::string_view text, std::string_view source);
  // nullptr when no rule is for the node.
  const std::string* Find(const std::string& node) const;
  // NOT_FOUND for a rule that no node of the graph has: with a near miss, and the line. For the whole graph: a step has
  // a part of its nodes.
  Status Check(const graph::Graph& graph) const;
  bool empty() const { return rules_.empty(); }

  // A file that says just where each node goes, which Parse reads again. Nodes of no device are left out.
  static std::string Write(const graph::Graph& graph, const graph::NodeMap<DeviceId>& device_of_node,
                           const IdVector<DeviceId, std::string>& device_names);

 private:
  struct Rule {
    std::string node, device;
    int line = 0;
  };
  std::string source_;
  std::vector<Rule> rules_;
  std::unordered_map<std::string, size_t> exact_;
  std::vector<size_t> patterns_;
};

// Whether `text` is of a pattern with '*' and '?'.
bool MatchesPattern(std::string_view pattern, std::string_view text);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_PLACEMENT_FILE_H_
