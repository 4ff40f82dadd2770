// SPDX-License-Identifier: Apache-2.0
// FrameId: a frame of a graph: the step, or a loop (loop_analysis.h).
#ifndef TENON_CORE_GRAPH_FRAME_ID_H_
#define TENON_CORE_GRAPH_FRAME_ID_H_

#include "core/base/id.h"

namespace tenon::graph {

using FrameId = Id<struct FrameKind>;
inline constexpr FrameId kStep{0};  // the frame that is no loop

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_FRAME_ID_H_
