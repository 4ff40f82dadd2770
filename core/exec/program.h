// SPDX-License-Identifier: Apache-2.0
// Program: a plan bound to feed shapes, as straight code. Immutable, apart from its pool of instances.
//
// Every value has a slot. A slot's view points into the arena (offset fixed by lifetimes), at a constant, at a feed, at
// another slot's memory (alias), or at a buffer that the step makes (variables, data-dependent shapes). An instance has
// its own arena, views and frames, and serves one step at a time. Running is a loop over (function, kernel, prepared,
// frame): no bookkeeping for a node. A structured while loop is one instruction over two such blocks, the side of a
// conditional one over one block.
#ifndef TENON_CORE_EXEC_PROGRAM_H_
#define TENON_CORE_EXEC_PROGRAM_H_

#include <deque>
#include <memory>
#include <vector>

#include "core/exec/claims.h"
#include "core/exec/instance_pool.h"
#include "core/exec/plan.h"
#include "core/exec/rendezvous.h"

namespace tenon::exec {

// kSelected: where the taken side of a conditional has it, known only in the step.
enum class Home : uint8_t { kArena, kConstant, kFeed, kAlias, kBuffer, kSelected };

struct Slot {
  DType dtype = TENON_DT_INVALID;
  Shape shape;
  uint64_t bytes = 0;
  Home home = Home::kArena;
  int32_t target = -1;   // the slot of an alias; the feed's index
  int32_t memory = 0;    // 0: the host's; else the number of a device with queues
  uint64_t offset = 0;   // in the memory's arena
  Tensor constant;       // in its memory
  // Positions in emission order, over the alias group (kept at its root).
  int32_t first = -1;
  int32_t last = -1;
};

// The slot that holds what an alias shows; any other is its own.
inline int32_t RootOf(const std::vector<Slot>& slots, int32_t slot) {
  while (slots[static_cast<size_t>(slot)].home == Home::kAlias) slot = slots[static_cast<size_t>(slot)].target;
  return slot;
}

struct Operation {
  enum class Kind : uint8_t {
    kRun,      // the kernel itself
    kGuarded,  // the kernel with variables or outputs of its own: pins and shapes are looked after
    kCompiled, // what a compiler made of a set of nodes, on the host
    kQueued,   // the kernel submits work to a device's queue
    kTransfer, // a value into another memory, or within a device
    kWait,     // the host waits for points
    kDynamic,  // shapes are known only now
    kRead,     // dereference a variable into a slot
    kView,     // point a slot at another slot's buffer
    kRelease,  // drop a slot's buffer
    kLoop,
    kBranch,   // a block that runs when a predicate has a value
    kSelect,   // a merge: outputs are the value and, as int32, which input it is; inputs: predicate, false side, true side
    kCheck,    // cancelled?
    kSend,     // a value to another part
    kReceive,  // waits for one
  };
  Kind kind = Kind::kRun;
  int32_t node = -1;
  int32_t position = -1;
  std::vector<int32_t> inputs;   // slots
  std::vector<int32_t> outputs;  // slots
  std::shared_ptr<const PreparedNode> prepared;
  std::shared_ptr<const CompiledRegion> region;  // of what stands for a set of nodes; `node` is the first
  bool guarded = false;  // as kGuarded, of a queue's kernel
  int32_t queue = -1;    // of the session's; -1: the host
  std::vector<int32_t> waits;  // points (numbers of the program's) that must be reached before
  int32_t signal = -1;         // the point that is told after it; -1: nobody waits for it
  int32_t loop = -1;
  int32_t branch = -1;
  int32_t input_of_side[2] = {-1, -1};  // of a select
  std::vector<int32_t> around;  // of a send or receive: the loops, the outermost first
};

struct Branch {
  int32_t predicate = -1;  // slot of the bool
  int side = 0;
  std::vector<Operation> block;
};

struct Loop {
  struct Carried {
    int32_t initial, current, next;
    bool through_temporary;  // next may be another variable's current: all such copies go through a temporary
    int32_t temporary;
    bool queued = false;  // in a device's memory: transfers in the blocks do it
  };
  std::vector<Operation> condition_block, body_block;
  std::vector<Carried> carried;
  int32_t condition = -1;  // slot of the bool
};

class ProgramInstance;

// Whether feeds have these dims.
bool AreShapes(const tenon_tensor_view* const* feeds, const std::vector<Shape>& shapes);

class Program {
 public:
  // Why a graph needs the dynamic executor.
  struct Refusal {
    std::string text;
    bool for_these_shapes = false;  // with other feeds it may not
  };
  // nullptr: refused.
  static Result<std::shared_ptr<Program>> Build(const Plan& plan, const tenon_tensor_view* const* feeds,
                                                Refusal* refusal, uint64_t* folded);
  ~Program();

  const Plan& plan() const { return *plan_; }
  // Whether feeds have the dims that it was built for.
  bool Fits(const tenon_tensor_view* const* feeds) const { return AreShapes(feeds, feed_shapes_); }
  // Whether each step does the same work: no loop, no conditional, no shape that is known only in the step.
  bool fixed() const { return fixed_; }
  // No two programs of a process have one; not 0.
  uint64_t serial() const { return serial_; }

  // For errors: the node with the largest value.
  std::string DescribeLargest() const;

