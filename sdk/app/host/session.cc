// SPDX-License-Identifier: Apache-2.0
// The sessions of app.h.
#include <algorithm>
#include <cstring>

#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/pinned.h"
#include "core/exec/device/step.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/op_def.h"
#include "core/session/partial_run.h"
#include "core/session/session_placer.h"
#include "core/trace/trace.h"
#include "net/cluster/master.h"
#include "sdk/app/host/objects.h"
#include "tenon/ext/draft/graph_pass.h"

using namespace tenon;  // NOLINT: this file implements C functions of the global namespace
using host::Array, host::List, host::Ranked;

namespace {

// A caller's function that is shown what kernels make.
class CallersWatcher : public exec::Watcher {
 public:
  explicit CallersWatcher(const tenon_run_options& options)
      : watch_(options.watch), argument_(options.watch_argument) {}
  Status Look(const graph::Node& node, int32_t output, const tenon_tensor_view& value) override {
    const tenon_watched made{
        TENON_HEAD(tenon_watched), Span(node.name), Span(node.op->name), Span(node.device), &value, output, 0};
    return Status(watch_(argument_, &made));
  }

 private:
  tenon_status* (*watch_)(void* argument, const tenon_watched* made);
  void* argument_;
};

// The run's options in the core's form; the trace is written into the caller's text at the end.
struct Run {
  explicit Run(const tenon_run_options* given) : status(host::ReadOptions(given, &options)), watcher(options) {
    if (options.watch != nullptr) core.watcher = &watcher;
    core.timeout_ns = options.timeout_ns;
    if (options.cancellation != nullptr) core.cancellation = options.cancellation->cancellation.get();
    if (options.out_trace != nullptr) core.trace = &trace;
  }
  void Finish() {
    if (options.out_trace != nullptr) *options.out_trace = new tenon_text{trace.ToJson()};
  }
  tenon_run_options options;
  Status status;
  CallersWatcher watcher;
  session::RunOptions core;
  trace::Trace trace;
};

void Give(std::vector<Tensor>& fetches, tenon_tensor** out_fetches) {
  for (size_t i = 0; i < fetches.size(); ++i) out_fetches[i] = new tenon_tensor(std::move(fetches[i]));
}
// Of a callable, whose fetches may stay on devices.
void Give(const session::Callable& callable, std::vector<Tensor>& fetches, tenon_tensor** out_fetches) {
  for (size_t i = 0; i < fetches.size(); ++i)
    out_fetches[i] = new tenon_tensor(std::move(fetches[i]), callable.fetch_device(i));
}

// The cluster that a session's steps run on.
Result<std::shared_ptr<cluster::Master>> ConnectMaster(tenon_runtime* runtime, const session::SessionOptions& options) {
  cluster::MasterOptions master;
  master.address = options.master;
  master.credentials = options.credentials;
  if (options.connect_timeout_ns != 0) master.connect_ns = options.connect_timeout_ns;
  if (options.silence_timeout_ns != 0) master.silence_ns = options.silence_timeout_ns;
  master.ping_ns = std::max<uint64_t>(std::min(master.ping_ns, master.silence_ns / 6), 1'000'000);
  // What a busy machine may take to answer, it may take to ask as well.
  master.lease_ns = std::max(master.lease_ns, std::min(master.silence_ns, UINT64_MAX / 8) * 5);
  master.session = options;
  return cluster::Master::Connect([runtime](const std::string& scheme) { return runtime->FindTransport(scheme); },
                                  std::move(master));
}

// Whether a view needs no second look: what TENON_CHECK says of others costs more than a small step may.
bool IsRight(const tenon_tensor_view* view) {
  return view != nullptr && view->byte_size <= arguments::kMostAddress &&
         (view->byte_size == 0 || view->dl.data != nullptr) && view->dl.byte_offset <= arguments::kMostAddress &&
         view->dl.ndim >= 0 && view->dl.ndim <= TENON_MAX_RANK && (view->dl.ndim == 0 || view->dl.shape != nullptr) &&
         view->dl.strides == nullptr;
}

// Whether a feed fits is for the callable to say, which knows what it is called.
Status CheckRun(const tenon_callable* callable, const tenon_tensor_view* const* feeds) {
  const size_t count = callable == nullptr ? 0 : callable->callable->feed_count();
  if (callable != nullptr && (count == 0 || (feeds != nullptr && std::all_of(feeds, feeds + count, IsRight))))
    return Status::Ok();
  TENON_CHECK(callable);
  TENON_CHECK(List(feeds, count));
  return Status::Ok();
}

Status CheckPlaces(const tenon_tensor_view* fetches, size_t count) {
  if (count == 0 || (fetches != nullptr && std::all_of(fetches, fetches + count,
                                                       [](const tenon_tensor_view& each) { return IsRight(&each); })))
    return Status::Ok();
  TENON_CHECK(List(fetches, count));
  return Status::Ok();
}

void Give(std::string& text, tenon_text** out_text) {
  if (out_text != nullptr) *out_text = new tenon_text{std::move(text)};
}

}  // namespace

