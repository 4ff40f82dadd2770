// SPDX-License-Identifier: Apache-2.0
// Elsewhere: what a step has begun and does not wait for: asynchronous kernels, kernels that got a thread, receives.
// Who is done leaves word in the inbox, from any thread; the thread that drives the step takes it from there.
#ifndef TENON_CORE_EXEC_DATAFLOW_ELSEWHERE_H_
#define TENON_CORE_EXEC_DATAFLOW_ELSEWHERE_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/exec/dataflow/frames.h"
#include "core/exec/exchange/rendezvous.h"

namespace tenon::exec::dataflow {

// What has come, the first first. To put something in takes no memory: whoever brings it has nobody to tell that there
// is none.
template <typename Item>
class Inbox {
 public:
  bool empty() const { return first_ == nullptr; }
  void Put(Item* item) {
    item->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = item;
    last_ = item;
  }
  // nullptr: nothing has come.
  Item* Take() {
    Item* const item = first_;
    if (item != nullptr) first_ = item->next;
    return item;
  }

 private:
  Item *first_ = nullptr, *last_ = nullptr;
};

class Elsewhere {
 public:
  // A value for a receive, or why there is none.
  struct Arrival {
    const NodeInfo* info;
    Iteration* iteration;
    uint64_t begin_ns;  // of a traced step
    Result<Message> message;
  };

  explicit Elsewhere(const DynamicPlan* plan) : plan_(*plan) {}

  // Nothing is outstanding.
  void Begin(Step* step) { step_ = step; }
  int64_t outstanding() const { return outstanding_; }
  uint32_t computing() const { return computing_; }  // calls that compute on threads of ours
  // Whether something did not end: it may use what the step has, whenever it ends.
  bool abandoned() const { return abandoned_; }

  void Start(Call* call);
  void Receive(const NodeInfo& info, Iteration* iteration, const RendezvousKey& key);

  // Until something has come, or the step is cancelled. One that is cancelled already waits so long as kernels have
  // patience for.
  void Await(const Frames& frames);
  // One after the other: what is thrown on the way leaves the others where they are.
  std::optional<Arrival> TakeArrival();
  // A call that has come back, with its status; nullptr: none has.
  Call* TakeCall();

  // Whether nothing has come that is not looked at, and something will, as far as the step lets it (Step::enough).
  bool MayStandStill();
  // Unless something has come that is not looked at. From now on others may go on with the step.
  bool Park();
  void Unpark() { unpark_.End(); }
  // What runs still is left behind: whose it is.
  std::string GiveUp(const Frames& frames) const;

 private:
  // A receive that waits for its value.
  struct Receipt {
    const NodeInfo* info = nullptr;
    Iteration* iteration = nullptr;
    uint64_t begin_ns = 0;
    std::optional<Result<Message>> message;  // once it is there
    Receipt* next = nullptr;                 // among those that have arrived
  };

  // OK: the call will be posted, or was.
  Status StartThere(Call* call);
  static tenon_status* StartAsync(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame,
                                  void* number);
  static void RunThere(Call* call);
  static void CallDone(void* argument, tenon_status* status);
  void Post(Call* call);
  void Arrived(Receipt* receipt, Result<Message> message);
  // Somebody has put something in. Without the lock nothing here is touched: the step may end.
  void HasCome(std::unique_lock<std::mutex>* lock);
  // How long a step that is cancelled waits for what runs elsewhere: a thread of ours does come back, if the kernel's
  // work is not endless. 0: for ever, since it is receives alone, which end when their rendezvous does.
  std::chrono::seconds Patience(const Frames& frames) const;

  const DynamicPlan& plan_;
  Step* step_ = nullptr;
  int64_t outstanding_ = 0;
  uint32_t computing_ = 0;
  bool abandoned_ = false;
  std::vector<std::unique_ptr<Receipt>> receipts_;  // all
  std::vector<Receipt*> spare_receipts_;
  Subscription unpark_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Inbox<Call> calls_;
  Inbox<Receipt> arrived_;
  bool parked_ = false;  // no thread waits, and the step's resumer is to be told
};

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_ELSEWHERE_H_
