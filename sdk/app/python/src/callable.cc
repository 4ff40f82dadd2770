// SPDX-License-Identifier: Apache-2.0
// Parts of a graph that were prepared once, to be run often.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "graph.h"
#include "interrupt.h"
#include "numpy.h"
#include "session.h"

namespace tenon::python {
namespace {

// Results in the form in which the fetches were given.
struct Form {
  enum class Kind { kOne, kList, kTuple, kDict };
  Kind kind = Kind::kList;
  std::vector<int> positions;  // of each result among the fetches; -1: None, of a node that was run
  nb::object keys;             // of a dict

  nb::object Pack(const std::vector<Tensor>& fetched, const std::shared_ptr<const host::Runtime>& runtime) const {
    const auto one = [&](size_t i) {
      return positions[i] < 0 ? nb::none() : FromTensor(fetched[static_cast<size_t>(positions[i])], runtime);
    };
    if (kind == Kind::kOne) return one(0);
    if (kind == Kind::kDict) {
      nb::dict values;
      for (size_t i = 0; i < positions.size(); ++i) values[keys[i]] = one(i);
      return values;
    }
    nb::list values;
    for (size_t i = 0; i < positions.size(); ++i) values.append(one(i));
    return kind == Kind::kTuple ? nb::object(nb::tuple(values)) : values;
  }
};

struct CallableBox {
  std::shared_ptr<const host::Runtime> runtime;
  std::shared_ptr<host::Session> session;
  std::shared_ptr<host::Callable> callable;
  std::vector<std::string> feed_names;
  std::vector<std::string> feeds_in_words;  // "feed 'x'"
  std::vector<DType> feed_types;
  Form form;
  std::vector<std::string> fetch_names;
  std::shared_ptr<CallHistory> history = std::make_shared<CallHistory>();
  std::shared_ptr<CallGroup> calls = nullptr;  // the session's
};

FedValues FeedsOf(const CallableBox& self, nb::handle args, nb::handle kwargs) {
  const size_t given = nb::len(args), named = kwargs.is_valid() ? nb::len(kwargs) : 0;
  FedValues values;
  values.views.reserve(self.feed_names.size());
  values.keeps.reserve(self.feed_names.size());
  if (given + named != self.feed_names.size() || given > self.feed_names.size()) {
    std::string names;
    for (const std::string& name : self.feed_names) names += (names.empty() ? "" : ", ") + name;
    FailInvalid("the callable takes " + std::to_string(self.feed_names.size()) + " feeds (" + names + "); found " +
                std::to_string(given + named));
  }
  for (size_t i = 0; i < self.feed_names.size(); ++i) {
    if (i < given) {
      values.Add(ToView(args[i], self.feed_types[i], self.feeds_in_words[i]));
      continue;
    }
    PyObject* value = PyDict_GetItemString(kwargs.ptr(), self.feed_names[i].c_str());
    if (value == nullptr) FailInvalid(self.feeds_in_words[i] + " is missing");
    values.Add(ToView(value, self.feed_types[i], self.feeds_in_words[i]));
  }
  return values;
}

nb::object CallWith(const CallableBox& self, const FedValues& feeds, host::RunOptions options,
                    CallGroup* cancellation) {
  std::vector<Tensor> fetched;
  Check(RunInterruptibly(
      *self.history,
      [&](const host::Cancellation& stop) -> Status {
        options.cancellation = &stop;
        TENON_TRY_ASSIGN(fetched, self.callable->Run(feeds.views, options));
        return Status();
      },
      {self.calls.get(), cancellation}));
  return self.form.Pack(fetched, self.runtime);
}

nb::object Call(const CallableBox& self, nb::args args, nb::kwargs kwargs) {
  return CallWith(self, FeedsOf(self, args, kwargs), {}, nullptr);
}

nb::object RunCallable(const CallableBox& self, nb::object feeds, nb::object timeout, nb::object cancellation,
                       bool trace) {
  host::RunOptions options = ToRunOptions(timeout);
  std::string trace_text;
  if (trace) options.trace = &trace_text;
  nb::object values = CallWith(self, FeedsOf(self, nb::tuple(feeds), nb::handle()), options, ToGroup(cancellation));
  return trace ? nb::object(nb::make_tuple(values, nb::str(trace_text.data(), trace_text.size()))) : values;
}

// Memory of the caller's that a fetch is written to.
View ToDestination(nb::handle array, const std::string& what) {
  auto* const as_array = reinterpret_cast<PyArrayObject*>(array.ptr());
  if (!PyArray_Check(array.ptr()) || !PyArray_ISCARRAY(as_array))
    FailInvalid(what +
                " goes into a NumPy array that may be written, without gaps and in this machine's byte order; found " +
                nb::cast<std::string>(nb::repr(array)));
  const DType dtype = FromNumpyType(nb::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(as_array))));
  if (dtype == DType::kInvalid || dtype == DType::kString)
    FailInvalid(what + ": only numbers are written into an array");
  const npy_intp* dims = PyArray_DIMS(as_array);
  return View(dtype, Shape(std::vector<int64_t>(dims, dims + PyArray_NDIM(as_array))), PyArray_DATA(as_array),
              static_cast<uint64_t>(PyArray_NBYTES(as_array)));
}

