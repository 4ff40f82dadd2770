// SPDX-License-Identifier: Apache-2.0
#include "core/session/callable.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/exchange/rendezvous.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/plan/plan.h"
#include "core/exec/runnable.h"
#include "core/session/device_trace.h"
#include "core/session/runtime.h"
#include "core/session/session_placer.h"
#include "core/session/steps.h"
#include "core/tensor/view_check.h"

namespace tenon::session {
namespace {

// Held for a few instructions, so that waiting is spinning.
class SpinGuard {
 public:
  explicit SpinGuard(std::atomic_flag* flag) : flag_(flag) {
    while (flag_->test_and_set(std::memory_order_acquire)) {
    }
  }
  ~SpinGuard() { flag_->clear(std::memory_order_release); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  std::atomic_flag* flag_;
};

}  // namespace

struct Callable::Context {
  exec::Step step;
  Cancellation cancellation;
  std::atomic<bool> active{false};
  std::unique_ptr<exec::Run> run;
};

Callable::Callable(std::shared_ptr<const void> session, Steps* steps, std::shared_ptr<exec::Runnable> runnable,
                   std::vector<Feed> feeds, std::vector<const exec::Device*> fetch_devices)
    : session_(std::move(session)),
      steps_(steps),
      runnable_(std::move(runnable)),
      feeds_(std::move(feeds)),
      fetch_devices_(std::move(fetch_devices)) {}

std::string Callable::Explain() const { return runnable_->Explain(); }
exec::RunnableCounts Callable::counts() const { return runnable_->counts(); }
const exec::Plan* Callable::plan() const { return runnable_->plan(); }
uint64_t Callable::FixedProgram(const tenon_tensor_view* const* feeds) const { return runnable_->FixedProgram(feeds); }

Callable::~Callable() {
  for (const auto& context : contexts_) context->run->ReturnInstances();
}

bool Callable::DropIdle() {
  std::vector<Context*> idle;
  {
    const SpinGuard guard(&lock_);
    idle.swap(idle_);
    idle_.reserve(contexts_.size());  // giving back allocates nothing
  }
  for (Context* context : idle) context->run->ReturnInstances();
  const bool dropped = runnable_->DropIdle();
  const SpinGuard guard(&lock_);
  idle_.insert(idle_.end(), idle.begin(), idle.end());
  return dropped;
}

size_t Callable::node_count() const {
  if (const exec::Plan* whole = plan(); whole != nullptr) return whole->graph().size();
  const graph::Graph* const traced = runnable_->traced().graph;
  return traced == nullptr ? 0 : traced->size();
}

void Callable::CancelRunning(const Status& why) const {
  for (const auto& context : contexts_)
    if (context->active.load()) context->cancellation.Cancel(why);
}

// ---- Contexts ----

Callable::Context* Callable::Acquire() {
  {
    const SpinGuard guard(&lock_);
    if (!idle_.empty()) {
      Context* context = idle_.back();
      idle_.pop_back();
      return context;
    }
  }
  auto fresh = std::make_unique<Context>();
  Context* context = fresh.get();
  context->step.env = steps_->env;
  context->step.cancellation = &context->cancellation;
  context->run = runnable_->NewRun();
  std::lock_guard lock(steps_->mutex);
  const SpinGuard guard(&lock_);
  idle_.reserve(contexts_.size() + 1);
  contexts_.push_back(std::move(fresh));
  return context;
}

void Callable::GiveBack(Context* context) {
  if (context->run->abandoned()) return steps_->runtime->KeepForEver(shared_from_this());
  context->step.End();
  if (context->cancellation.cancelled()) {
    // A cancelled context is not used again; it lives on for who cancels what runs.
    context->run->ReturnInstances();
    return;
  }
  const SpinGuard guard(&lock_);
  idle_.push_back(context);
}

// ---- Feeds ----

bool Callable::Feed::Fits(const tenon_tensor_view& view) const {
  if (view.dl.ndim < 0 || view.dl.ndim > TENON_MAX_RANK || (view.dl.ndim > 0 && view.dl.shape == nullptr)) return false;
  if (shape.known_rank() && shape.rank() != view.dl.ndim) return false;
  for (int32_t i = 0; shape.known_rank() && i < view.dl.ndim; ++i)
    if (shape.dim(i) >= 0 && shape.dim(i) != view.dl.shape[i]) return false;
  uint64_t bytes = 0;
  return ByteSize(type, view, &bytes) && bytes == view.byte_size;
}

namespace {

// Why a feed's view does not fit what is declared, or itself.
Status BadFeed(const std::string& name, const tenon_tensor_view& view, DType type, const Shape& declared) {
  if (view.dl.ndim < 0 || view.dl.ndim > TENON_MAX_RANK)
    return InvalidArgument(
        StrCat("feed '", name, "' has rank ", view.dl.ndim, "; at most ", TENON_MAX_RANK, " are allowed"));
  if (view.dl.ndim > 0 && view.dl.shape == nullptr)
    return InvalidArgument(StrCat("feed '", name, "' has rank ", view.dl.ndim, " and no dims"));
  const Shape found = ShapeOf(view);
  if (Status valid = found.Validate(); !valid.ok()) return std::move(valid).Annotate(StrCat("feed '", name, "'"));
  const bool same_rank = declared.known_rank() && declared.rank() == found.rank();
  bool fits = !declared.known_rank() || same_rank;
  for (int i = 0; same_rank && i < found.rank(); ++i)
    fits = fits && (declared.dim(i) < 0 || declared.dim(i) == found.dim(i));
  if (!fits)
    return InvalidArgument(StrCat("feed '", name, "' is declared as ", TypeName(type), declared.ToString(), ", found ",
                                  TypeName(type), found.ToString()));
  return InvalidArgument(StrCat("feed '", name, "' has a byte_size of ", view.byte_size, ", which is not that of ",
                                TypeName(type), found.ToString()));
}

}  // namespace

Status Callable::CheckFeed(const Feed& feed, const tenon_tensor_view* view) {
  const exec::Device* device = feed.device;
  const bool is_there = view != nullptr && view->dtype == feed.type && view->dl.strides == nullptr &&
                        (view->dl.data != nullptr || view->byte_size == 0) && exec::LiesIn(*view, device);
  const std::string& name = feed.name;
  if (is_there && feed.Fits(*view)) {
    // Of strings in memory that is the caller's alone nobody knows the extent.
    const std::string fault = view->dtype == TENON_DT_STRING && view->buffer != nullptr ? FaultOfCells(*view) : "";
    return fault.empty() ? Status::Ok() : InvalidArgument(StrCat("feed '", name, "' has ", fault));
  }
  if (is_there) return BadFeed(name, *view, feed.type, feed.shape);
  if (view == nullptr) return InvalidArgument(StrCat("feed '", name, "' is NULL"));
  if (view->dtype != feed.type)
    return InvalidArgument(
        StrCat("feed '", name, "' must be ", TypeName(feed.type), ", found ", TypeName(view->dtype)));
  if (!exec::LiesIn(*view, device))
    return InvalidArgument(StrCat("feed '", name, "' must lie in ",
                                  device == nullptr ? "host memory" : StrCat("the memory of ", device->name),
                                  ", found a tensor of DLPack's device type ", view->dl.device_type, ", device ",
                                  view->dl.device_id, "; name the device of a feed when the callable is prepared"));
  if (view->dl.strides != nullptr) return InvalidArgument(StrCat("feed '", name, "' has strides; give it contiguous"));
  return InvalidArgument(StrCat("feed '", name, "' has no data"));
}

Status Callable::CheckFeeds(const tenon_tensor_view* const* feeds) const {
  for (size_t i = 0; i < feeds_.size(); ++i) TENON_RETURN_IF_ERROR(CheckFeed(feeds_[i], feeds[i]));
  return Status::Ok();
}

// ---- Steps ----

// What cancels a run from outside, until it goes.
class Callable::Ends {
 public:
  Ends(DeadlineWatcher* watcher, Cancellation* own, const RunOptions& options) : watcher_(watcher) {
    if (options.timeout_ns != 0) {
      auto watched = watcher->Watch(own, NowNs() + options.timeout_ns,
                                    options.asked_ns == 0 ? options.timeout_ns : options.asked_ns, &ThisThreadsTrail());
      if (watched.ok()) deadline_ = *watched;
      else own->Cancel(watched.status());
    }
    // A part that fails, or is cancelled, must not wait for the others.
    if (exec::Rendezvous* meeting = options.rendezvous; meeting != nullptr)
      abort_.Begin(own, [meeting](const Status& reason) { meeting->Abort(reason); });
    if (options.cancellation != nullptr)
      caller_.Begin(options.cancellation, [own](const Status& reason) { own->Cancel(reason); });
  }
  ~Ends() { ForgetDeadline(); }
  // A watchdog may say what the step does as long as the step has its memory: not later.
  void ForgetDeadline() {
    if (deadline_ != 0) watcher_->Forget(std::exchange(deadline_, 0));
  }
  // This thread works on it from now on; or no thread does.
  void Follow(bool this_thread) {
    if (deadline_ != 0) watcher_->Follow(deadline_, this_thread ? &ThisThreadsTrail() : nullptr);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

 private:
  DeadlineWatcher* const watcher_;
  uint64_t deadline_ = 0;
  Subscription abort_, caller_;
};

namespace {

// Counts a step that runs, whatever ends it: the session's end waits for the count.
class Running {
 public:
  Running(std::atomic<int64_t>* active, std::atomic<uint64_t>* steps) : active_(active), steps_(steps) {
    active_->fetch_add(1, std::memory_order_seq_cst);
  }
  ~Running() {
    steps_->fetch_add(1, std::memory_order_relaxed);
    active_->fetch_sub(1, std::memory_order_seq_cst);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<int64_t>* const active_;
  std::atomic<uint64_t>* const steps_;
};

}  // namespace

Status Callable::ExecuteIn(Context* context, const RunOptions& options, const tenon_tensor_view* const* feeds,
                           const Taker& take) {
  Ends ends(&steps_->runtime->deadlines(), &context->cancellation, options);
  if (context->cancellation.cancelled()) return context->cancellation.reason();
  Status status = Guarded([&] { return context->run->Go(&context->step, feeds); });
  ends.ForgetDeadline();
  return Conclude(context, std::move(status), take);
}

Status Callable::OutcomeOf(const Context& context, Status status) {
  const Cancellation& cancellation = context.cancellation;
  if (!cancellation.cancelled()) return status;
  // Nobody waits for it any more, whatever it has come to.
  if (status.ok()) return cancellation.reason().Annotate("it was done too late");
  // A kernel that left off knows that the step was cancelled, and not why.
  Status why = cancellation.reason();
  return status.code() == Code::kCancelled && why.code() != Code::kCancelled
             ? std::move(why).Annotate(std::string(status.message()))
             : status;
}

Status Callable::Conclude(Context* context, Status status, const Taker& take) {
  exec::Run& run = *context->run;
  status = OutcomeOf(*context, std::move(status));
  for (size_t i = 0; i < fetch_count() && status.ok(); ++i)
    status = Guarded([&] { return take(i, run.fetch(i), run.fetch_is_own(i)); });
  run.Finish();
  return status;
}

Status Callable::MayBegin(const RunOptions& options) const {
  if (steps_->closing.load(std::memory_order_seq_cst)) return steps_->closed.reason();
  if (options.watcher != nullptr && !steps_->env->watch)
    return FailedPrecondition(
        "the step is to be watched, and its session was not made for that; make it with the option 'watch'");
  return Status::Ok();
}

void Callable::Begin(Context* context, const RunOptions& options, BufferPool* keeps,
                     std::span<const tenon_tensor_view* const> places) {
  exec::Step& step = context->step;
  step.id = steps_->next.fetch_add(1, std::memory_order_relaxed);
  last_run_.store(step.id, std::memory_order_relaxed);
  step.trace = options.trace;
  step.watcher = options.watcher;
  step.rendezvous = options.rendezvous;
  step.keeps = keeps;
  step.places = places;
  step.may_end_later = fetch_count() == 0 && keeps == nullptr && options.trace == nullptr &&
                       options.watcher == nullptr && options.rendezvous == nullptr && options.timeout_ns == 0;
}

void Callable::Count(Context* context) {
  steps_->host_waits.fetch_add(std::exchange(context->step.host_waits, 0), std::memory_order_relaxed);
  steps_->captured_launches.fetch_add(std::exchange(context->step.captured_launches, 0), std::memory_order_relaxed);
}

void Callable::Record(const RunOptions& options, const tenon_tensor_view* const* feeds) const {
  if (options.trace != nullptr && steps_->recorder != nullptr && runnable_->traced().graph != nullptr)
    steps_->recorder->RecordCosts(runnable_->traced(), feeds, *options.trace);
}

Status Callable::Execute(const RunOptions& options, const tenon_tensor_view* const* feeds, const Taker& take,
                         BufferPool* keeps, std::span<const tenon_tensor_view* const> places) {
  TENON_RETURN_IF_ERROR(CheckFeeds(feeds));
  const Running running(&steps_->active, &steps_->ran);
  TENON_RETURN_IF_ERROR(MayBegin(options));
  Context* const context = Acquire();
  // What throws leaves its context as it is: it is not used again, and lives on with the callable.
  struct Active {
    explicit Active(std::atomic<bool>* flag) : flag(flag) { flag->store(true, std::memory_order_release); }
    ~Active() { flag->store(false, std::memory_order_release); }
    std::atomic<bool>* const flag;
  };
  Status status;
  {
    const Active active(&context->active);
    Begin(context, options, keeps, places);
    DeviceTrace devices(*steps_->env, options.trace);
    status = ExecuteIn(context, options, feeds, take);
    devices.Finish();
    Count(context);
    if (status.ok()) Record(options, feeds);
  }
  GiveBack(context);
  return status;
}

// ---- Steps in several goes ----

StepInGoes::~StepInGoes() {
  if (context_ == nullptr) return;
  const Status why = Status::Of(Code::kCancelled, "the partial run was released");
  context_->cancellation.Cancel(why);
  rendezvous_->Abort(why);
  (void)Guarded([&] { return context_->run->GoOn(); });
  End();
}

Status StepInGoes::Go(const RunOptions& options, std::function<bool()> enough) {
  Steps& steps = *callable_->steps_;
  const Running running(&steps.active, &steps.ran);
  TENON_RETURN_IF_ERROR(callable_->MayBegin(options));
  if (context_ == nullptr) {
    context_ = callable_->Acquire();
    context_->step.id = steps.next.fetch_add(1, std::memory_order_relaxed);
    context_->step.keeps = nullptr;
    context_->step.places = {};
    context_->step.may_end_later = false;
    context_->step.rendezvous = rendezvous_;
  }
  context_->active.store(true, std::memory_order_release);
  exec::Step& step = context_->step;
  step.enough = std::move(enough);
  if (!std::exchange(step.left_elsewhere, false)) {
    step.trace = options.trace;
    step.watcher = options.watcher;
  }
  DeviceTrace devices(*steps.env, options.trace);
  Status status = Drive(options);
  devices.Finish();
  step.enough = nullptr;
  context_->active.store(false, std::memory_order_release);
  callable_->Count(context_);
  if (ended_) End();
  return status;
}

Status StepInGoes::Drive(const RunOptions& options) {
  RunOptions own = options;
  own.rendezvous = rendezvous_;
  Callable::Ends ends(&callable_->steps_->runtime->deadlines(), &context_->cancellation, own);
  exec::Run& run = *context_->run;
  if (!begun_ && context_->cancellation.cancelled()) {
    ended_ = true;
    return context_->cancellation.reason();
  }
  Status status = Guarded([&] { return std::exchange(begun_, true) ? run.GoOn() : run.Go(&context_->step, nullptr); });
  ends.ForgetDeadline();
  status = Callable::OutcomeOf(*context_, std::move(status));
  ended_ = !status.ok() || !run.stands_still();
  return status;
}

void StepInGoes::End() {
  ended_ = true;
  context_->run->Finish();
  context_->step.trace = nullptr;
  callable_->GiveBack(std::exchange(context_, nullptr));
}

namespace {

// Gives a fetch that has a buffer of its own to the caller.
Status Share(size_t index, const tenon_tensor_view& view, std::vector<Tensor>* out) {
  if (view.buffer == nullptr) return Internal(StrCat("fetch ", index, " has no buffer"));
  Retain(view.buffer);
  (*out)[index] = Tensor(view.dtype, ShapeOf(view), view.buffer);
  return Status::Ok();
}

}  // namespace

BufferPool* Callable::Keeps() const {
  return runnable_->gives_own_buffers() || fetch_count() == 0 ? nullptr : GlobalPool();
}

Callable::Taker Callable::TakeInto(std::vector<Tensor>* out_fetches) const {
  if (runnable_->gives_own_buffers())
    return [out_fetches](size_t index, const tenon_tensor_view& view, bool) { return Share(index, view, out_fetches); };
  return [out_fetches](size_t index, const tenon_tensor_view& view, bool own) -> Status {
    if (!IsPlain(view.dtype) && view.dtype != TENON_DT_STRING)
      return InvalidArgument(
          StrCat("fetch ", index, " is a ", TypeName(view.dtype), ", which cannot leave the session"));
    // What stays on a device is in a buffer of its own; what another fetch shares already is not any more.
    if (!exec::OnHost(view) || (own && IsUnique(view.buffer) && IsUnique(HomeOf(view.buffer))))
      return Share(index, view, out_fetches);
    // The caller's own copy: it may outlive the session, and the runtime.
    TENON_ASSIGN_OR_RETURN((*out_fetches)[index], Tensor::CopyOf(GlobalPool(), view));
    return Status::Ok();
  };
}

Status Callable::Run(const RunOptions& options, const tenon_tensor_view* const* feeds,
                     std::vector<Tensor>* out_fetches) {
  out_fetches->assign(fetch_count(), Tensor());
  return Execute(options, feeds, TakeInto(out_fetches), Keeps());
}

// ---- Steps that no thread waits for ----

// One thread at a time works on it; none while it stands still, until Resume.
class Callable::Async final : public exec::Resumer, public std::enable_shared_from_this<Async> {
 public:
  Async(std::shared_ptr<Callable> callable, const RunOptions& options, Later later, Done done)
      : callable_(std::move(callable)),
        options_(options),
        later_(std::move(later)),
        done_(std::move(done)),
        running_(std::in_place, &callable_->steps_->active, &callable_->steps_->ran) {}

