// SPDX-License-Identifier: Apache-2.0
// Stretches: the capture segments of a program: what it gives a queue between two waits, as one captured piece. After a
// few steps it is captured, once for each set of addresses (a variable's buffers change places), and launched.
//
// Invariants. A stretch's work has no wait but before its first operation and no signal but after its last one. What
// the host does within it comes before all of the work, in the program's order: reads of variables, handles, the
// question whether the step was cancelled. Releases come after. What is captured has the addresses of its frames: those
// of the instance's arenas never change, the others are compared before every launch.
//
// Updates of variables are work too. Their kernels run in every step, for the variables' books: on a list, before all
// of the work, in the program's order with the reads; the updates stay open until the work is launched. Memory that the
// stretch holds and drops before an update does not count as held, so that an update is in place where it would be,
// kernel by kernel. What reads or updates a variable that is open already, which is looked at in every step, ends the
// attempt: all goes kernel by kernel. Who holds updates open does not wait for others.
//
// A kernel with an argument in the host's memory is work only where that is constant: a capture would keep its value.
#ifndef TENON_CORE_EXEC_PROGRAM_CAPTURE_H_
#define TENON_CORE_EXEC_PROGRAM_CAPTURE_H_

#include <string>
#include <vector>

#include "core/exec/device/late_updates.h"
#include "core/exec/program/machine.h"
#include "tenon/ext/draft/capture.h"

namespace tenon::exec::program {

class Stretch {
 public:
  explicit Stretch(Machine* machine) : machine_(*machine) {}
  ~Stretch();
  Stretch(const Stretch&) = delete;
  Stretch& operator=(const Stretch&) = delete;

  // As it is found: whether an instruction goes on with it, and what does. An empty one takes its queue from the first.
  bool empty() const { return all_.instructions.empty(); }
  bool Joins(const Context& context);
  // Whether the stretch ends with it.
  bool Add(const Instruction& instruction);
  // Whether it is worth a capture, and its device captures.
  bool Close();
  const std::vector<Instruction>& instructions() const { return all_.instructions; }
  // Its first work.
  const Context& first() const { return *ContextOf(work_.instructions.front().frame); }

  // In a step.
  tenon_status* Run();

 private:
  struct Captured {
    std::vector<const void*> addresses;
    tenon_captured_graph* graph;
  };
  // A kernel of the work that updates variables. Its host's half runs before, on a list (ext/draft/capture.h).
  struct Update {
    size_t before, work;            // its places there
    size_t drops;                   // how many of the drops come before it
    tenon_frame frame{};            // of this step, as the variables know it
    uint64_t first = 0, count = 0;  // of the list
  };

  const Device& DeviceOf(QueueId queue) const;
  // Whether the address of a slot's value may be another in the next step.
  bool MayMove(SlotId slot) const;
  // Whether a capture may keep what the host's memory has there: it is no argument's value, or always the same.
  bool IsFixed(SlotId slot) const;
  // Captures for these addresses, and launches; what has been captured for them before is launched at once.
  tenon_status* RunCaptured();
  void TakeAddresses();
  // The latest capture goes into the place of the oldest, if there is no other.
  Status MakeRoom(tenon_captured_graph* graph);
  Result<tenon_captured_graph*> Capture();
  Status CaptureWork(tenon_queue* keeping);
  Status Launch(tenon_captured_graph* graph);
  // The work of updates that have begun, and all other kernels, without a capture.
  tenon_status* RunOneByOne();
  void SayWhy(const std::string& why) const;
  // What comes before the work; updates begin. out_begun false: not this time, and nothing has begun.
  tenon_status* RunBefore(bool* out_begun);
  Status MakeList();
  // An update's host's half: what its kernel gives its queue is noted.
  Status BeginUpdate(size_t index);
  // What these updates write in place does not last: who would hold it now would come too late.
  void EndLasting();
  // What the kernels have begun is ended as they said, if their work was launched.
  Status EndUpdates(const Status& launched);

  Machine& machine_;
  QueueId queue_;
  Block all_;     // in the program's order
  Block before_;  // of it, what is the host's and comes before, updates too
  Block work_;    // what is captured
  Block drops_;   // what comes after
  std::vector<tenon_tensor_view*> moving_;  // operands of the work whose addresses may change
  const tenon_graph_capture* capture_ = nullptr;
  const tenon_device_driver* driver_ = nullptr;  // the list's
  const std::string* plugin_ = nullptr;          // the driver's
  std::vector<Captured> captured_;               // the latest used last
  std::vector<const void*> addresses_;           // of what moves, and of the updates, in this step
  std::vector<Update> updates_;
  tenon_queue* list_ = nullptr;
  LateUpdates late_;
  int runs_ = 0;                     // until it is worth it
  int replaced_ = 0;                 // captures for want of room, less the launches of what was there
  int pause_ = 0, next_pause_ = 64;  // steps until it is captured again, where addresses change in every step
  bool refused_ = false;             // for a reason that stays
};

// Replaces each stretch of the block's instructions by one, which has a context of its own.
void FindStretches(Machine* machine, Block* block);

}  // namespace tenon::exec::program

#endif  // TENON_CORE_EXEC_PROGRAM_CAPTURE_H_
