// SPDX-License-Identifier: Apache-2.0
// Sessions run parts of a graph; a Callable is a part prepared once and run often.
//
// Any edge may be fed and any edge fetched, by Output or by name ("node:1", "node"). A target is a node run for its
// effect.
//
//   TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));
//   TENON_TRY(session.RunTargets({init}));
//   TENON_TRY_ASSIGN(std::vector<Tensor> values, session.Run({{x, View(batch, {32, 784})}}, {loss, accuracy},
//       {train}));
//
// Rules. A session must outlive its callables. All but moving and destroying may be called from several threads at
// once; steps of one session share its variables, and only what the graph orders is ordered. Releasing a session
// cancels what runs and waits for it. Errors. A failed step gives no fetch; what it has written to variables stays.
// Beside what kernels say: INVALID_ARGUMENT (a feed of another type or shape), NOT_FOUND (a name, with near misses),
// DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED (memory_limit), UNAVAILABLE (a task or a device is lost).
#ifndef TENON_HOST_SESSION_H_
#define TENON_HOST_SESSION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/host/graph.h"
#include "tenon/host/runtime.h"
#include "tenon/host/status.h"
#include "tenon/host/tensor.h"
#include "tenon/kernel.h"
#include "tenon/session_options.h"

namespace tenon::host {

// The name of a tensor or of a target: written out, or taken from an Output or Operation.
class Name {
 public:
  Name(std::string name) : name_(std::move(name)) {}  // NOLINT: implicit on purpose
  Name(std::string_view name) : name_(name) {}        // NOLINT
  Name(const char* name) : name_(name) {}             // NOLINT
  Name(const Output& output) : name_(output.name()) {}           // NOLINT
  Name(const Operation& operation) : name_(operation.name()) {}  // NOLINT
  const std::string& text() const { return name_; }

 private:
  std::string name_;
};

struct Feed {
  Name name;
  View value;  // its elements stay until the run returns
};

// Stops runs from another thread: of those that were given it, all that are under way or begin later end with
// CANCELLED. It cannot be taken back. It lives until the runs have returned; asynchronous runs need it only to begin.
class Cancellation {
 public:
  static Result<Cancellation> Create() {
    tenon_cancellation* cancellation = nullptr;
    TENON_TRY(Status::Take(tenon_cancellation_create(&cancellation)));
    return Cancellation(cancellation);
  }
  // One that was made through C, and stays its owner's, who outlives this.
  static Cancellation Borrow(tenon_cancellation* cancellation) { return Cancellation(cancellation, false); }
  void Cancel() { tenon_cancellation_cancel(get()); }
  tenon_cancellation* get() const { return cancellation_.get(); }

 private:
  struct Releaser {
    void operator()(tenon_cancellation* cancellation) const {
      if (owned) tenon_cancellation_release(cancellation);
    }
    bool owned = true;
  };
  explicit Cancellation(tenon_cancellation* cancellation, bool owned = true)
      : cancellation_(cancellation, Releaser{owned}) {}
  std::unique_ptr<tenon_cancellation, Releaser> cancellation_;
};

// What a kernel has made (tenon_watched): good for the call.
struct Watched {
  std::string_view node, op, device;
  int output;
  const tenon_tensor_view& value;  // in host memory
};

struct RunOptions {
  std::chrono::nanoseconds timeout{0};         // of the step, planning included; then it is DEADLINE_EXCEEDED. 0: none
  const Cancellation* cancellation = nullptr;  // may be NULL
  // gets the trace of a step that succeeds, Chrome's JSON format; slows the step. RunAsync leaves it alone
  std::string* trace = nullptr;
  // Shown what each kernel makes, from any thread, several at once; a failure fails the step, an exception too.
  // FAILED_PRECONDITION unless the session has the option `watch`.
  std::function<Status(const Watched& made)> watch{};
};

namespace internal {

inline std::string TakeText(tenon_text* text) {
  std::string out(Text(tenon_text_span(text)));
  tenon_text_release(text);
  return out;
}

// The C options of one run; Finish() brings the trace home.
class CRunOptions {
 public:
  explicit CRunOptions(const RunOptions& options) : options_(options) {
    c_options_.struct_size = sizeof(c_options_);
    c_options_.timeout_ns = static_cast<uint64_t>(options.timeout.count());
    c_options_.cancellation = options.cancellation == nullptr ? nullptr : options.cancellation->get();
    c_options_.out_trace = options.trace == nullptr ? nullptr : &trace_;
    if (!options.watch) return;
    c_options_.watch = &Watch;
    c_options_.watch_argument = const_cast<RunOptions*>(&options);
  }
  CRunOptions(const CRunOptions&) = delete;
  CRunOptions& operator=(const CRunOptions&) = delete;
  ~CRunOptions() { tenon_text_release(trace_); }
  const tenon_run_options* get() const { return &c_options_; }
  void Finish() {
    if (trace_ != nullptr) options_.trace->assign(Text(tenon_text_span(trace_)));
  }

