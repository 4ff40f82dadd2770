// SPDX-License-Identifier: Apache-2.0
// Setting up a partial run: nothing runs yet.
#ifndef TENON_CORE_SESSION_PARTIAL_RUN_SETUP_H_
#define TENON_CORE_SESSION_PARTIAL_RUN_SETUP_H_

#include "core/session/partial_run.h"

namespace tenon::session {

// In this process it is one step, which stands still between calls (partial_run_goes.h); over a cluster, a step for each call (partial_run_steps.h).
Result<std::unique_ptr<PartialRun>> SetUpPartialRun(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                    const std::vector<std::string_view>& fetches, const std::vector<std::string_view>& targets);

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PARTIAL_RUN_SETUP_H_
