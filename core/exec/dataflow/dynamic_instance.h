// SPDX-License-Identifier: Apache-2.0
// The dynamic executor: runs a plan node by node as values arrive, for control flow that straight code cannot express,
// asynchronous kernels, and as the reference that straight code is tested against.
//
// Semantics (tagged dataflow): a value belongs to a frame (a loop that runs) and an iteration of it. A node runs in an
// iteration when all its inputs have arrived there; a merge when one live input has, or all are dead. Deadness spreads
// through data and control edges. Enter, Exit and NextIteration move values between frames and iterations.
//
// Memory. An iteration has a slot for each value, a prepared frame for each kernel, and memory of its own for small
// results; all of it is made once, pooled, and used again by later iterations and steps, so that a steady node costs
// its call, a comparison of shapes and the counting of its consumers. Larger results come from the session's pool and
// are released after their last consumer. A value that leaves its iteration takes its bytes along.
//
// Order. Of what is ready the node that was constructed first runs first, as in straight code: a branch is done before
// the next one begins, so that few values are alive at once. A loop stands where its first node does; of its turns, and
// those of the loops within, the one that began first goes on first. What the host waits for a device for comes when
// nothing else is ready: what other devices can begin has begun by then. Yet nobody waits for ever for a loop that
// turns until another branch has done something: now and then it is another's turn.
//
// Invariants. All bookkeeping belongs to the thread that drives the step; kernels that finish elsewhere leave a message
// in an inbox. So there is no lock and no atomic for a node. Run returns when nothing of the step runs any more; or,
// when the step was cancelled and a kernel does not end in a while, without it: then abandoned() holds.
#ifndef TENON_CORE_EXEC_DATAFLOW_DYNAMIC_INSTANCE_H_
#define TENON_CORE_EXEC_DATAFLOW_DYNAMIC_INSTANCE_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "core/exec/dataflow/dynamic_plan.h"
#include "core/exec/device/queue_work.h"
#include "core/exec/exchange/rendezvous.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/node_runner.h"

namespace tenon::exec {

// One step's memory and bookkeeping. Serves one step at a time.
class DynamicInstance {
 public:
  // The plan outlives it.
  static Result<std::unique_ptr<DynamicInstance>> Create(const DynamicPlan* plan);
  ~DynamicInstance();
  DynamicInstance(const DynamicInstance&) = delete;
  DynamicInstance& operator=(const DynamicInstance&) = delete;

  // Feeds are borrowed until Finish.
  Status Run(Step* step, const tenon_tensor_view* const* feeds);
  // Whether the step stands still (Step::enough): it has not ended.
  bool stands_still() const { return stands_still_; }
  Status GoOn();
  // What fetch i is; valid until Finish.
  const tenon_tensor_view& fetch(size_t i) const { return fetched_[i].view; }
  // Releases the step's buffers.
  void Finish();
  // Whether a device or a kernel still has hold of its memory: it may not be used again, nor freed.
  bool abandoned() const { return abandoned_ || work_.abandoned(); }

 private:
  explicit DynamicInstance(const DynamicPlan* plan);
  using Kind = DynamicPlan::Kind;
  using LocalId = DynamicPlan::LocalId;
  using NodeInfo = DynamicPlan::NodeInfo;
  using FrameInfo = DynamicPlan::FrameInfo;
  using Target = DynamicPlan::Target;
  using NodeState = DynamicPlan::NodeState;
  struct FrameInstance;
  struct Iteration;

  struct Slot {
    tenon_tensor_view view{};
    uint64_t shape_id = 0;  // equal ids: equal dims; 0: not known
    const PreparedNode* made_for = nullptr;  // the view is ready for this kernel's result
    char* memory = nullptr;                  // of its own
    uint32_t capacity = 0;
    int32_t uses = 0;   // consumers that are still to come, while owned
    int32_t depth = 0;  // of the frame whose memory a view without buffer points into
    bool owned = false; // holds a reference to the buffer
  };

