// SPDX-License-Identifier: Apache-2.0
// FileGuard: whether running some nodes of a stranger's graph touches files other than those that it is given.
//
// What is walked is all that the nodes need, also in functions. An op that touches files says so (TENON_OP_IO), and
// which of its inputs are their paths ("path(x)" in tenon/op.h). Such an input is trusted where it is one of the
// tensors that the caller feeds: itself, or through ops that change nothing, arguments of calls and branches, and a
// variable that is written with nothing else first. Any other path (a constant of the graph, a string that was put
// together, a loop's variable) is refused, and so is an op that touches files, the network or the clock by itself. What
// cannot be told is refused.
#ifndef TENON_MODEL_FILE_GUARD_H_
#define TENON_MODEL_FILE_GUARD_H_

#include <string>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/graph_index.h"

namespace tenon::model {

// PERMISSION_DENIED names the node, the op, the function it sits in, and what it would touch. feeds: names of tensors
// that the caller feeds, trusted_feeds: those of them that are paths of its own choice.
Status CheckFiles(const Runtime& runtime, const GraphIndex& graph, const std::vector<std::string>& feeds,
                  const std::vector<std::string>& trusted_feeds, const std::vector<std::string>& targets);

}  // namespace tenon::model

#endif  // TENON_MODEL_FILE_GUARD_H_
