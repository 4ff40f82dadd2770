// SPDX-License-Identifier: Apache-2.0
// ProgramInstance: a program's memory and frames for one step at a time.
//
// An instance has its own arena, views and frames. Running is a loop over (function, kernel, prepared, frame): no
// bookkeeping for a node.
#ifndef TENON_CORE_EXEC_PROGRAM_INSTANCE_H_
#define TENON_CORE_EXEC_PROGRAM_INSTANCE_H_

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/device/late_updates.h"
#include "core/exec/device/queue_work.h"
#include "core/exec/device/step.h"
#include "core/exec/exchange/rendezvous.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/program/program.h"
#include "core/exec/program/side_by_side.h"
#include "core/trace/trace.h"

namespace tenon::exec {

class ProgramInstance {
 public:
  // The program outlives it.
  static Result<std::unique_ptr<ProgramInstance>> Create(const Program* program);
  ~ProgramInstance();

  // Feeds are borrowed for the step. Where the step keeps its fetches, large ones are made where it has a place for
  // them, or in buffers of their own, instead of the arena; what copies from a device bring, where the place is pinned
  // memory, which stays when the device does not come back.
  Status Run(Step* step, const tenon_tensor_view* const* feeds);
  // Whether a device still has hold of its memory: it may not be used again, nor freed.
  bool abandoned() const { return work_.abandoned(); }
  // What fetch i is; valid until Finish.
  const tenon_tensor_view& fetch(size_t i) const;
  // Whether it was made in a buffer of its own.
  bool fetch_is_own(size_t i) const;
  // What the operations took, one by one, in the last Run; empty: it was not timed.
  const std::vector<OperationTime>& times() const { return times_; }
  // Releases the step's buffers.
  void Finish();

 private:
  struct Instruction {
    tenon_status* (*run)(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
    tenon_kernel* kernel;
    const tenon_prepared* prepared;
    tenon_frame* frame;
  };
  struct Block {
    std::vector<Instruction> instructions;
  };
  // Consecutive work of one queue that is the same in every step, as far as addresses are. After a few steps it is
  // captured, once for each set of addresses (a variable's buffers change places), and launched as one piece.
  struct Stretch {
    Stretch() = default;
    ~Stretch();
    Stretch(const Stretch&) = delete;
    Stretch& operator=(const Stretch&) = delete;

    Block all;                  // in the program's order
    Block before, work,
        drops;  // of it, what is the host's and comes before, updates too; what is captured; what comes after
    std::vector<tenon_tensor_view*> moving;  // operands of `work` whose addresses may change
    const tenon_graph_capture* capture = nullptr;
    struct Captured {
      std::vector<const void*> addresses;
      tenon_captured_graph* graph;
    };
    std::vector<Captured> captured;  // the latest used last
    std::vector<const void*> addresses;  // of `moving`, and of the updates, in this step
    // Kernels of `work` that update variables. Their host's half runs before, on a list (ext/draft/capture.h).
    struct Update {
      size_t before, work;  // its places there
      size_t drops;         // how many of `drops` come before it
      tenon_frame frame{};  // of this step, as the variables know it
      uint64_t first = 0, count = 0;  // of the list
    };
    std::vector<Update> updates;
    tenon_queue* list = nullptr;
    const tenon_device_driver* driver = nullptr;  // the list's
    const std::string* plugin = nullptr;          // the driver's
    LateUpdates late;
    int runs = 0;                    // until it is worth it
    int replaced = 0;                // captures for want of room, less the launches of what was there
    int pause = 0,
        next_pause =
            64;  // steps until it is captured again, where addresses change in every step; twice as many each time
    bool refused = false;            // for a reason that stays
  };
  struct Sent;
  struct LoopState {
    const Loop* plan;
    Block condition, body;
    int64_t turn = 0;
  };
  struct BranchState {
    const Branch* plan;
    Block block;
  };
  // What an instruction's frame->context points at.
  struct Context : tenon_frame_context {
    ProgramInstance* instance = nullptr;
    const Operation* operation = nullptr;
    bool names_itself = false;  // of kRun: errors have the node's name already
    std::shared_ptr<const PreparedNode> last;  // of a dynamic operation
    tenon_frame frame{};
    std::vector<const tenon_tensor_view*> inputs;
    std::vector<tenon_tensor_view*> outputs;
    LoopState* loop = nullptr;
    BranchState* branch = nullptr;
    std::unique_ptr<Stretch> stretch;
    const Sent* sent = nullptr;  // of a send
    std::vector<tenon_timeline_point> waits;
  };

  // A fetch of the arena that may be made elsewhere: nothing has its address but the views. Where queues work, whose
  // pieces are captured with their addresses, it is one that a copy from a device alone makes, and nothing reads.
  struct Movable {
    SlotId root;
    std::vector<SlotId> slots;    // that show its memory
    std::vector<SlotId> fetches;  // of them
    std::vector<size_t> indices;  // of the fetches
    Buffer* buffer = nullptr;     // of this step
    bool moved = false;           // in this step
  };