extern "C" {

tenon_status* tenon_session_create(tenon_runtime* runtime, const tenon_session_options* given,
                                   tenon_session** out_session) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, out_session);
    tenon_session_options asked;
    TENON_RETURN_IF_ERROR(host::ReadOptions(given, &asked));
    session::SessionOptions options;
    TENON_RETURN_IF_ERROR(host::ReadSessionOptions(asked, &options));
    TENON_RETURN_IF_ERROR(session::CheckOptions(options));  // before anybody is connected to
    runtime->OpenDevices();
    if (!options.placer.empty()) runtime->OpenById(options.placer);
    if (options.precision > TENON_PRECISION_ALLOW_TF32 || !options.no_pass.empty())
      runtime->OpenThoseWith(TENON_CAPABILITY_GRAPH_PASS);
    std::shared_ptr<cluster::Master> master;
    if (!options.master.empty()) {
      TENON_RETURN_IF_ERROR(session::PlacementOptions::Of(options).status());
      TENON_ASSIGN_OR_RETURN(master, ConnectMaster(runtime, options));
    }
    options.remote = master;
    Result<std::shared_ptr<session::Session>> made = session::Session::Create(&runtime->runtime, std::move(options));
    // A device whose plugin this machine cannot run.
    if (made.status().code() == Code::kNotFound)
      return NotFound(StrCat(made.status().message(), runtime->RefusedDevices()));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<session::Session> session, std::move(made));
    *out_session = new tenon_session{runtime, std::move(master), std::move(session)};
    return Status::Ok();
  });
}

void tenon_session_release(tenon_session* session) {
  if (session == nullptr) return;
  session->session->Close();
  delete session;
}

tenon_status* tenon_session_extend(tenon_session* session, tenon_span graph_def) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, graph_def);
    return session->session->Extend(View(graph_def));
  });
}
tenon_status* tenon_session_extend_within(tenon_session* session, const tenon_run_options* options,
                                          tenon_span graph_def) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, graph_def);
    Run run(options);
    TENON_RETURN_IF_ERROR(std::move(run.status));
    return session->session->Extend(View(graph_def), run.core);
  });
}
tenon_status* tenon_session_extend_graph(tenon_session* session, const tenon_app_graph* graph) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, graph);
    return session->session->ExtendGraph(graph->graph);
  });
}

tenon_status* tenon_session_place(tenon_session* session, const tenon_span* feed_names, uint64_t feed_count,
                                  const tenon_span* fetch_names, uint64_t fetch_count, const tenon_span* target_names,
                                  uint64_t target_count, tenon_text** out_json, tenon_text** out_svg,
                                  tenon_text** out_placement) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, List(feed_names, feed_count), List(fetch_names, fetch_count),
                List(target_names, target_count));
    TENON_ASSIGN_OR_RETURN(
        session::PlacementReport report,
        session->session->ExplainPlacement(host::Names(feed_names, feed_count), host::Names(fetch_names, fetch_count),
                                           host::Names(target_names, target_count)));
    Give(report.json, out_json);
    Give(report.svg, out_svg);
    Give(report.file, out_placement);
    return Status::Ok();
  });
}

tenon_status* tenon_session_reset_containers(tenon_session* session, const tenon_span* containers, uint64_t count,
                                             uint64_t* out_count) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, List(containers, count));
    const std::vector<std::string_view> names =
        count == 0 ? std::vector<std::string_view>{""} : host::Names(containers, count);
    TENON_ASSIGN_OR_RETURN(const int64_t dropped, session->session->ResetContainers(names));
    if (out_count != nullptr) *out_count = static_cast<uint64_t>(dropped);
    return Status::Ok();
  });
}