void RunInto(const CallableBox& self, nb::object feeds, nb::object out, nb::object timeout, nb::object cancellation) {
  const nb::tuple arrays(PyArray_Check(out.ptr()) ? nb::object(nb::make_tuple(out)) : out);
  if (nb::len(arrays) != self.fetch_names.size())
    FailInvalid("the callable gives " + std::to_string(self.fetch_names.size()) + " values; found " +
                std::to_string(nb::len(arrays)) + " arrays for them");
  std::vector<View> into;
  for (size_t i = 0; i < self.fetch_names.size(); ++i)
    into.push_back(ToDestination(arrays[i], "fetch '" + self.fetch_names[i] + "'"));
  const FedValues fed = FeedsOf(self, nb::tuple(feeds), nb::handle());
  std::vector<tenon_tensor_view> views, destinations;  // which point into the others
  for (const View& view : into) destinations.push_back(view.c_view());
  std::vector<const tenon_tensor_view*> pointers;
  for (const View& view : fed.views) views.push_back(view.c_view());
  for (const tenon_tensor_view& view : views) pointers.push_back(&view);
  host::RunOptions options = ToRunOptions(timeout);
  Check(RunInterruptibly(
      *self.history,
      [&](const host::Cancellation& stop) -> Status {
        options.cancellation = &stop;
        return self.callable->RunInto(pointers.data(), destinations.data(), options);
      },
      {self.calls.get(), ToGroup(cancellation)}));
}

CallableBox Prepare(const SessionBox& self, nb::list feeds, nb::list types, nb::list fetches, nb::list targets,
                    int kind, const std::vector<int>& positions, nb::object keys,
                    const std::vector<std::string>& feed_devices, const std::vector<std::string>& fetch_devices,
                    nb::object timeout) {
  const auto session = Live(self);
  CallableBox made{self.runtime,
                   session,
                   nullptr,
                   {},
                   {},
                   {},
                   {static_cast<Form::Kind>(kind), positions, keys},
                   {},
                   std::make_shared<CallHistory>(),
                   self.calls};
  const std::vector<host::Name> feed_names = ToNames(feeds), fetch_names = ToNames(fetches),
                                target_names = ToNames(targets);
  for (const nb::handle type : types) made.feed_types.push_back(TypeOf(type));
  for (const host::Name& name : feed_names) made.feed_names.push_back(name.text());
  for (const host::Name& name : fetch_names) made.fetch_names.push_back(name.text());
  for (const host::Name& name : feed_names) made.feeds_in_words.push_back("feed '" + name.text() + "'");
  host::RunOptions options = ToRunOptions(timeout);
  std::optional<host::Callable> callable;
  CallHistory preparing;
  Check(RunInterruptibly(preparing, [&](const host::Cancellation& stop) -> Status {
    options.cancellation = &stop;
    TENON_TRY_ASSIGN(callable,
                     session->Prepare(feed_names, fetch_names, target_names, feed_devices, fetch_devices, options));
    return Status();
  }));
  made.callable = ReleasedWithoutLock(std::move(*callable));
  return made;
}

std::string ReprOfCallable(const CallableBox& self) {
  std::string text = "<tenon.Callable (";
  for (size_t i = 0; i < self.feed_names.size(); ++i)
    text += (i > 0 ? ", " : "") + self.feed_names[i] + ": " + NameOf(self.feed_types[i]);
  text += ") -> ";
  for (size_t i = 0; i < self.fetch_names.size(); ++i) text += (i > 0 ? ", " : "") + self.fetch_names[i];
  return text + (self.fetch_names.empty() ? "nothing>" : ">");
}

}  // namespace

void BindCallables(nb::module_& module) {
  nb::class_<CallableBox>(
      module, "Callable",
      "Part of a graph that was prepared once, to be run often. Made by Session.prepare; many threads may call it.")
      .def("__call__", &Call,
           "The results, in the form of the fetches. Feeds in the order of preparing, or by their names.")
      .def("run", &RunCallable, nb::arg("feeds") = nb::make_tuple(), nb::kw_only(), nb::arg("timeout") = nb::none(),
           nb::arg("cancellation") = nb::none(), nb::arg("trace") = false,
           "The same with a time limit in seconds or a Cancellation; trace=True: the results and the trace, Chrome's "
           "JSON.")
      .def("run_into", &RunInto, nb::arg("feeds"), nb::arg("out"), nb::kw_only(), nb::arg("timeout") = nb::none(),
           nb::arg("cancellation") = nb::none(),
           "The same into arrays of the caller's, one for each fetched value, of its very type and shape: a steady "
           "step allocates nothing. After a failure what is in "
           "them is of no account. They are not touched by others meanwhile.")
      .def("_explain",
           [](const CallableBox& self) {
             const WithoutLock unlocked;
             return Take(self.callable->Explain());
           })
      .def_ro("feed_names", &CallableBox::feed_names)
      .def_ro("fetch_names", &CallableBox::fetch_names)
      .def("__repr__", &ReprOfCallable);
  module.def("_prepare", &Prepare, nb::arg("session"), nb::arg("feeds"), nb::arg("types"), nb::arg("fetches"),
             nb::arg("targets"), nb::arg("kind"), nb::arg("positions"), nb::arg("keys").none(), nb::arg("feed_devices"),
             nb::arg("fetch_devices"), nb::arg("timeout").none());
}

}  // namespace tenon::python
