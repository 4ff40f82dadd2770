// SPDX-License-Identifier: Apache-2.0
// Partial runs: one step whose feeds arrive in several calls, each of which gives the fetches that it asks for.
//
//   auto run = PartialRun::Setup(session, {a, b}, {first, second});
//   auto x = run->Run({{a, *Tensor::Scalar(1.0f)}}, {first});    // what needs a alone
//   auto y = run->Run({{b, Next((*x)[0])}}, {second});           // goes on where it was
//
// Each node runs once, when all that it needs has been fed; each feed and each fetch is given once. The session
// outlives the run, and holds what the step has computed until the run is released. One thread at a time.
#ifndef TENON_HOST_PARTIAL_RUN_H_
#define TENON_HOST_PARTIAL_RUN_H_

#include <memory>
#include <vector>

#include "tenon/host/session.h"

namespace tenon::host {

class PartialRun {
 public:
  // All that will be fed, fetched and run for its effect. Nothing runs yet.
  static Result<PartialRun> Setup(const Session& session, const std::vector<Name>& feeds,
                                  const std::vector<Name>& fetches, const std::vector<Name>& targets = {}) {
    const std::vector<tenon_span> feed_names = internal::Spans(feeds), fetch_names = internal::Spans(fetches),
                                  target_names = internal::Spans(targets);
    tenon_partial_run* run = nullptr;
    TENON_TRY(Status::Take(tenon_session_partial_setup(session.get(), feed_names.data(), feed_names.size(),
                                                       fetch_names.data(), fetch_names.size(), target_names.data(),
                                                       target_names.size(), &run)));
    return PartialRun(run);
  }
  // FAILED_PRECONDITION: a fetch needs what has not been fed yet; nothing is lost then. A node's failure ends the run.
  Result<std::vector<Tensor>> Run(const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                                  const RunOptions& options = {}) const {
    std::vector<tenon_span> feed_names;
    internal::CViews views(feeds.size());
    for (const Feed& feed : feeds) {
      feed_names.push_back(Span(feed.name.text()));
      views.Add(feed.value);
    }
    const std::vector<tenon_span> fetch_names = internal::Spans(fetches);
    internal::CRunOptions c_options(options);
    std::vector<tenon_tensor*> values(fetches.size(), nullptr);
    TENON_TRY(
        Status::Take(tenon_partial_run_step(run_.get(), c_options.get(), feed_names.data(), views.get(), feeds.size(),
                                            fetch_names.data(), fetch_names.size(), values.data())));
    c_options.Finish();
    return internal::TakeAll(values);
  }
  tenon_partial_run* get() const { return run_.get(); }

 private:
  struct Releaser {
    void operator()(tenon_partial_run* run) const { tenon_partial_run_release(run); }
  };
  explicit PartialRun(tenon_partial_run* run) : run_(run) {}
  std::unique_ptr<tenon_partial_run, Releaser> run_;
};

}  // namespace tenon::host

#endif  // TENON_HOST_PARTIAL_RUN_H_