tenon_status* tenon_session_freeze(tenon_session* session) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session);
    return session->session->Freeze();
  });
}

tenon_status* tenon_session_costs(const tenon_session* session, tenon_text** out_costs) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, out_costs);
    *out_costs = new tenon_text{session->session->placer().Costs()};
    return Status::Ok();
  });
}

tenon_status* tenon_cancellation_create(tenon_cancellation** out_cancellation) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(out_cancellation);
    *out_cancellation = new tenon_cancellation;
    return Status::Ok();
  });
}
void tenon_cancellation_cancel(tenon_cancellation* cancellation) {
  if (cancellation == nullptr) return;
  cancellation->cancellation->Cancel(Status(Code::kCancelled, "the caller cancelled the step"));
}
void tenon_cancellation_release(tenon_cancellation* cancellation) { delete cancellation; }

tenon_status* tenon_session_run(tenon_session* session, const tenon_run_options* options, const tenon_span* feed_names,
                                const tenon_tensor_view* const* feeds, uint64_t feed_count,
                                const tenon_span* fetch_names, uint64_t fetch_count, const tenon_span* target_names,
                                uint64_t target_count, tenon_tensor** out_fetches) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, List(feed_names, feed_count), List(feeds, feed_count), List(fetch_names, fetch_count),
                List(target_names, target_count), Array(out_fetches, fetch_count));
    Run run(options);
    TENON_RETURN_IF_ERROR(std::move(run.status));
    std::vector<Tensor> fetches;
    Status status =
        session->session->Run(run.core, host::Names(feed_names, feed_count), feeds,
                              host::Names(fetch_names, fetch_count), host::Names(target_names, target_count), &fetches);
    run.Finish();
    if (status.ok()) Give(fetches, out_fetches);
    return status;
  });
}

tenon_status* tenon_session_prepare(tenon_session* session, const tenon_span* feed_names, uint64_t feed_count,
                                    const tenon_span* fetch_names, uint64_t fetch_count, const tenon_span* target_names,
                                    uint64_t target_count, const tenon_callable_options* given,
                                    tenon_callable** out_callable) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, List(feed_names, feed_count), List(fetch_names, fetch_count), List(target_names, target_count),
                out_callable);
    tenon_callable_options options;
    TENON_RETURN_IF_ERROR(host::ReadOptions(given, &options));
    if (options.feed_devices != nullptr) TENON_CHECK(List(options.feed_devices, feed_count));
    if (options.fetch_devices != nullptr) TENON_CHECK(List(options.fetch_devices, fetch_count));
    session::RunOptions ends;
    ends.timeout_ns = options.timeout_ns;
    if (options.cancellation != nullptr) ends.cancellation = options.cancellation->cancellation.get();
    TENON_ASSIGN_OR_RETURN(
        std::shared_ptr<session::Callable> callable,
        session->session->Prepare(
            host::Names(feed_names, feed_count), host::Names(fetch_names, fetch_count),
            host::Names(target_names, target_count),
            host::Names(options.feed_devices, options.feed_devices == nullptr ? 0 : feed_count),
            host::Names(options.fetch_devices, options.fetch_devices == nullptr ? 0 : fetch_count), ends));
    *out_callable = new tenon_callable{std::move(callable), session->session};
    return Status::Ok();
  });
}

tenon_status* tenon_session_copy_tensor(tenon_session* session, const tenon_tensor* tensor, tenon_span device,
                                        tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, tensor, device, out_tensor);
    session::Session& from = *session->session;
    int32_t source = 0, target = 0;
    if (tensor->device != nullptr) {
      TENON_ASSIGN_OR_RETURN(source, from.FindDevice(tensor->device->name));
      if (from.device(source).device != tensor->device) return InvalidArgument("the tensor belongs to another runtime");
    }
    if (device.size > 0) {
      TENON_ASSIGN_OR_RETURN(target, from.FindDevice(View(device)));
      target = from.device(target).memory;
    }
    TENON_ASSIGN_OR_RETURN(Tensor copy, from.CopyTo(tensor->view, source, target));
    *out_tensor = new tenon_tensor(std::move(copy), target == 0 ? nullptr : from.device(target).device);
    return Status::Ok();
  });
}