 private:
  static tenon_status* Watch(void* argument, const tenon_watched* made) noexcept {
    const auto& options = *static_cast<const RunOptions*>(argument);
    try {
      const Status said =
          options.watch({Text(made->node), Text(made->op), Text(made->device), made->output, *made->value});
      return said.ok() ? nullptr : tenon_status_create(static_cast<uint32_t>(said.code()), Span(said.message()));
    } catch (const std::exception& thrown) {
      return tenon_status_create(TENON_UNKNOWN, Span(thrown.what()));
    } catch (...) {
      return tenon_status_create(TENON_UNKNOWN, Span("the watcher threw what is no std::exception"));
    }
  }

  const RunOptions& options_;
  tenon_run_options c_options_ = {};
  tenon_text* trace_ = nullptr;
};

inline std::vector<tenon_span> Spans(const std::vector<Name>& names) {
  std::vector<tenon_span> spans;
  spans.reserve(names.size());
  for (const Name& name : names) spans.push_back(Span(name.text()));
  return spans;
}

// Views and pointers to them, as the C API takes feeds.
class CViews {
 public:
  explicit CViews(size_t count) { views_.reserve(count); }
  void Add(const View& view) { views_.push_back(view.c_view()); }
  const tenon_tensor_view* const* get() {
    pointers_.clear();
    for (const tenon_tensor_view& view : views_) pointers_.push_back(&view);
    return pointers_.data();
  }

 private:
  std::vector<tenon_tensor_view> views_;
  std::vector<const tenon_tensor_view*> pointers_;
};

inline std::vector<Tensor> TakeAll(const std::vector<tenon_tensor*>& tensors) {
  std::vector<Tensor> taken;
  taken.reserve(tensors.size());
  for (tenon_tensor* tensor : tensors) taken.push_back(Tensor::Take(tensor));
  return taken;
}

}  // namespace internal

// Prepared by Session::Prepare. Feeds come in the order of preparing.
class Callable {
 public:
  tenon_callable* get() const { return callable_.get(); }
  // For the C API; the caller releases it, and this holds nothing any more.
  tenon_callable* Give() { return callable_.release(); }
  size_t feed_count() const { return feed_count_; }
  size_t fetch_count() const { return fetch_count_; }

  // On the caller's thread; the fetches in the order of preparing, each in host memory or where Prepare said that it
  // stays.
  Result<std::vector<Tensor>> Run(const std::vector<View>& feeds = {}, const RunOptions& options = {}) const {
    TENON_TRY(CheckCount(feeds.size()));
    internal::CViews views(feeds.size());
    for (const View& feed : feeds) views.Add(feed);
    internal::CRunOptions c_options(options);
    std::vector<tenon_tensor*> fetches(fetch_count_, nullptr);
    TENON_TRY(Status::Take(tenon_callable_run(get(), c_options.get(), views.get(), fetches.data())));
    c_options.Finish();
    return internal::TakeAll(fetches);
  }
  // Into the caller's memory; nothing is allocated in a steady step. feeds: feed_count() pointers; fetches:
  // fetch_count() writable views of the right dtype and shape, of plain types only. UNIMPLEMENTED when a fetch stays on
  // a device. After a failure their elements are of no account.
  Status RunInto(const tenon_tensor_view* const* feeds, const tenon_tensor_view* fetches,
                 const RunOptions& options = {}) const {
    internal::CRunOptions c_options(options);
    TENON_TRY(Status::Take(tenon_callable_run_into(get(), c_options.get(), feeds, fetches)));
    c_options.Finish();
    return Status();
  }
  // Returns at once; done is called once, from another thread, and may release the callable. The feeds' memory must
  // live until then. When this fails itself, done is not called.
  Status RunAsync(const std::vector<View>& feeds, std::function<void(Result<std::vector<Tensor>>)> done,
                  const RunOptions& options = {}) const {
    TENON_TRY(CheckCount(feeds.size()));
    struct Call {
      std::vector<View> feeds;
      internal::CViews views;
      std::function<void(Result<std::vector<Tensor>>)> done;
    };
    auto call = std::make_unique<Call>(Call{feeds, internal::CViews(feeds.size()), std::move(done)});
    for (const View& feed : call->feeds) call->views.Add(feed);
    RunOptions without_trace = options;
    without_trace.trace = nullptr;  // there is nowhere to put it once this function returns
    internal::CRunOptions c_options(without_trace);
    const tenon_tensor_view* const* c_feeds = call->views.get();
    tenon_status* status = tenon_callable_run_async(
        get(), c_options.get(), c_feeds,
        [](void* argument, tenon_status* step, tenon_tensor* const* fetches, uint64_t fetch_count) {
          std::unique_ptr<Call> finished(static_cast<Call*>(argument));
          Status outcome = Status::Take(step);
          if (!outcome.ok()) return finished->done(std::move(outcome));
          finished->done(internal::TakeAll(std::vector<tenon_tensor*>(fetches, fetches + fetch_count)));
        },
        call.get());
    if (status == nullptr) call.release();  // the callback owns it now
    return Status::Take(status);
  }
  // JSON: each node's device, kernel, and how it runs.
  Result<std::string> Explain() const {
    tenon_text* text = nullptr;
    TENON_TRY(Status::Take(tenon_callable_explain(get(), &text)));
    return internal::TakeText(text);
  }