  void Start(const tenon_tensor_view* const* feeds) {
    feeds_ = feeds;
    Status status = Guarded([&]() -> Status {
      TENON_RETURN_IF_ERROR(callable_->CheckFeeds(feeds));
      TENON_RETURN_IF_ERROR(callable_->MayBegin(options_));
      context_ = callable_->Acquire();
      context_->active.store(true, std::memory_order_release);
      callable_->Begin(context_, options_, callable_->Keeps(), {});
      context_->step.resumer = shared_from_this();
      devices_.emplace(*callable_->steps_->env, options_.trace);
      ends_.emplace(&callable_->steps_->runtime->deadlines(), &context_->cancellation, options_);
      return context_->cancellation.cancelled() ? context_->cancellation.reason() : Status::Ok();
    });
    if (!status.ok()) return End(std::move(status));
    Drive();
  }

  void Resume() noexcept override {
    State expected = State::kWorkedOn;
    if (state_.compare_exchange_strong(expected, State::kResumed)) return;
    state_.store(State::kWorkedOn);
    const auto drive = [self = shared_from_this()] {
      self->ends_->Follow(true);
      self->Drive();
    };
    if (!Guarded([&] { return later_(drive); }).ok()) drive();
  }

 private:
  enum class State : uint8_t { kWorkedOn, kResumed, kStandsStill };