tenon_status* tenon_session_create_pinned_tensor(tenon_session* session, tenon_span device, uint32_t dtype,
                                                 tenon_shape shape, tenon_tensor** out_tensor) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, device, Ranked(shape), out_tensor);
    const session::Session& of = *session->session;
    const exec::Device* best = nullptr;
    if (device.size > 0) {
      TENON_ASSIGN_OR_RETURN(const int32_t found, of.FindDevice(View(device)));
      best = of.device(found).device;
    }
    TENON_ASSIGN_OR_RETURN(Tensor tensor, exec::NewPinned(best, of.pool(), dtype, Shape(shape)));
    auto* const made = new tenon_tensor(std::move(tensor));
    made->view.buffer = nullptr;  // its elements may change
    *out_tensor = made;
    return Status::Ok();
  });
}

tenon_status* tenon_session_wait_for_stream(tenon_session* session, tenon_span device, void* stream) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, device);
    session::Session& of = *session->session;
    TENON_ASSIGN_OR_RETURN(const int32_t found, of.FindDevice(View(device)));
    return exec::WaitForStream(*of.device(found).device, stream);
  });
}

void tenon_callable_release(tenon_callable* callable) { delete callable; }

tenon_status* tenon_callable_run(tenon_callable* callable, const tenon_run_options* options,
                                 const tenon_tensor_view* const* feeds, tenon_tensor** out_fetches) {
  return host::Guard([&]() -> Status {
    TENON_RETURN_IF_ERROR(CheckRun(callable, feeds));
    if (out_fetches == nullptr) TENON_CHECK(Array(out_fetches, callable->callable->fetch_count()));
    Run run(options);
    TENON_RETURN_IF_ERROR(std::move(run.status));
    std::vector<Tensor> fetches;
    Status status = callable->callable->Run(run.core, feeds, &fetches);
    run.Finish();
    if (status.ok()) Give(*callable->callable, fetches, out_fetches);
    return status;
  });
}

tenon_status* tenon_callable_run_into(tenon_callable* callable, const tenon_run_options* options,
                                      const tenon_tensor_view* const* feeds, const tenon_tensor_view* fetches) {
  return host::Guard([&]() -> Status {
    TENON_RETURN_IF_ERROR(CheckRun(callable, feeds));
    TENON_RETURN_IF_ERROR(CheckPlaces(fetches, callable->callable->fetch_count()));
    if (options == nullptr) {
      // The shortest way: nothing is made for a run without options.
      static const session::RunOptions plain;
      return callable->callable->RunInto(plain, feeds, fetches);
    }
    Run run(options);
    TENON_RETURN_IF_ERROR(std::move(run.status));
    Status status = callable->callable->RunInto(run.core, feeds, fetches);
    run.Finish();
    return status;
  });
}

tenon_status* tenon_callable_run_async(tenon_callable* callable, const tenon_run_options* given,
                                       const tenon_tensor_view* const* feeds,
                                       void (*done)(void* argument, tenon_status* status, tenon_tensor* const* fetches,
                                                    uint64_t fetch_count),
                                       void* argument) {
  return host::Guard([&]() -> Status {
    TENON_RETURN_IF_ERROR(CheckRun(callable, feeds));
    TENON_CHECK(done);
    tenon_run_options options;
    TENON_RETURN_IF_ERROR(host::ReadOptions(given, &options));
    if (options.out_trace != nullptr)
      return InvalidArgument("an asynchronous run cannot be traced; run it synchronously");
    if (options.watch != nullptr) return InvalidArgument("an asynchronous run cannot be watched; run it synchronously");
    session::RunOptions core;
    core.timeout_ns = options.timeout_ns;
    // The token may be released while the step runs.
    std::shared_ptr<Cancellation> token =
        options.cancellation == nullptr ? nullptr : options.cancellation->cancellation;
    core.cancellation = token.get();
    std::vector<const tenon_tensor_view*> views(feeds, feeds + callable->callable->feed_count());
    auto* threads = &callable->session->runtime()->threads();
    // Where there is no thread more it waits for one.
    const auto later = [threads](const std::function<void()>& task) {
      return threads->ScheduleWaiting(task).ok() ? Status::Ok() : threads->Schedule(task);
    };
    auto tell = [token, done, argument, target = callable->callable, session = callable->session](
                    Status status, std::vector<Tensor> fetches) mutable {
      std::vector<tenon_tensor*> out(fetches.size(), nullptr);
      if (status.ok()) Give(*target, fetches, out.data());
      // The caller may release everything from within done.
      target.reset();
      session.reset();
      done(argument, status.release(), out.data(), out.size());
    };
    return threads->ScheduleWaiting(
        [core, later, views = std::move(views), target = callable->callable, tell = std::move(tell)]() mutable {
          const auto given = std::make_shared<std::vector<const tenon_tensor_view*>>(std::move(views));
          session::Callable& run = *target;
          run.RunAsync(core, given->data(), later,
                       [given, tell = std::move(tell)](Status status, std::vector<Tensor> fetches) mutable {
                         tell(std::move(status), std::move(fetches));
                       });
          target.reset();
        });
  });
}