  // A kernel of an iteration.
  struct Call : tenon_frame_context {
    tenon_frame frame{};
    std::shared_ptr<const PreparedNode> last;
    uint64_t* seen = nullptr;  // [inputs] shape ids that `last` was found for
    DynamicInstance* instance = nullptr;
    Iteration* iteration = nullptr;
    const NodeInfo* info = nullptr;
    // Of one that runs elsewhere.
    Buffer* workspace = nullptr;
    bool elsewhere = false;
    bool computes = false;   // there, on a thread for what computes
    void* number = nullptr;  // in AsyncCalls; nullptr: a thread of ours has it
    Call* next = nullptr;    // in the inbox
    uint64_t begin_ns = 0, end_ns = 0;
    Status status;
  };

  struct Iteration {
    const FrameInfo* info = nullptr;
    FrameInstance* frame = nullptr;
    int64_t number = 0;
    uint64_t turn = 0;     // its loop's rank, and when it began: the lower comes first; 0: the step itself
    int64_t running = 0;   // nodes ready or running
    // Ready nodes, a bit each, by their numbers: those of the step and of a turn become ready in about this order.
    std::vector<uint64_t> ready, ready_dead;
    size_t first_ready = 0;  // word before which there is none
    size_t ready_count = 0, dead_count = 0;  // the second: of those that are dead
    size_t active_at = 0;    // its place among active_, while it has ready nodes
    int64_t children = 0;  // child frames that run
    int64_t owned = 0;     // slots that hold a buffer
    IdVector<LocalId, NodeState> states;
    std::vector<Slot> slots;
    std::unique_ptr<Call[]> calls;
    std::vector<const tenon_tensor_view*> input_views;
    std::vector<tenon_tensor_view*> output_views;
    std::vector<uint64_t> seen;
    std::vector<FrameInstance*> child_frames;  // by number of the child
    std::vector<std::pair<char*, uint64_t>> chunks;  // of the pool
    uint64_t chunk_used = 0;
    Iteration* next_spare = nullptr;
  };

  struct FrameInstance {
    FrameId frame = graph::kStep;
    const FrameInfo* info = nullptr;
    Iteration* parent = nullptr;
    int32_t pending_enters = 0;
    int64_t first_number = 0;
    std::deque<Iteration*> iterations;  // the oldest first
    struct Invariant {
      const NodeInfo* enter;
      bool dead;
      Slot value;
    };
    std::vector<Invariant> invariants;
    std::vector<const NodeInfo*> waiting;  // NextIterations of the newest, held back by the limit
    enum class ExitState : uint8_t { kNone, kDead, kLive };
    std::vector<ExitState> exits;
    FrameInstance* next_spare = nullptr;
  };

  // A receive that waits for its value.
  struct Receipt {
    const NodeInfo* info = nullptr;
    Iteration* iteration = nullptr;
    uint64_t begin_ns = 0;  // of a traced step
    std::optional<Result<Message>> message;  // once it is there
    Receipt* next = nullptr;                 // among those that have arrived
  };

  // What has come, the first first. To put something in takes no memory: whoever brings it has nobody to tell that
  // there is none.
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

  struct Ready {
    LocalId node;
    bool dead;
    Iteration* iteration;
  };

  struct Fetched {
    tenon_tensor_view view{};
    bool present = false, owned = false;
    tenon_resource* variable = nullptr;  // that is fetched by a reference
  };

  // Frames and iterations.
  Iteration* MakeIteration(FrameId frame);
  Iteration* NewIteration(FrameInstance* frame);
  void Recycle(Iteration* iteration);
  void RecycleAll();
  void ReleaseSlots(Iteration* iteration);
  void Retire(FrameInstance* frame);
  void Spare(Iteration* iteration);
  void Abandon(FrameInstance* frame);
  FrameInstance* ChildFrame(Iteration* iteration, const NodeInfo& enter);
  void Settle(FrameInstance* frame);
  void EndFrame(FrameInstance* frame);

