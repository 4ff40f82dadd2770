// SPDX-License-Identifier: Apache-2.0
// PartialRun: a step whose feeds arrive in several calls (partial_run_setup.h makes it). One call at a time.
#ifndef TENON_CORE_SESSION_PARTIAL_RUN_H_
#define TENON_CORE_SESSION_PARTIAL_RUN_H_

#include <memory>
#include <string_view>
#include <vector>

#include "core/session/session.h"

namespace tenon::session {

class PartialRun {
 public:
  virtual ~PartialRun() = default;
  // Feeds some of what was declared, and gives fetches that need nothing else. What is refused before anything has run (a name that was not declared, a
  // feed of another type, FAILED_PRECONDITION: a fetch needs a feed that is open) loses nothing; any other failure ends the run, and calls say so then.
  Status Step(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
              const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches);

 protected:
  // out_runs: whether something has begun to run, so that a failure is the end.
  virtual Status Call(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
                      const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches, bool* out_runs) = 0;

 private:
  Status ended_;  // why, once it has
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PARTIAL_RUN_H_