tenon_status* tenon_session_partial_setup(tenon_session* session, const tenon_span* feed_names, uint64_t feed_count,
                                          const tenon_span* fetch_names, uint64_t fetch_count,
                                          const tenon_span* target_names, uint64_t target_count,
                                          tenon_partial_run** out_partial) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, List(feed_names, feed_count), List(fetch_names, fetch_count), List(target_names, target_count),
                out_partial);
    TENON_ASSIGN_OR_RETURN(
        std::unique_ptr<session::PartialRun> partial,
        session::PartialRun::Setup(session->session, host::Names(feed_names, feed_count),
                                   host::Names(fetch_names, fetch_count), host::Names(target_names, target_count)));
    *out_partial = new tenon_partial_run{std::move(partial)};
    return Status::Ok();
  });
}

tenon_status* tenon_partial_run_step(tenon_partial_run* partial, const tenon_run_options* options,
                                     const tenon_span* feed_names, const tenon_tensor_view* const* feeds,
                                     uint64_t feed_count, const tenon_span* fetch_names, uint64_t fetch_count,
                                     tenon_tensor** out_fetches) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(partial, List(feed_names, feed_count), List(feeds, feed_count), List(fetch_names, fetch_count),
                Array(out_fetches, fetch_count));
    Run run(options);
    TENON_RETURN_IF_ERROR(std::move(run.status));
    std::vector<Tensor> fetches;
    Status status = partial->partial->Step(run.core, host::Names(feed_names, feed_count), feeds,
                                           host::Names(fetch_names, fetch_count), &fetches);
    run.Finish();
    if (status.ok()) Give(fetches, out_fetches);
    return status;
  });
}
void tenon_partial_run_release(tenon_partial_run* partial) { delete partial; }

tenon_status* tenon_session_get_metrics(const tenon_session* session, tenon_session_metrics* out_metrics) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, out_metrics);
    const session::SessionMetrics metrics = session->session->metrics();
    const tenon_session_metrics value = {TENON_HEAD(tenon_session_metrics),
                                         metrics.steps,
                                         metrics.plans_built,
                                         metrics.plans_reused,
                                         metrics.bindings_built,
                                         metrics.bytes_in_use,
                                         metrics.peak_bytes,
                                         metrics.nodes_folded,
                                         metrics.nodes_merged,
                                         metrics.host_waits,
                                         metrics.device_bytes_in_use,
                                         metrics.device_peak_bytes,
                                         metrics.captured_launches};
    return Status(host::WriteOut(value, out_metrics));
  });
}

uint64_t tenon_session_task_count(const tenon_session* session) {
  return session == nullptr || session->master == nullptr ? 0 : session->master->task_count();
}

tenon_status* tenon_session_get_task(const tenon_session* session, uint64_t index, tenon_task_state* out_state) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(session, out_state);
    if (index >= tenon_session_task_count(session))
      return OutOfRange(
          StrCat("the session's cluster has ", tenon_session_task_count(session), " tasks; there is no task ", index));
    const cluster::TaskReport report = session->master->Report(index);
    const cluster::PingReply& said = report.said;
    const tenon_task_state value = {TENON_HEAD(tenon_task_state),
                                    Span(report.task->name()),
                                    Span(report.task->address()),
                                    report.silent_ns,
                                    said.steps(),
                                    said.bytes_sent(),
                                    said.bytes_received(),
                                    said.bytes_in_use(),
                                    said.sessions()};
    return Status(host::WriteOut(value, out_state));
  });
}

tenon_status* tenon_callable_explain(tenon_callable* callable, tenon_text** out_json) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(callable, out_json);
    *out_json = new tenon_text{callable->callable->Explain()};
    return Status::Ok();
  });
}

}  // extern "C"