  // Runs one step. Fetch views are valid until the instance is given back.
  Result<ProgramInstance*> Acquire();
  void GiveBack(ProgramInstance* instance);

  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<Operation>& operations() const { return operations_; }
  const std::vector<Loop>& loops() const { return loops_; }
  const std::deque<Branch>& branches() const { return branches_; }
  const std::vector<int32_t>& fetch_slots() const { return fetch_slots_; }
  // Of a memory.
  uint64_t arena_bytes(size_t memory) const { return arena_bytes_[memory]; }
  // Of the host (-1) or a queue, within the arena of its memory.
  uint64_t workspace_offset(int32_t queue) const { return workspace_offset_[static_cast<size_t>(queue + 1)]; }
  // Queues that it submits to, and points that it waits for.
  const std::vector<int32_t>& queues() const { return queues_; }
  int32_t point_count() const { return point_count_; }

 private:
  friend class ProgramBuilder;
  friend class Synchronizer;
  explicit Program(const Plan* plan);
  const Plan* plan_;
  const uint64_t serial_;
  bool fixed_ = false;
  std::vector<Shape> feed_shapes_;
  std::vector<Slot> slots_;
  std::vector<Operation> operations_;
  std::vector<Loop> loops_;
  std::deque<Branch> branches_;
  std::vector<int32_t> fetch_slots_;
  std::vector<uint64_t> arena_bytes_;       // by memory
  std::vector<uint64_t> workspace_offset_;  // by queue + 1
  std::vector<int32_t> queues_;
  int32_t point_count_ = 0;
  InstancePool<ProgramInstance> idle_;
};

// One step's memory and frames.
class ProgramInstance {
 public:
  static Result<ProgramInstance*> Create(Program* program);
  ~ProgramInstance();

  // Feeds are borrowed for the step.
  Status Run(Step* step, const tenon_tensor_view* const* feeds);
  // Whether a device still has hold of its memory: it may not be used again, nor freed.
  bool abandoned() const { return work_.abandoned(); }
  // What fetch i is; valid until Finish.
  const tenon_tensor_view& fetch(size_t i) const;
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
  // Consecutive work of one queue that is the same in every step, as far as addresses are. After a few steps it is captured,
  // once for each set of addresses (a variable's buffers change places), and launched as one piece.
  struct Stretch {
    Stretch() = default;
    ~Stretch();
    Stretch(const Stretch&) = delete;
    Stretch& operator=(const Stretch&) = delete;

    Block all;                  // in the program's order
    Block before, work, drops;  // of it, what is the host's and comes before, updates too; what is captured; what comes after
    std::vector<const tenon_tensor_view*> moving;  // operands of `work` whose addresses may change
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
    int replaced = 0;
    bool refused = false;
  };
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
    std::vector<tenon_timeline_point> waits;
  };

  explicit ProgramInstance(Program* program) : program_(program), work_(&program->plan().env()) {}
  Status MakeArenas();
  void MakeBlock(const std::vector<Operation>& operations, Block* block);
  void FindStretches(Block* block);
  bool JoinsStretch(const Context& context, const Stretch& stretch, int32_t* queue) const;
  void AddToStretch(const Instruction& instruction, Stretch* stretch) const;
  bool MayMove(int32_t slot) const;
  bool IsFixed(int32_t slot) const;
  const Device& DeviceOfQueue(int32_t queue) const;
  static tenon_status* RunStretch(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  tenon_status* RunCaptured(Stretch* stretch);
  // What comes before the work; updates begin. out_begun false: not this time, and nothing has begun.
  tenon_status* RunBefore(Stretch* stretch, bool* out_begun);
  Status BeginUpdate(Stretch* stretch, size_t index);
  Status EndUpdates(Stretch* stretch, const Status& launched);
  tenon_status* RunOneByOne(const Stretch& stretch);
  Result<tenon_captured_graph*> Capture(const Stretch& stretch);
  // Only a plain kernel's own status lacks the node's name; the host's functions put it there themselves.
  static tenon_status* NameNode(tenon_status* bad, const Context& context);
  static tenon_status* WasThrown(const tenon_frame& frame);
  static tenon_status* RunBlock(const Block& block);
  static tenon_status* RunTraced(const Block& block, trace::Trace* trace);
  tenon_status* Execute(const Block& block) { return step_->trace == nullptr ? RunBlock(block) : RunTraced(block, step_->trace); }
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
  static Context* ContextOf(tenon_frame* frame) { return static_cast<Context*>(frame->context); }

  Program* program_;
  QueueWork work_;
  std::vector<char*> arenas_;                 // by memory
  std::vector<tenon_timeline_point> points_;  // last told
  std::vector<Context*> queued_;              // contexts with work for queues
  std::vector<tenon_tensor_view> views_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<LoopState>> loops_;
  std::vector<std::unique_ptr<BranchState>> branches_;
  std::vector<std::pair<int32_t, int32_t>> feed_slots_;  // slot, feed
  std::vector<int32_t> feed_aliases_;                    // slots that alias feeds
  std::vector<int32_t> buffer_slots_;
  Block block_;
  Step* step_ = nullptr;
  bool points_are_new_ = true;
  Step* bound_step_ = nullptr;  // that the contexts know; a run context keeps its step
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PROGRAM_H_
