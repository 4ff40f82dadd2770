// SPDX-License-Identifier: Apache-2.0
// Synchronizer: decides which operation of a program waits for which, and who tells a point.
//
// The host submits operations in their order; a queue runs its own in that order; so only what crosses queues, or comes
// back to the host, needs a wait. The walk keeps for each piece of memory who wrote it last and who has read it since:
// a reader waits for the writers, a writer for both. Memory of arenas is looked at by address, so that values which
// share it are told apart by time. Control edges wait for what their source submitted. Waits that follow from earlier
// ones are left out.
//
// Invariants. A wait names an operation's point; when the operation did not run in this step (a branch not taken, a
// loop that did not turn) its point is an older one, long reached, so what was there before the branch is waited for as
// well. A loop is walked twice: the second walk sees what the turn before left behind.
#ifndef TENON_CORE_EXEC_LOWER_SYNCHRONIZER_H_
#define TENON_CORE_EXEC_LOWER_SYNCHRONIZER_H_

#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/exec/program/program_code.h"
#include "core/graph/edge.h"
#include "tenon/device.h"

namespace tenon::exec {

struct Environment;

class Synchronizer {
 public:
  using IsFed = std::function<bool(graph::Edge edge)>;
  // All outlive it.
  Synchronizer(const Environment& env, const graph::Graph& graph, IsFed is_fed, ProgramCode* code);
  // Fills in the operations' waits and signals, inserts waits of the host, and lists the queues that the code uses.
  void Run();

 private:
  // An operation as it is walked: later walks of one operation have greater numbers.
  struct Event {
    int32_t operation;  // its position
    QueueId queue;
    int32_t block;
    int64_t number;
  };
  struct Cell {  // a piece of memory
    uint64_t end = 0;
    std::vector<Event> writers, readers;
  };
  using Range = std::map<uint64_t, Cell>;  // by begin
  enum class Access { kRead, kWrite };

  // Where the waits of an operation are noted.
  struct Waits {
    std::vector<int32_t> queue, host;  // positions of the operations waited for
  };

  void Walk(const std::vector<Operation>& block, int32_t number);
  void WalkOperation(const Operation& operation, int32_t block);
  void WalkLoop(const Operation& operation, int32_t block);
  int32_t NewBlock(int32_t parent);
  Event NewEvent(const Operation& operation, QueueId queue, int32_t block);
  void Touch(SlotId slot, Access access, const Event& event, Waits* waits);
  void TouchOne(SlotId slot, Access access, const Event& event, Waits* waits);
  void TouchArena(const Slot& slot, Access access, const Event& event, Waits* waits);
  void TouchCell(Cell* cell, Access access, const Event& event, Waits* waits);
  void Add(std::vector<Event>* list, const Event& event) const;
  void WaitFor(const std::vector<Event>& list, const Event& event, Waits* waits);
  void WaitForControls(const Operation& operation, const Event& event, Waits* waits);
  const std::vector<Event>& CompletionOf(graph::NodeId node);
  bool IsWithin(int32_t block, int32_t outer) const;
  bool IsKnown(const Event& waiter, const Event& event) const;
  const tenon_device_driver* DriverOf(QueueId queue) const;
  PointId PointOf(int32_t position);
  std::vector<PointId> PointsOf(const std::vector<int32_t>& positions);
  void WriteBack(std::vector<Operation>* block);
  Operation HostWait(const Operation& near, const std::vector<int32_t>& positions);

  const Environment& env_;
  const graph::Graph& graph_;
  const IsFed is_fed_;
  ProgramCode* const code_;
  std::vector<Range> arenas_;  // by memory
  std::unordered_map<SlotId, Cell> others_;  // by root: feeds, constants, buffers
  std::vector<int32_t> parent_of_block_;
  std::unordered_map<const std::vector<Operation>*, int32_t> number_of_block_;
  struct Waited {
    int64_t event = 0;
    int32_t block = 0;
  };
  // The latest event of `queue` that `who`, a queue or the host, has waited for, and where.
  Waited& WaitedBy(QueueId who, QueueId queue) { return waited_[who ? who.index() + 1 : 0][queue]; }
  const Waited& WaitedBy(QueueId who, QueueId queue) const { return waited_[who ? who.index() + 1 : 0][queue]; }
  std::vector<IdVector<QueueId, Waited>> waited_;  // by who
  std::unordered_map<graph::NodeId, std::vector<Event>> done_by_;     // by node: what it submitted, or did on the host
  std::unordered_map<graph::NodeId, std::vector<Event>> completion_;  // of nodes without operations
  std::unordered_map<int32_t, Waits> waits_;                    // by position
  std::unordered_map<const std::vector<Operation>*, Waits> tail_;  // at the end of a loop's block
  std::unordered_map<int32_t, PointId> points_;                 // by position
  IdVector<QueueId, bool> used_;
  int64_t next_event_ = 1;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_SYNCHRONIZER_H_
