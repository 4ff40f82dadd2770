// SPDX-License-Identifier: Apache-2.0
#include "core/session/partial_run_setup.h"

#include "core/session/partial_run_goes.h"
#include "core/session/partial_run_steps.h"

namespace tenon::session {

Result<std::unique_ptr<PartialRun>> SetUpPartialRun(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                    const std::vector<std::string_view>& fetches, const std::vector<std::string_view>& targets) {
  if (session->runs_elsewhere()) return PartialRunSteps::Setup(std::move(session), feeds, fetches, targets);
  return PartialRunGoes::Setup(std::move(session), feeds, fetches, targets);
}

}  // namespace tenon::session