 private:
  friend class Session;
  struct Releaser {
    void operator()(tenon_callable* callable) const { tenon_callable_release(callable); }
  };
  Callable(tenon_callable* callable, size_t feed_count, size_t fetch_count)
      : callable_(callable), feed_count_(feed_count), fetch_count_(fetch_count) {}
  Status CheckCount(size_t count) const {
    if (count == feed_count_) return Status();
    return Status(Code::kInvalidArgument, "the callable was prepared with " + std::to_string(feed_count_) +
                                              " feeds and run with " + std::to_string(count));
  }

  std::unique_ptr<tenon_callable, Releaser> callable_;
  size_t feed_count_;
  size_t fetch_count_;
};

// What float32 may become on the way (kernel.h).
enum class Precision : uint32_t {
  kStrict = TENON_PRECISION_STRICT,
  kAllowTf32 = TENON_PRECISION_ALLOW_TF32,
  kAllowBfloat16 = TENON_PRECISION_ALLOW_BFLOAT16,
  kAllowFloat16 = TENON_PRECISION_ALLOW_FLOAT16,
  kInt8 = TENON_PRECISION_INT8,  // by SessionOptions::calibration (app.h)
};

// In how many bits float32 values go from one part to another.
enum class TransferPrecision : uint32_t {
  kFull = TENON_TRANSFER_FULL,
  kTruncated = TENON_TRANSFER_TRUNCATED,
  kNearest = TENON_TRANSFER_NEAREST,
};

// For tests and measurements.
struct DebugOptions {
  uint64_t schedule_seed = 0;    // dynamic executor: 0 is construction order; else a random order
  bool one_queue = false;        // all work of a device goes to one queue
  bool early_transfers = false;  // values go to devices as soon as they are there; false: when they are needed
  bool partition = false;        // one part for each device, on a thread of its own; false: one program for all
  TransferPrecision transfer_precision = TransferPrecision::kFull;  // of float32 values that go from part to part
};

// tenon_session_options in C++ (app.h).
struct SessionOptions {
  // Where nodes go.
  std::string device;          // of nodes that ask for none
  std::string placement;       // text of a placement file
  std::string costs;           // measured costs, as Costs() gave them
  std::string placement_source, costs_source;  // the names of both texts in errors
  std::string placer;          // id of the package whose placer chooses; "": the engine's own
  bool soft_placement = true;  // a device name that cannot hold is dropped; false: it is an error
  bool record_costs = false;   // traced steps are measured, for Costs()
  // The cluster that steps run on.
  std::string master;       // address of any of its tasks; "": steps run in this process
  std::string credentials;  // of the transport, JSON
  std::chrono::nanoseconds connect_timeout{0};  // until all tasks have answered; 0: ten seconds
  // Whose session this is. One that begins ends those of the same owner, also of processes that are gone, and waits for
  // their steps: give one where a session restores state that an earlier attempt may still be changing. "": nobody's.
  std::string owner;
  // What names no container (tenon_session_options): on a cluster it lies in the session's own instead of the workers';
  // in this process in the runtime's, which outlives the session and which others see, instead of the session's own.
  bool isolate = false, share_state = false;
  // How steps run; on a cluster, at its workers.
  uint64_t memory_limit = 0;  // bytes; 0: none
  uint64_t seed = 0;          // of random ops that have none; 0: from the system
  uint32_t executor = TENON_EXECUTOR_AUTO;
  Precision precision = Precision::kStrict;
  std::string calibration;  // text of a calibration, for Precision::kInt8 (calibration.h)
  bool optimize = true;  // common subexpressions, folding
  bool compile = true;   // devices' compilers may take whole sets of nodes
  bool capture = true;  // work of a queue that is the same in every step is launched as one piece, where the device can
  bool check_numerics = false;  // the first NaN or infinity that a kernel makes fails its step, and is named; slow
  bool watch = false;           // steps may have RunOptions.watch; slow
  uint64_t receive_window = 0;  // bytes of large values that a task of a cluster asks others for ahead of need; 0: 8
                                // MiB; UINT64_MAX: all come as soon as they are made
  std::string device_filters;   // the tasks and devices of the cluster that are used, "/job:ps,/job:worker/task:0"; "":
                                // all
  // how long a task may say nothing before it is taken for lost; 0: three seconds
  std::chrono::nanoseconds silence_timeout{0};
  std::string no_pass;  // graph passes that are left out, by name, with commas
  DebugOptions debug;
};

namespace internal {

// The C form, which points into the options.
struct CSessionOptions {
  explicit CSessionOptions(const SessionOptions& from) {
    options.struct_size = sizeof(options);
    debug.struct_size = sizeof(debug);
    options.debug = &debug;
#define TENON_PUT(name, kind, value, reach, flag, help, names) TENON_PUT_##kind(name)
#define TENON_PUT_SIZE(name) to.name = given.name;
#define TENON_PUT_NUMBER(name) to.name = given.name;
#define TENON_PUT_CHOICE(name) to.name = static_cast<uint32_t>(given.name);
#define TENON_PUT_SWITCH(name) to.name = given.name ? TENON_ON : TENON_OFF;
#define TENON_PUT_TEXT(name) to.name = Span(given.name);
#define TENON_PUT_FILE(name) to.name = Span(given.name);
#define TENON_PUT_TIME(name) to.name##_ns = static_cast<uint64_t>(given.name.count());
    const auto put = [](const SessionOptions& given, tenon_session_options& to) { TENON_SESSION_OPTIONS(TENON_PUT) };
    const auto put_debug = [](const DebugOptions& given, tenon_debug_options& to) { TENON_DEBUG_OPTIONS(TENON_PUT) };
#undef TENON_PUT
#undef TENON_PUT_SIZE
#undef TENON_PUT_NUMBER
#undef TENON_PUT_CHOICE
#undef TENON_PUT_SWITCH
#undef TENON_PUT_TEXT
#undef TENON_PUT_FILE
#undef TENON_PUT_TIME
    put(from, options);
    put_debug(from.debug, debug);
  }
  CSessionOptions(const CSessionOptions&) = delete;
  CSessionOptions& operator=(const CSessionOptions&) = delete;
  tenon_session_options options = {};
  tenon_debug_options debug = {};
};

}  // namespace internal

// Where the nodes of a step would run; costs and times are predictions.
struct Placement {
  std::string json;  // why, what else was possible, the predicted time line
  std::string svg;   // a picture of it
  std::string file;  // a placement file that says the same again
};

class Session {
 public:
  // Without nodes. With a master it connects to the cluster, and waits connect_timeout at most. An option that such a
  // session does not honour is an error that names it.
  static Result<Session> Create(const Runtime& runtime, const SessionOptions& options = {}) {
    const internal::CSessionOptions c_options(options);
    tenon_session* session = nullptr;
    TENON_TRY(Status::Take(tenon_session_create(runtime.get(), &c_options.options, &session)));
    return Session(session);
  }
  // With the graph's nodes in it.
  static Result<Session> Create(const Runtime& runtime, const Graph& graph, const SessionOptions& options = {}) {
    TENON_TRY_ASSIGN(Session session, Create(runtime, options));
    TENON_TRY(session.Extend(graph));
    return session;
  }