  // Values on their way.
  const std::vector<int32_t>& ranges() const { return plan_->ranges(); }
  void Push(LocalId node, Iteration* iteration, bool dead);
  void Deliver(const Target& target, Iteration* iteration, bool dead, bool from_enter = false);
  void DeliverToMerge(const Target& target, Iteration* iteration, bool dead, bool from_enter);
  void Wake(const NodeInfo& info, int32_t first_range, int32_t last_range, Iteration* iteration, bool dead,
            bool from_enter = false);
  void WakeAll(const NodeInfo& info, Iteration* iteration, bool dead, bool from_enter = false) {
    Wake(info, 0, info.output_count + 1, iteration, dead, from_enter);
  }
  static Slot& Lend(const Slot& from, Iteration* iteration, int32_t to);
  void Forward(const Slot& from, Iteration* iteration, int32_t to);
  Status Carry(const Slot& from, const Iteration& source, Iteration* iteration, int32_t to);
  void Own(Iteration* iteration, Slot* slot, int32_t uses);
  void Use(Iteration* iteration, Slot* slot);
  Result<char*> MemoryOf(Iteration* iteration, Slot* slot, uint64_t bytes);
  void Publish(const NodeInfo& info, Iteration* outputs);
  void NoteFetches(const NodeInfo& info, Iteration* outputs);
  Status NoValue(size_t fetch) const;
  Status ReadFetched(size_t fetch);

  // Running nodes.
  void Begin(const tenon_tensor_view* const* feeds);
  template <typename First>
  Status Drive(First first);
  void Loop();
  bool MayStandStill();
  Ready TakePutOff();
  Iteration* FirstActive();
  Ready TakeReady();
  void ForgetReady();
  void Process(const Ready& ready, bool now = false);
  void ProcessDead(const NodeInfo& info, Iteration* iteration);
  void ProcessForward(const NodeInfo& info, Iteration* iteration);
  void ProcessSwitch(const NodeInfo& info, Iteration* iteration);
  void ProcessMerge(const NodeInfo& info, Iteration* iteration);
  void ProcessEnter(const NodeInfo& info, Iteration* iteration, bool dead);
  void ProcessExit(const NodeInfo& info, Iteration* iteration);
  bool ProcessNext(const NodeInfo& info, Iteration* iteration);
  void ProcessKernel(const NodeInfo& info, Iteration* iteration);
  void ProcessTransfer(const NodeInfo& info, Iteration* iteration);
  Status TransferTo(int32_t memory, int32_t from, const Slot& source, bool fed, const NodeInfo& info, Slot* target);
  Result<const void*> KeepForCopy(const tenon_tensor_view& view, bool fed);
  Status RunQueued(Call* call);
  Status BeginQueues();
  Status ReadReferences(const NodeInfo& info, Iteration* iteration);
  Status Resolve(const NodeInfo& info, Call* call, Iteration* iteration);
  Status MakeOutputs(const NodeInfo& info, Call* call, Iteration* iteration);
  Status MakeOutput(const NodeInfo& info, int32_t k, const PreparedNode& prepared, Iteration* iteration);
  Status TakeOutputs(const NodeInfo& info, Call* call, Iteration* iteration, bool ran_well);
  Status RunView(const NodeInfo& info, Call* call, Iteration* iteration);
  Status Workspace(uint64_t bytes);
  void Conclude(const NodeInfo& info, Call* call, Status status);
  Slot& Input(const NodeInfo& info, int32_t i, Iteration* iteration) {
    return iteration->slots[iteration->info->input_slots[info.first_input + i]];
  }
  void Finished(const NodeInfo& info, Iteration* iteration);
  void Leave(Iteration* iteration);
  void Fail(Status status) noexcept;

  // Sends and receives (dynamic_exchange.cc).
  RendezvousKey KeyOf(const NodeInfo& info, const Iteration* iteration) const;
  void ProcessSend(const NodeInfo& info, Iteration* iteration, bool dead);
  void ProcessReceive(const NodeInfo& info, Iteration* iteration);
  void Conclude(Receipt* receipt);
  void Arrived(Receipt* receipt, Result<Message> message);
  void Emit(const NodeInfo& info, Iteration* iteration, bool dead);

  // Kernels that run elsewhere.
  static bool MayLeave(const NodeInfo& info, const Call& call, uint32_t traits);
  bool RunsElsewhere(const Call& call, const tenon_kernel_registration& kernel) const;
  static Status RunTimed(const PreparedNode& prepared, tenon_frame* frame);
  void StartElsewhere(Call* call);
  Status StartThere(Call* call);
  static tenon_status* StartAsync(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame,
                                  void* number);
  static void RunThere(Call* call);
  static void CallDone(void* argument, tenon_status* status);
  void Post(Call* call);
  void HasCome(std::unique_lock<std::mutex>* lock);
  bool Park();
  void TakeInbox(bool wait);
  void AwaitInbox();
  std::chrono::seconds Patience() const;
  void Abandon();

