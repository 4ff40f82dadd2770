// SPDX-License-Identifier: Apache-2.0
// Steps whose feeds arrive in several calls.
#include "tenon/host/partial_run.h"

#include <nanobind/stl/string.h>

#include <mutex>
#include <optional>

#include "graph.h"
#include "interrupt.h"
#include "session.h"

namespace tenon::python {
namespace {

struct PartialRunBox {
  std::shared_ptr<const host::Runtime> runtime;
  std::shared_ptr<host::Session> session;
  std::shared_ptr<host::PartialRun> run;
  std::shared_ptr<CallGroup> calls;  // the session's
  std::shared_ptr<std::mutex> mutex = std::make_shared<std::mutex>();  // a step is one thread's at a time
};

PartialRunBox Setup(const SessionBox& self, nb::list feeds, nb::list fetches, nb::list targets) {
  const auto session = Live(self);
  const std::vector<host::Name> feed_names = ToNames(feeds), fetch_names = ToNames(fetches),
                                target_names = ToNames(targets);
  const WithoutLock unlocked;
  return {self.runtime, session,
          ReleasedWithoutLock(Take(host::PartialRun::Setup(*session, feed_names, fetch_names, target_names))),
          self.calls};
}

nb::list Go(const PartialRunBox& self, nb::list feed_names, nb::list values, nb::list types, nb::list fetches,
            nb::object timeout, nb::object cancellation) {
  const NamedFeeds given = ToFeeds(feed_names, values, types);
  const std::vector<host::Name> fetch_names = ToNames(fetches);
  host::RunOptions options = ToRunOptions(timeout);
  std::vector<Tensor> fetched;
  CallHistory history;
  Check(RunInterruptibly(
      history,
      [&](const host::Cancellation& stop) -> Status {
        const std::lock_guard lock(*self.mutex);
        options.cancellation = &stop;
        TENON_TRY_ASSIGN(fetched, self.run->Run(given.feeds, fetch_names, options));
        return Status();
      },
      {self.calls.get(), ToGroup(cancellation)}));
  return FromTensors(fetched, self.runtime);
}

}  // namespace

void BindPartialRuns(nb::module_& module) {
  nb::class_<PartialRunBox>(module, "_PartialRun", "See Session.partial_run.")
      .def("_run", &Go, nb::arg("feed_names"), nb::arg("values"), nb::arg("types"), nb::arg("fetches"),
           nb::arg("timeout").none(), nb::arg("cancellation").none());
  module.def("_partial_run", &Setup, nb::arg("session"), nb::arg("feeds"), nb::arg("fetches"), nb::arg("targets"));
}

}  // namespace tenon::python