  // One that was made through C, and stays its owner's, who outlives this.
  static Session Borrow(tenon_session* session) { return Session(session, false); }
  // The same, released with this.
  static Session Take(tenon_session* session) { return Session(session); }

  tenon_session* get() const { return session_.get(); }

  // Adds the nodes whose names the session has not; what it has with the same op stays as it is. The graph is copied,
  // and may go or grow. ALREADY_EXISTS for a name that the session has with another op, and then nothing is added.
  Status Extend(const Graph& graph) {
    TENON_TRY(graph.status());
    return Status::Take(tenon_session_extend_graph(get(), graph.get()));
  }
  // Adds the nodes of a serialized GraphDef; those that nobody here knows are left out, and an error when they are
  // asked for.
  Status Extend(std::string_view graph_def) { return Status::Take(tenon_session_extend(get(), Span(graph_def))); }

  // One step, on the caller's thread: the fetches in their order, in host memory. What is asked for the first time is
  // planned; the same feeds, fetches and targets by name are planned once.
  Result<std::vector<Tensor>> Run(const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                                  const std::vector<Name>& targets = {}, const RunOptions& options = {}) const {
    std::vector<tenon_span> feed_names;
    internal::CViews views(feeds.size());
    for (const Feed& feed : feeds) {
      feed_names.push_back(Span(feed.name.text()));
      views.Add(feed.value);
    }
    const std::vector<tenon_span> fetch_names = internal::Spans(fetches);
    const std::vector<tenon_span> target_names = internal::Spans(targets);
    internal::CRunOptions c_options(options);
    std::vector<tenon_tensor*> values(fetches.size(), nullptr);
    TENON_TRY(Status::Take(tenon_session_run(get(), c_options.get(), feed_names.data(), views.get(), feeds.size(),
                                             fetch_names.data(), fetch_names.size(), target_names.data(),
                                             target_names.size(), values.data())));
    c_options.Finish();
    return internal::TakeAll(values);
  }
  // Empties containers where the steps run, "" for the unnamed one: variables lose their values; queues, tables and
  // iterators go. How much was dropped.
  Result<uint64_t> ResetContainers(const std::vector<std::string>& containers = {""}) const {
    std::vector<tenon_span> names;
    for (const std::string& container : containers) names.push_back(Span(container));
    uint64_t dropped = 0;
    TENON_TRY(Status::Take(tenon_session_reset_containers(get(), names.data(), names.size(), &dropped)));
    return dropped;
  }
  // For serving: variables are constants to the steps that are prepared from now on, and what is made of them is made
  // once. Steps that write to them are FAILED_PRECONDITION. UNIMPLEMENTED: the steps run on a cluster.
  Status Freeze() const { return Status::Take(tenon_session_freeze(get())); }
  // Runs nodes for their effect.
  Status RunTargets(const std::vector<Name>& targets, const std::vector<Feed>& feeds = {}) const {
    return Run(feeds, {}, targets).status();
  }
  // feed_devices, fetch_devices: where each lies or stays, "" for host memory; empty: all in host memory. ends: the
  // timeout and the cancellation that end the preparing; each run has its own.
  Result<Callable> Prepare(const std::vector<Name>& feeds, const std::vector<Name>& fetches,
                           const std::vector<Name>& targets = {}, const std::vector<std::string>& feed_devices = {},
                           const std::vector<std::string>& fetch_devices = {}, const RunOptions& ends = {}) const {
    if ((!feed_devices.empty() && feed_devices.size() != feeds.size()) ||
        (!fetch_devices.empty() && fetch_devices.size() != fetches.size()))
      return Status(Code::kInvalidArgument, "give each feed or fetch a device, or none at all");
    const std::vector<tenon_span> feed_names = internal::Spans(feeds);
    const std::vector<tenon_span> fetch_names = internal::Spans(fetches);
    const std::vector<tenon_span> target_names = internal::Spans(targets);
    std::vector<tenon_span> feeds_on, fetches_on;
    for (const std::string& device : feed_devices) feeds_on.push_back(Span(device));
    for (const std::string& device : fetch_devices) fetches_on.push_back(Span(device));
    const tenon_callable_options options{sizeof(options),
                                         0,
                                         feeds_on.empty() ? nullptr : feeds_on.data(),
                                         fetches_on.empty() ? nullptr : fetches_on.data(),
                                         static_cast<uint64_t>(ends.timeout.count()),
                                         ends.cancellation == nullptr ? nullptr : ends.cancellation->get()};
    tenon_callable* callable = nullptr;
    TENON_TRY(Status::Take(tenon_session_prepare(get(), feed_names.data(), feed_names.size(), fetch_names.data(),
                                                 fetch_names.size(), target_names.data(), target_names.size(),
                                                 &options, &callable)));
    return Callable(callable, feeds.size(), fetches.size());
  }
  // A copy in the memory of a device, or in host memory (""). Waits until it is there. The tensor holds something, and
  // may lie in either.
  Result<Tensor> CopyTensor(const Tensor& tensor, const std::string& device) const {
    tenon_tensor* copy = nullptr;
    TENON_TRY(Status::Take(tenon_session_copy_tensor(get(), tensor.get(), Span(device), &copy)));
    return Tensor::Take(copy);
  }
  // Uninitialised memory of the caller's, which the host writes (Tensor::mutable_data) and transfers to and from that
  // device go by best: pinned memory of a GPU; ordinary memory for "" and for devices that need none. To be fed, and to
  // be run into; not written while a step reads it. Released before the runtime is, also after the session (app.h says
  // all of it).
  Result<Tensor> PinnedTensor(DType dtype, const Shape& shape, const std::string& device) const {
    tenon_tensor* tensor = nullptr;
    TENON_TRY(Status::Take(tenon_session_create_pinned_tensor(get(), Span(device), static_cast<uint32_t>(dtype),
                                                              shape.c_shape(), &tensor)));
    return Tensor::Take(tensor);
  }
  // Another library's memory of that device, without a copy; taken when it succeeds, else it stays the caller's. What
  // that library still does to it has ended, or is on a stream that WaitForStream was told of. Elements with strides
  // are refused. Released before the runtime is.
  Result<Tensor> FromDLPack(const std::string& device, tenon_dl_managed_tensor* managed) const {
    tenon_tensor* tensor = nullptr;
    TENON_TRY(Status::Take(tenon_session_tensor_from_dlpack(get(), Span(device), managed, &tensor)));
    return Tensor::Take(tensor);
  }
  // Steps from now on use the device when what its vendor's native stream was given so far has ended (app.h).
  Status WaitForStream(const std::string& device, void* stream) const {
    return Status::Take(tenon_session_wait_for_stream(get(), Span(device), stream));
  }
  // Where the nodes of a step would run and why; nothing is run, and feeds need no values.
  Result<Placement> Place(const std::vector<Name>& feeds, const std::vector<Name>& fetches,
                          const std::vector<Name>& targets = {}) const {
    const std::vector<tenon_span> feed_names = internal::Spans(feeds);
    const std::vector<tenon_span> fetch_names = internal::Spans(fetches);
    const std::vector<tenon_span> target_names = internal::Spans(targets);
    tenon_text *json = nullptr, *svg = nullptr, *file = nullptr;
    TENON_TRY(Status::Take(tenon_session_place(get(), feed_names.data(), feed_names.size(), fetch_names.data(),
                                               fetch_names.size(), target_names.data(), target_names.size(), &json,
                                               &svg, &file)));
    return Placement{internal::TakeText(json), internal::TakeText(svg), internal::TakeText(file)};
  }
  // What nodes took in traced steps with record_costs, and the costs that it was given: a text for
  // SessionOptions::costs.
  Result<std::string> Costs() const {
    tenon_text* text = nullptr;
    TENON_TRY(Status::Take(tenon_session_costs(get(), &text)));
    return internal::TakeText(text);
  }
  // Counters since the session began, and bytes in use now; app.h says of each.
  Result<tenon_session_metrics> Metrics() const {
    tenon_session_metrics metrics = {};
    metrics.struct_size = sizeof(metrics);
    TENON_TRY(Status::Take(tenon_session_get_metrics(get(), &metrics)));
    return metrics;
  }

  // The tasks of its cluster, by what they said when they were last heard of; none: its steps run in this process.
  // Their texts live as long as the session.
  Result<std::vector<tenon_task_state>> Tasks() const {
    std::vector<tenon_task_state> tasks(tenon_session_task_count(get()));
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].struct_size = sizeof(tenon_task_state);
      TENON_TRY(Status::Take(tenon_session_get_task(get(), i, &tasks[i])));
    }
    return tasks;
  }

 private:
  struct Releaser {
    void operator()(tenon_session* session) const {
      if (owned) tenon_session_release(session);
    }
    bool owned = true;
  };
  explicit Session(tenon_session* session, bool owned = true) : session_(session, Releaser{owned}) {}
  std::unique_ptr<tenon_session, Releaser> session_;
};

}  // namespace tenon::host

#endif  // TENON_HOST_SESSION_H_
