// SPDX-License-Identifier: Apache-2.0
#include "core/session/partial_run.h"

namespace tenon::session {

Status PartialRun::Step(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
                        const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches) {
  if (!ended_.ok()) return FailedPrecondition(StrCat("the partial run has ended with an error, and is to be set up anew: ", ended_.message()));
  bool runs = false;
  Status status = Call(options, feed_names, feeds, fetch_names, out_fetches, &runs);
  if (!status.ok() && runs) ended_ = status;
  return status;
}

}  // namespace tenon::session