  // A value of the arena that goes to another part and is not written afterwards: made in a buffer, which is what is
  // sent, so that sending copies nothing. The buffer serves the next step too, unless the one who got it has it still.
  struct Sent {
    SlotId root;
    std::vector<SlotId> slots;  // that show its memory
    Buffer* buffer = nullptr;
  };

  explicit ProgramInstance(const Program* program)
      : program_(program), code_(program->code()), work_(&program->plan().env()) {}
  Status MakeArenas();
  void GuardArena();
  void MakeBlock(const std::vector<Operation>& operations, Block* block);
  void FindStretches(Block* block);
  bool JoinsStretch(const Context& context, const Stretch& stretch, QueueId* queue) const;
  void AddToStretch(const Instruction& instruction, Stretch* stretch);
  bool MayMove(SlotId slot) const;
  bool IsFixed(SlotId slot) const;
  const Device& DeviceOfQueue(QueueId queue) const;
  static tenon_status* RunStretch(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  tenon_status* RunCaptured(Stretch* stretch);
  // What comes before the work; updates begin. out_begun false: not this time, and nothing has begun.
  tenon_status* RunBefore(Stretch* stretch, bool* out_begun);
  Status BeginUpdate(Stretch* stretch, size_t index);
  static void EndLasting(Stretch* stretch);
  Status EndUpdates(Stretch* stretch, const Status& launched);
  tenon_status* RunOneByOne(const Stretch& stretch);
  Result<tenon_captured_graph*> Capture(const Stretch& stretch);
  // Only a plain kernel's own status lacks the node's name; the host's functions put it there themselves.
  static tenon_status* NameNode(tenon_status* bad, const Context& context);
  static tenon_status* WasThrown(const tenon_frame& frame);
  template <bool kTimed>
  static tenon_status* RunBlock(const Block& block, std::vector<OperationTime>* times);
  static tenon_status* RunTraced(const Block& block, trace::Trace* trace);
  static std::string Detail(const Context& context, bool went_well);
  tenon_status* Execute(const Block& block) {
    return step_->trace == nullptr ? RunBlock<false>(block, nullptr) : RunTraced(block, step_->trace);
  }
  // The step's own block.
  tenon_status* ExecuteAll();
  static tenon_status* RunCompiled(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunGuarded(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunDynamic(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunRead(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunView(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunRelease(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunLoop(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunBranch(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunSelect(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunCheck(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunQueued(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunTransfer(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunWait(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunSend(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  static tenon_status* RunReceive(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  RendezvousKey KeyOf(const Operation& operation) const;
  static tenon_status* CheckOutputs(Context* context);
  std::span<const tenon_timeline_point> PointsOf(Context* context);
  Status BeforeWork(Context* context);
  Status AfterWork(Context* context);
  Status BeginQueues(Step* step);
  void FindMovable();
  bool IsMovable(SlotId fetch, uint64_t least) const;
  bool IsBroughtAlone(SlotId root) const;
  void FindSent();
  bool IsWrittenAfter(SlotId root, int32_t position) const;
  Status PlaceSent(BufferPool* pool);
  Status MoveFetches(const Step& step);
  void PlaceBrought(const Step& step);
  void* PlaceOf(const Step& step, const Movable& movable) const;
  static Context* ContextOf(tenon_frame* frame) { return static_cast<Context*>(frame->context); }

  const Program* const program_;
  const ProgramCode& code_;
  QueueWork work_;
  std::vector<char*> arenas_;                 // by memory
  IdVector<PointId, tenon_timeline_point> points_;  // last told
  std::vector<Context*> queued_;              // contexts with work for queues
  IdVector<SlotId, tenon_tensor_view> views_;
  std::vector<std::unique_ptr<Context>> contexts_;
  IdVector<LoopId, std::unique_ptr<LoopState>> loops_;
  IdVector<BranchId, std::unique_ptr<BranchState>> branches_;
  std::vector<std::pair<SlotId, int32_t>> feed_slots_;  // and the feed
  std::vector<SlotId> feed_aliases_;
  std::vector<SlotId> buffer_slots_;
  std::vector<Movable> movable_;
  bool brings_ = false;  // movable_ is what copies from devices bring: they go into pinned memory, or the arena
  std::deque<Sent> sent_;  // contexts point at them
  Block block_;
  Step* step_ = nullptr;
  std::vector<OperationTime> times_;
  bool points_are_new_ = true;
  bool borrows_ = false;  // there are fetches, or feeds in a device's memory: the caller's, when the step has returned
  Step* bound_step_ = nullptr;  // that the contexts know; a run context keeps its step
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PROGRAM_INSTANCE_H_