  void Drive() {
    exec::Run& run = *context_->run;
    for (;;) {
      Status status =
          Guarded([&] { return std::exchange(begun_, true) ? run.GoOn() : run.Go(&context_->step, feeds_); });
      if (!status.ok() || !run.stands_still()) return End(std::move(status));
      ends_->Follow(false);
      State expected = State::kWorkedOn;
      if (state_.compare_exchange_strong(expected, State::kStandsStill)) return;
      state_.store(State::kWorkedOn);  // something has come meanwhile
      ends_->Follow(true);
    }
  }

  void End(Status status) {
    const std::shared_ptr<Async> self = shared_from_this();
    std::vector<Tensor> fetches;
    if (context_ != nullptr) {
      if (ends_) ends_->ForgetDeadline();
      if (begun_) {
        fetches.assign(callable_->fetch_count(), Tensor());
        status = callable_->Conclude(context_, std::move(status), callable_->TakeInto(&fetches));
      }
      ends_.reset();
      if (devices_) devices_->Finish();
      callable_->Count(context_);
      if (status.ok()) callable_->Record(options_, feeds_);
      context_->step.resumer = nullptr;
      context_->active.store(false, std::memory_order_release);
      callable_->GiveBack(std::exchange(context_, nullptr));
    }
    if (!status.ok()) fetches.clear();
    // The caller may release everything from within done.
    running_.reset();
    callable_.reset();
    const Done done = std::move(done_);
    done(std::move(status), std::move(fetches));
  }

