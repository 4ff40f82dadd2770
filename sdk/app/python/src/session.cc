// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <map>
#include <optional>

#include "graph.h"
#include "interrupt.h"
#include "tenon/bytes/near_miss.h"
#include "tenon/session_options.h"

namespace tenon::python {
namespace {

// ---- Options ----

std::chrono::nanoseconds ToTime(nb::handle seconds, const char* what) {
  if (seconds.is_none()) return std::chrono::nanoseconds{0};
  const double value = nb::cast<double>(nb::float_(seconds));
  if (!(value > 0) || value > 9e9)
    FailInvalid(std::string(what) + " is a positive number of seconds; found " +
                nb::cast<std::string>(nb::repr(seconds)));
  return std::chrono::nanoseconds{std::max<int64_t>(1, std::llround(value * 1e9))};
}

uint64_t ToChoice(nb::handle value, const char* name, std::string_view names) {
  const auto wanted = nb::cast<std::string>(nb::str(value));
  uint64_t number = 0;
  for (std::string_view left = names; !left.empty(); ++number) {
    const size_t bar = left.find('|');
    if (left.substr(0, bar) == wanted) return number;
    left = bar == std::string_view::npos ? std::string_view() : left.substr(bar + 1);
  }
  std::string choices(names);
  for (size_t at = 0; (at = choices.find('|', at)) != std::string::npos;) choices.replace(at, 1, ", ");
  FailInvalid(std::string("the option '") + name + "' is one of: " + choices + "; found '" + wanted + "'");
}

using Setter = std::function<void(host::SessionOptions&, nb::handle)>;
using Setters = std::map<std::string, Setter, std::less<>>;

const Setters& OptionSetters() {
  static const Setters setters = [] {
    Setters made;
#define TENON_PUT_SIZE(to, name, names) to.name = nb::cast<uint64_t>(given);
#define TENON_PUT_NUMBER(to, name, names) to.name = nb::cast<uint64_t>(given);
#define TENON_PUT_CHOICE(to, name, names) to.name = static_cast<decltype(to.name)>(ToChoice(given, #name, names));
#define TENON_PUT_SWITCH(to, name, names) to.name = nb::cast<bool>(given);
#define TENON_PUT_TEXT(to, name, names) to.name = nb::cast<std::string>(given);
#define TENON_PUT_FILE(to, name, names) to.name = nb::cast<std::string>(given);
#define TENON_PUT_TIME(to, name, names) to.name = ToTime(given, "the option '" #name "'");
#define TENON_PUT(name, kind, value, reach, flag, help, names) \
  made[#name] = [](host::SessionOptions& options, nb::handle given) { TENON_PUT_##kind(options, name, names) };
#define TENON_PUT_DEBUG(name, kind, value, reach, flag, help, names) \
  made[#name] = [](host::SessionOptions& options, nb::handle given) { TENON_PUT_##kind(options.debug, name, names) };
    TENON_SESSION_OPTIONS(TENON_PUT)
    TENON_DEBUG_OPTIONS(TENON_PUT_DEBUG)
    return made;
  }();
  return setters;
}

// ---- Steps ----

// Any thread, without the interpreter's lock. The first exception is kept for the caller.
Status TellWatcher(const nb::object& watch, const host::Watched& made, std::optional<nb::python_error>* raised) {
  const nb::gil_scoped_acquire locked;
  try {
    const auto text = [](std::string_view from) { return nb::str(from.data(), from.size()); };
    watch(text(made.node), text(made.op), text(made.device), made.output,
          FromTensor(Take(Tensor::Copy(made.value)), nullptr));
    return Status();
  } catch (nb::python_error& error) {
    const Status status(host::Code::kUnknown, error.what());
    if (!*raised) raised->emplace(std::move(error));
    return status;
  } catch (const std::exception& error) {
    return Status(host::Code::kUnknown, error.what());
  }
}

// Gives the fetches and, where it was asked for, the trace.
nb::object Run(const SessionBox& self, nb::list feed_names, nb::list values, nb::list types, nb::list fetches,
               nb::list targets, nb::object timeout, nb::object cancellation, bool trace, nb::object watch) {
  const NamedFeeds given = ToFeeds(feed_names, values, types);
  const std::vector<host::Name> fetch_names = ToNames(fetches), target_names = ToNames(targets);
  host::RunOptions options = ToRunOptions(timeout);
  std::string trace_text;
  if (trace) options.trace = &trace_text;
  std::optional<nb::python_error> raised;  // by the watcher
  if (!watch.is_none()) options.watch = [&](const host::Watched& made) { return TellWatcher(watch, made, &raised); };
  std::vector<Tensor> fetched;
  const auto session = Live(self);
  const Status ran = RunInterruptibly(
      *self.history,
      [&](const host::Cancellation& stop) -> Status {
        options.cancellation = &stop;
        TENON_TRY_ASSIGN(fetched, session->Run(given.feeds, fetch_names, target_names, options));
        return Status();
      },
      {self.calls.get(), ToGroup(cancellation)});
  if (raised) throw std::move(*raised);
  Check(ran);
  return nb::make_tuple(FromTensors(fetched, self.runtime),
                        trace ? nb::object(nb::str(trace_text.data(), trace_text.size())) : nb::none());
}

// ---- Questions ----

nb::dict Metrics(const SessionBox& self) {
  const tenon_session_metrics metrics = Take(Live(self)->Metrics());
  nb::dict values;
#define TENON_PUT_METRIC(name) values[#name] = metrics.name;
  TENON_PUT_METRIC(steps)
  TENON_PUT_METRIC(plans_built)
  TENON_PUT_METRIC(plans_reused)
  TENON_PUT_METRIC(bindings_built)
  TENON_PUT_METRIC(bytes_in_use)
  TENON_PUT_METRIC(peak_bytes)
  TENON_PUT_METRIC(nodes_folded)
  TENON_PUT_METRIC(nodes_merged)
  TENON_PUT_METRIC(host_waits)
  TENON_PUT_METRIC(device_bytes_in_use)
  TENON_PUT_METRIC(device_peak_bytes)
  TENON_PUT_METRIC(captured_launches)
#undef TENON_PUT_METRIC
  return values;
}

nb::list Tasks(const SessionBox& self) {
  nb::list tasks;
  for (const tenon_task_state& state : Take(Live(self)->Tasks())) {
    nb::dict task;
    task["name"] = std::string(host::Text(state.name));
    task["address"] = std::string(host::Text(state.address));
    task["silent_seconds"] = static_cast<double>(state.silent_ns) * 1e-9;
    task["steps"] = state.steps;
    task["bytes_in_use"] = state.bytes_in_use;
    task["sessions"] = state.sessions;
    tasks.append(task);
  }
  return tasks;
}

nb::tuple Place(const SessionBox& self, nb::list feeds, nb::list fetches, nb::list targets) {
  const std::vector<host::Name> feed_names = ToNames(feeds), fetch_names = ToNames(fetches),
                                target_names = ToNames(targets);
  host::Placement placement;
  {
    const WithoutLock unlocked;
    placement = Take(Live(self)->Place(feed_names, fetch_names, target_names));
  }
  return nb::make_tuple(placement.json, placement.svg, placement.file);
}

TensorBox CopyTensor(const SessionBox& self, nb::object value, const std::string& device) {
  const Tensor tensor = ToTensor(value, DType::kInvalid, false, "the tensor");
  const WithoutLock unlocked;
  return {Take(Live(self)->CopyTensor(tensor, device)), self.runtime};
}

nb::object PinnedArray(const SessionBox& self, nb::handle shape, nb::handle dtype, const std::string& device) {
  const Shape dims = ToShape(shape);
  const DType type = ToDType(dtype);
  const auto session = Live(self);
  host::Result<Tensor> tensor = [&] {
    const WithoutLock unlocked;
    return session->PinnedTensor(type, dims, device);
  }();
  return ToWritableArray({Take(std::move(tensor)), self.runtime});
}

}  // namespace

nb::list FromTensors(const std::vector<Tensor>& tensors, const std::shared_ptr<const host::Runtime>& runtime) {
  nb::list values;
  for (const Tensor& tensor : tensors) values.append(FromTensor(tensor, runtime));
  return values;
}

std::vector<host::Name> ToNames(nb::handle list) {
  std::vector<host::Name> names;
  for (const nb::handle name : nb::iter(list)) names.emplace_back(NameOfTensor(name));
  return names;
}

DType TypeOf(nb::handle type) { return type.is_none() ? DType::kInvalid : nb::cast<ElementType>(type).value; }

std::shared_ptr<host::Session> Live(const SessionBox& session) {
  if (session.session == nullptr) Fail(Code::kFailedPrecondition, "the session is closed");
  return session.session;
}

NamedFeeds ToFeeds(nb::list names, nb::list values, nb::list types) {
  NamedFeeds given;
  for (size_t i = 0; i < nb::len(names); ++i) {
    const std::string name = NameOfTensor(names[i]);
    FedValue value = ToView(values[i], TypeOf(types[i]), "feed '" + name + "'");
    given.feeds.push_back({name, std::move(value.view)});
    given.keeps.push_back(std::move(value.keeps));
  }
  return given;
}

host::SessionOptions ToSessionOptions(nb::dict options) {
  host::SessionOptions made;
  for (const auto& [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    const auto setter = OptionSetters().find(name);
    if (setter == OptionSetters().end()) {
      sdk::NearMiss near(name);
      for (const auto& [known, set] : OptionSetters()) near.Try(known);
      FailInvalid("a session has no option '" + name + "'" + near.Hint());
    }
    try {
      setter->second(made, value);
    } catch (const nb::cast_error&) {
      FailInvalid("the option '" + name + "' cannot be " + nb::cast<std::string>(nb::repr(value)));
    }
  }
  return made;
}

host::RunOptions ToRunOptions(nb::handle timeout) {
  host::RunOptions options;
  options.timeout = ToTime(timeout, "a timeout");
  return options;
}

CallGroup* ToGroup(nb::handle cancellation) {
  return cancellation.is_none() ? nullptr : &nb::cast<CancellationBox&>(cancellation).calls;
}

void BindSessions(nb::module_& module) {
  nb::class_<CancellationBox>(module, "Cancellation",
                              "Stops steps that were given it, those under way and later ones, from another thread.")
      .def("__init__", [](CancellationBox* self) { new (self) CancellationBox{}; })
      .def("cancel", [](CancellationBox& self) { self.calls.EndForGood(); });
  nb::class_<SessionBox>(module, "SessionBase", nb::is_weak_referenceable())
      .def(nb::init<>())
      .def("_begin",
           [](SessionBox& self, const RuntimeBox& runtime, nb::dict options) {
             const host::SessionOptions c_options = ToSessionOptions(options);
             self.runtime = runtime.runtime;
             const WithoutLock unlocked;
             self.session = ReleasedWithoutLock(Take(host::Session::Create(*self.runtime, c_options)));
           })
      .def("_extend_graph",
           [](SessionBox& self, const GraphHandle& graph) {
             const Locked locked(*graph.box);
             const WithoutLock unlocked;
             Check(Live(self)->Extend(graph.box->graph));
           })
      .def("_extend",
           [](SessionBox& self, nb::bytes graph_def) {
             const WithoutLock unlocked;
             Check(Live(self)->Extend(std::string_view(graph_def.c_str(), graph_def.size())));
           })
      .def("_close",
           [](SessionBox& self) {
             self.calls->End();
             self.session.reset();
           })
      .def("_run", &Run, nb::arg("feed_names"), nb::arg("values"), nb::arg("types"), nb::arg("fetches"),
           nb::arg("targets"), nb::arg("timeout").none(), nb::arg("cancellation").none(), nb::arg("trace"),
           nb::arg("watch").none())
      .def("_place", &Place)
      .def(
          "reset_containers",
          [](const SessionBox& self, const std::vector<std::string>& containers) {
            const auto session = Live(self);
            host::Result<uint64_t> dropped = [&] {
              const WithoutLock unlocked;
              return session->ResetContainers(containers.empty() ? std::vector<std::string>{""} : containers);
            }();
            return Take(std::move(dropped));
          },
          nb::arg("containers") = std::vector<std::string>(),
          "Empties containers by their names, \"\" (the default) for the unnamed one, on a cluster at all of its "
          "workers: "
          "variables lose their values; queues, tables and iterators go. Gives how many of them there were.")
      .def(
          "freeze",
          [](const SessionBox& self) {
            const auto session = Live(self);
            const WithoutLock unlocked;
            Check(session->Freeze());
          },
          "For serving: variables are constants to the steps that are prepared from now on, so that what is made of "
          "them (casts, weights in 8 bits or in a kernel's layout) is made once. "
          "A step that writes to a variable is a FailedPreconditionError from then on; what other sessions write is "
          "not seen. Not for sessions whose steps run on a cluster.")
      .def("_costs", [](const SessionBox& self) { return Take(Live(self)->Costs()); })
      .def("_tasks", &Tasks)
      .def(
          "from_dlpack",
          [](const SessionBox& self, nb::object source, const std::string& device) {
            return TensorBox{TakeDLPackOn(*Live(self), device, source), self.runtime};
          },
          nb::arg("source"), nb::arg("device"),
          "A tensor over another library's memory of that device, without a copy. What that library still does to it "
          "has ended, "
          "or is on a stream that wait_for_stream was told of.")
      .def(
          "wait_for_stream",
          [](const SessionBox& self, const std::string& device, uintptr_t stream) {
            const WithoutLock unlocked;
            Check(Live(self)->WaitForStream(device, reinterpret_cast<void*>(stream)));
          },
          nb::arg("device"), nb::arg("stream"),
          "Steps from now on use the device when what this native stream (its address) was given so far has ended.")
      .def("pinned_array", &PinnedArray, nb::arg("shape"), nb::arg("dtype") = "float32", nb::arg("device") = "",
           "A writable NumPy array, uninitialised, in host memory that transfers to and from that device go by best: "
           "pinned memory of a GPU, ordinary memory for others. To be "
           "fed, and to be given to run_into; not to be written while a step reads it. It may outlive the session.")
      .def("metrics", &Metrics, "Counters since the session began, and bytes in use now.")
      .def("copy_tensor", &CopyTensor, nb::arg("tensor"), nb::arg("device"),
           "A copy in the memory of a device, or of the host (\"\").");
}

}  // namespace tenon::python
