// SPDX-License-Identifier: Apache-2.0
// Python's sessions: what models and training need of them.
#ifndef TENON_PYTHON_SESSION_H_
#define TENON_PYTHON_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "errors.h"
#include "interrupt.h"
#include "runtime.h"
#include "tensor.h"

namespace tenon::python {

struct SessionBox {
  std::shared_ptr<const host::Runtime> runtime;
  std::shared_ptr<host::Session> session;  // let go of before the runtime
  std::shared_ptr<CallHistory> history = std::make_shared<CallHistory>();
  std::shared_ptr<CallGroup> calls =
      std::make_shared<CallGroup>("the session was closed");  // its steps, also of what was prepared in it
};

// A share of its own, so that a session that another thread closes stays until the steps under way, which it ends, have
// ended. FAILED_PRECONDITION: it is closed.
std::shared_ptr<host::Session> Live(const SessionBox& session);

// By the names of tenon_session_options; INVALID_ARGUMENT for one that is not there, with near misses, or a value of
// another kind.
host::SessionOptions ToSessionOptions(nb::dict options);

struct CancellationBox {
  CallGroup calls;
};

std::vector<host::Name> ToNames(nb::handle list);
nb::list FromTensors(const std::vector<Tensor>& tensors, const std::shared_ptr<const host::Runtime>& runtime);
// Of tenon.DType or None.
DType TypeOf(nb::handle type);

// What a step has besides its feeds. Seconds; none: no limit.
host::RunOptions ToRunOptions(nb::handle timeout);
CallGroup* ToGroup(nb::handle cancellation);

// Values that stay where they are while a step reads them.
struct FedValues {
  std::vector<View> views;
  std::vector<nb::object> keeps;
  void Add(FedValue value) {
    views.push_back(std::move(value.view));
    keeps.push_back(std::move(value.keeps));
  }
};

// The same by name.
struct NamedFeeds {
  std::vector<host::Feed> feeds;
  std::vector<nb::object> keeps;
};
// names: Outputs or texts; types: what each asks for, a tenon.DType or None.
NamedFeeds ToFeeds(nb::list names, nb::list values, nb::list types);

}  // namespace tenon::python

#endif  // TENON_PYTHON_SESSION_H_
