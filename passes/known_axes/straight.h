// SPDX-License-Identifier: Apache-2.0
// Which nodes run in every step, once.
#ifndef TENON_PASSES_KNOWN_AXES_STRAIGHT_H_
#define TENON_PASSES_KNOWN_AXES_STRAIGHT_H_

#include <cstdint>
#include <vector>

#include "tenon/sdk/op/graph_pass.h"

namespace tenon::passes {

// By number: whether nothing that the node depends on chooses or turns round. Of a graph whose nodes stand behind what
// they read, before a pass has added any.
inline std::vector<bool> StraightNodes(sdk::PassContext& p) {
  std::vector<bool> straight(static_cast<size_t>(p.node_count()), false);
  for (int64_t id = 0; id < std::ssize(straight) && p.ok(); ++id) {
    bool is = true;
    const auto follow = [&](int64_t source) {
      is = is && (source < 0 || (source < id && straight[static_cast<size_t>(source)]));
    };
    p.With(id, [&](sdk::NodeContext& c) {
      is = (c.Properties().flags & TENON_PROPERTY_STEERS) == 0;
      for (int i = 0; i < c.input_count(); ++i) follow(p.input(id, i).node);
    });
    for (int i = 0; i < p.control_input_count(id); ++i) follow(p.control_input(id, i));
    straight[static_cast<size_t>(id)] = is;
  }
  return straight;
}

}  // namespace tenon::passes

#endif  // TENON_PASSES_KNOWN_AXES_STRAIGHT_H_
