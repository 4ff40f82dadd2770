// SPDX-License-Identifier: Apache-2.0
// MutexV2, MutexLock, ConsumeMutexLock: one step at a time is in what a mutex guards.
//
// A lock is a variant: it is given back by ConsumeMutexLock, or with the last reference to it, so that a step which
// fails or is given up leaves nothing locked. Those that wait get it in the order in which they came, and none of them
// in a thread.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "handle.h"
#include "tenon/sdk/kernel/variant.h"
#include "tenon/sdk/kernel/work.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kMutexType = TENON_SPAN("tenon.Mutex/1"), kLockType = TENON_SPAN("tenon.MutexLock/1");

class Mutex final : public Place {
 public:
  explicit Mutex(std::string name) : Place(Order::kInOrder, Order::kInOrder), name_(std::move(name)) {}
  void Lock(const RunContext& c, Done done);
  // held: what a lock's variant holds. Once is enough.
  static void GiveBack(void* held);

 private:
  class Held;
  class Locking;

  void Unlock() {
    Ended ended;
    const std::lock_guard lock(mutex_);
    held_ = false;
    Advance(&ended);
  }
  const std::string name_;
  bool held_ = false;  // guarded by the mutex
};

// What a lock's variant holds.
class Mutex::Held {
 public:
  explicit Held(std::shared_ptr<Mutex> mutex) : mutex_(std::move(mutex)) {}
  ~Held() { GiveBack(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  void GiveBack() {
    if (!given_back_.exchange(true)) mutex_->Unlock();
  }
  // It is somebody else's to give back.
  void Forget() { given_back_ = true; }

 private:
  const std::shared_ptr<Mutex> mutex_;
  std::atomic<bool> given_back_ = false;
};

void Mutex::GiveBack(void* held) { static_cast<Held*>(held)->GiveBack(); }

class Mutex::Locking final : public Attempt {
 public:
  Locking(Mutex& mutex, const RunContext& c, Done done) : Attempt(kTake, c, done), own_(mutex) {}
  Progress Try() override {
    if (own_.held_) {
      waited_ = true;
      return Progress::kNone;
    }
    own_.held_ = taken_ = true;
    return Progress::kEnd;
  }
  void PutBack() noexcept override {
    if (std::exchange(taken_, false)) own_.held_ = false;
  }
  void GiveOutputs() override {
    auto held = std::make_unique<Held>(std::static_pointer_cast<Mutex>(own_.shared_from_this()));
    tenon_variant* lock = nullptr;
    const auto release = [](void* object) noexcept { delete static_cast<Held*>(object); };
    if (tenon_status* const failed = Work::ServicesOf(context_.services())
                                         ->variant_hold(kLockType, ToSpan(own_.name_), held.get(), release, &lock)) {
      held->Forget();
      Check(failed);
    }
    (void)held.release();
    taken_ = false;  // the variant's from now on
    SetVariant(context_, 0, lock);
  }
  std::string Waiting() const override { return Concat("waiting for the mutex '", own_.name_, "'"); }
  // Who gives a lock back may do so while its step ends, and is kept from nothing: a step that has waited goes on
  // elsewhere.
  void End(std::unique_ptr<Attempt> self, tenon_status* failure) override {
    if (failure != nullptr || !waited_) return Attempt::End(std::move(self), failure);
    const RunContext context = context_;
    const Done done = done_;
    self.reset();
    try {
      Work(context).Schedule(0, [done](const Outcome&) { done(nullptr); });
    } catch (const KernelError&) {
      done(nullptr);
    }
  }

 private:
  Mutex& own_;
  bool taken_ = false, waited_ = false;
};

void Mutex::Lock(const RunContext& c, Done done) { Submit(std::make_unique<Locking>(*this, c, done)); }

struct MakeMutex {
  explicit MakeMutex(CreateContext& c) : named(c, "mutex") {}
  void Run(RunContext c) const {
    PlaceOf<Mutex>(c, named.handle, kMutexType, named.name);
    *c.output<tenon_resource*>(0) = named.handle;
  }
  const NamedHandle named;
};

struct LockMutex {
  void RunAsync(RunContext c, Done done) const { PlaceIn<Mutex>(c, 0, kMutexType)->Lock(c, done); }
};

struct ConsumeLock {
  void Run(RunContext c) const {
    const tenon_tensor_view& view = c.input_view(0);
    if (view.dl.ndim != 0) Fail(TENON_INVALID_ARGUMENT, "mutex_lock must be one lock; its shape is ", DimsOf(view));
    const tenon_variant* const variant = VariantOf(view);
    void* const held = variant == nullptr ? nullptr : Work::ServicesOf(c.services())->variant_held(variant, kLockType);
    if (held == nullptr) Fail(TENON_INVALID_ARGUMENT, "mutex_lock is no lock of a mutex");
    Mutex::GiveBack(held);
  }
};

constexpr Traits kMutexGives = {.flags = TENON_KERNEL_STATEFUL, .dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kMutex = {.flags = TENON_KERNEL_STATEFUL};

}  // namespace

TENON_KERNEL(kMutexV2Kernel) = Registration<MakeMutex>("MutexV2", kMutex);
TENON_KERNEL(kMutexLockKernel) = Registration<LockMutex>("MutexLock", kMutexGives);
TENON_KERNEL(kConsumeMutexLockKernel) = Registration<ConsumeLock>("ConsumeMutexLock", kMutex);

TENON_OP(kMutexV2) = DefineOp({
    .name = "MutexV2",
    .outputs = "resource: resource",
    .attrs = "container: string = ''; shared_name: string = ''",
    .doc = "A mutex, by its name.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kMutexLock) = DefineOp({
    .name = "MutexLock",
    .inputs = "mutex: resource",
    .outputs = "mutex_lock: variant",
    .doc = "Waits until nobody has the mutex, and locks it. The lock is given back by ConsumeMutexLock, or when nobody "
           "has mutex_lock any more: with the step at the latest, however it "
           "ends. A step that locks one mutex twice waits for itself.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

static void ConsumeShape(ShapeContext& c) { c.WithRank(0, 0); }

TENON_OP(kConsumeMutexLock) = DefineOp({
    .name = "ConsumeMutexLock",
    .inputs = "mutex_lock: variant",
    .constraints = "rank(mutex_lock) == 0",
    .doc = "Gives a lock back: what it guards runs before, by control edges. Once more it does nothing.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ConsumeShape>,
});

}  // namespace tenon::ops