  const DynamicPlan* plan_;
  BufferPool* pool_;
  QueueWork work_;
  Step* step_ = nullptr;
  Iteration* root_iteration_ = nullptr;
  FrameInstance root_;
  Status error_;
  bool failed_ = false;  // the step, with what error_ was then
  bool shuffled_ = false;
  std::minstd_rand random_;
  std::vector<Iteration*> active_;  // that have ready nodes, in no order
  uint32_t turns_ = 0;              // that the step has begun
  std::vector<Ready> put_off_;      // ready nodes that the host waits for, from put_off_begin_ on
  size_t put_off_begin_ = 0;
  uint32_t chosen_ = 0, passed_over_ = 0;  // between several that have ready nodes; while nodes were put off
  std::vector<Fetched> fetched_;
  std::vector<std::unique_ptr<Iteration>> iterations_;       // all
  std::vector<std::unique_ptr<FrameInstance>> frames_;       // all but the root
  IdVector<FrameId, Iteration*> spare_iterations_;           // the first of each
  IdVector<FrameId, FrameInstance*> spare_frames_;
  std::vector<const NodeInfo*> held_;                        // while they are let go
  void* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
  int64_t outstanding_ = 0;
  uint32_t computing_ = 0;  // calls that compute elsewhere
  bool abandoned_ = false;  // what runs elsewhere did not end
  bool stands_still_ = false;
  bool parked_ = false;  // no thread waits, and its resumer is to be told; the inbox's mutex guards it
  Subscription unpark_;
  std::mutex inbox_mutex_;
  std::condition_variable inbox_wake_;
  Inbox<Call> inbox_;
  Inbox<Receipt> arrived_;
  std::vector<std::unique_ptr<Receipt>> receipts_;  // all
  std::vector<Receipt*> spare_receipts_;
};

inline void DynamicInstance::Deliver(const Target& target, Iteration* iteration, bool dead, bool from_enter) {
  if (target.input != Target::kPlain) return DeliverToMerge(target, iteration, dead, from_enter);
  NodeState& state = iteration->states[target.node];
  state.dead |= static_cast<int32_t>(dead);
  if (--state.pending == 0) Push(target.node, iteration, state.dead != 0);
}

inline void DynamicInstance::Wake(const NodeInfo& info, int32_t first_range, int32_t last_range, Iteration* iteration,
                                  bool dead, bool from_enter) {
  const int32_t begin = ranges()[info.first_range + first_range];
  const int32_t end = ranges()[info.first_range + last_range];
  for (int32_t at = begin; at != end; ++at) Deliver(plan_->targets()[at], iteration, dead, from_enter);
}

inline void DynamicInstance::Own(Iteration* iteration, Slot* slot, int32_t uses) {
  slot->owned = true;
  slot->uses = uses;
  ++iteration->owned;
}

// One consumer less.
inline void DynamicInstance::Use(Iteration* iteration, Slot* slot) {
  if (!slot->owned || --slot->uses > 0) return;
  ReleaseOutput(&slot->view);
  slot->owned = false;
  --iteration->owned;
}

// The same memory under another name; somebody else keeps it.
inline DynamicInstance::Slot& DynamicInstance::Lend(const Slot& from, Iteration* iteration, int32_t to) {
  Slot& slot = iteration->slots[to];
  slot.view = from.view;
  slot.shape_id = from.shape_id;
  slot.depth = from.depth;
  return slot;
}

// The same within an iteration, with a reference of its own.
inline void DynamicInstance::Forward(const Slot& from, Iteration* iteration, int32_t to) {
  Slot& slot = Lend(from, iteration, to);
  if (slot.view.buffer == nullptr) return;
  Retain(slot.view.buffer);
  Own(iteration, &slot, iteration->info->slots[to].uses);
}

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DATAFLOW_DYNAMIC_INSTANCE_H_