  std::shared_ptr<Callable> callable_;
  const RunOptions options_;
  const tenon_tensor_view* const* feeds_ = nullptr;
  Later later_;
  Done done_;
  std::optional<Running> running_;
  std::optional<DeviceTrace> devices_;
  std::optional<Ends> ends_;
  Context* context_ = nullptr;
  bool begun_ = false;
  std::atomic<State> state_{State::kWorkedOn};
};

void Callable::RunAsync(const RunOptions& options, const tenon_tensor_view* const* feeds, Later later, Done done) {
  std::make_shared<Async>(shared_from_this(), options, std::move(later), std::move(done))->Start(feeds);
}

Status Callable::RunKept(const RunOptions& options, const tenon_tensor_view* const* feeds, BufferPool* pool,
                         std::span<const tenon_tensor_view* const> places, std::span<tenon_tensor_view> out_fetches) {
  std::fill(out_fetches.begin(), out_fetches.end(), tenon_tensor_view{});
  const auto keep = [&](size_t index, const tenon_tensor_view& view, bool) -> Status {
    TENON_RETURN_IF_ERROR(exec::CheckMayOutliveStep(view));
    if (const tenon_tensor_view* place = places.empty() ? nullptr : places[index];
        place != nullptr && exec::OnHost(view) && SameTypeAndShape(*place, view)) {
      if (DataOf(view) != DataOf(*place) && view.byte_size > 0)
        std::memcpy(DataOf(*place), DataOf(view), view.byte_size);
      out_fetches[index] = *place;
      out_fetches[index].buffer = nullptr;
      return Status::Ok();
    }
    TENON_ASSIGN_OR_RETURN(out_fetches[index], exec::KeepView(pool, view));
    return Status::Ok();
  };
  Status status = Execute(options, feeds, keep, pool, places);
  for (tenon_tensor_view& view : out_fetches)
    if (!status.ok() && view.buffer != nullptr) Release(std::exchange(view.buffer, nullptr));
  return status;
}

namespace {

constexpr size_t kMostPlaces = 8;

bool Overlap(const tenon_tensor_view& a, const tenon_tensor_view& b) {
  const auto begin = [](const tenon_tensor_view& view) { return reinterpret_cast<uintptr_t>(DataOf(view)); };
  return begin(a) < begin(b) + b.byte_size && begin(b) < begin(a) + a.byte_size;
}

// Whether kernels may write the fetches where the caller wants them: memory as an arena's is aligned, which nothing
// else of the step stands in.
bool MayBeMadeThere(std::span<const tenon_tensor_view* const> feeds, std::span<const tenon_tensor_view> fetches) {
  if (fetches.empty() || fetches.size() > kMostPlaces) return false;
  for (size_t i = 0; i < fetches.size(); ++i) {
    const tenon_tensor_view& place = fetches[i];
    // The cheap questions first: to say what is wrong takes memory, and a step asks for none.
    if (!exec::OnHost(place) || reinterpret_cast<uintptr_t>(DataOf(place)) % 64 != 0 || !FaultOfPlace(place).empty())
      return false;
    const auto overlaps = [&place](const tenon_tensor_view& other) { return Overlap(place, other); };
    if (std::any_of(fetches.begin() + static_cast<std::ptrdiff_t>(i) + 1, fetches.end(), overlaps)) return false;
    // Where strings' bytes end, their views do not say.
    if (std::any_of(feeds.begin(), feeds.end(), [&](const tenon_tensor_view* feed) {
          return feed == nullptr || !IsPlain(feed->dtype) || overlaps(*feed);
        }))
      return false;
  }
  return true;
}

}  // namespace

Status Callable::RunInto(const RunOptions& options, const tenon_tensor_view* const* feeds,
                         const tenon_tensor_view* fetches) {
  if (std::any_of(fetch_devices_.begin(), fetch_devices_.end(),
                  [](const exec::Device* device) { return device != nullptr; }))
    return Unimplemented(
        "a fetch of this callable stays on a device, whose memory the engine provides; run it without memory of your "
        "own");
  const auto take = [fetches](size_t index, const tenon_tensor_view& view, bool) -> Status {
    const tenon_tensor_view& to = fetches[index];
    if (to.byte_size != view.byte_size || !IsPlain(view.dtype) || !SameTypeAndShape(to, view))
      return InvalidArgument(StrCat("fetch ", index, " is ", TypeName(view.dtype), ShapeOf(view).ToString(),
                                    "; the memory given is for ", TypeName(to.dtype), ShapeOf(to).ToString()));
    if (view.byte_size > 0 && DataOf(to) != DataOf(view)) std::memcpy(DataOf(to), DataOf(view), view.byte_size);
    return Status::Ok();
  };
  const tenon_tensor_view* places[kMostPlaces];
  if (!MayBeMadeThere({feeds, feeds_.size()}, {fetches, fetch_count()})) return Execute(options, feeds, take);
  for (size_t i = 0; i < fetch_count(); ++i) places[i] = &fetches[i];
  return Execute(options, feeds, take, GlobalPool(), {places, fetch_count()});
}

}  // namespace tenon::session
