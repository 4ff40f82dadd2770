// SPDX-License-Identifier: Apache-2.0
// A pipe within one process: two lanes, one each way, and a thread at the end of each.
//
// Idea: a frame waits in its lane until the reader's thread takes it, which copies the body from the writer's pieces
// straight into the memory that the sink gives. Small bodies are copied when they are written, so that their writer has
// its pieces back at once.
#ifndef TENON_NET_LOOPBACK_PIPE_H_
#define TENON_NET_LOOPBACK_PIPE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/extras/transport/pipe.h"

namespace tenon::loopback {

// The two ends of a new pipe; each is known to the other side by the name given.
std::pair<std::unique_ptr<sdk::Pipe>, std::unique_ptr<sdk::Pipe>> MakePipe(std::string_view first_sees,
                                                                           std::string_view second_sees);

}  // namespace tenon::loopback

#endif  // TENON_NET_LOOPBACK_PIPE_H_
