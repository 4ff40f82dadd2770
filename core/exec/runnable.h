// SPDX-License-Identifier: Apache-2.0
// Runnable: what a callable runs: a plan, its parts (partitions), or what other processes run of it.
#ifndef TENON_CORE_EXEC_RUNNABLE_H_
#define TENON_CORE_EXEC_RUNNABLE_H_

#include <cstdint>
#include <memory>
#include <string>

#include <vector>

#include "core/graph/edge.h"
#include "core/tensor/tensor.h"

namespace tenon::exec {

class Plan;
struct Step;

// A value that goes from task to task, and the nodes that send and receive it, by whose names a trace knows them.
struct TaskCrossing {
  std::string send, receive, from, to;
  graph::Edge value;
};
// What traced steps of a runnable are read by. It lives as long as that.
struct TracedGraph {
  const graph::Graph* graph = nullptr;  // nullptr: nothing can be read from traces
  const std::vector<graph::NodeId>* order = nullptr;
  const std::vector<graph::Edge>* feeds = nullptr;
  const std::vector<TaskCrossing>* crossings = nullptr;  // nullptr: none
};

// One step at a time.
class Run {
 public:
  virtual ~Run() = default;
  // Runs the step, on this thread; on others too where there are parts. feeds: as their plan takes them; borrowed until
  // Finish.
  virtual Status Go(Step* step, const tenon_tensor_view* const* feeds) = 0;
  // Whether the step stands still (Step::enough): it goes on with GoOn, and Finish comes when it has not stood still.
  virtual bool stands_still() const { return false; }
  virtual Status GoOn() { return Status::Ok(); }
  // What fetch i is; valid from a Go that went well until Finish.
  virtual const tenon_tensor_view& fetch(size_t i) const = 0;
  // Whether it stands in a buffer of the step's `keeps` that was made for it: whoever takes the only reference to that
  // may keep it.
  virtual bool fetch_is_own([[maybe_unused]] size_t i) const { return false; }
  // After Go, also when it failed: releases the step's buffers.
  virtual void Finish() = 0;
  // Whether what ran did not end, and may use all that the step had, at any time.
  virtual bool abandoned() const { return false; }
  // What is kept from step to step goes back to those who lent it.
  virtual void ReturnInstances() {}
};

struct RunnableCounts {
  uint64_t bindings_built = 0, nodes_folded = 0;
};

// Any thread.
class Runnable {
 public:
  virtual ~Runnable() = default;
  // Lives no longer than this.
  virtual std::unique_ptr<Run> NewRun() = 0;
  // JSON: how each node runs.
  virtual std::string Explain() const = 0;
  using Counts = RunnableCounts;
  virtual Counts counts() const { return {}; }
  // nullptr: more than one plan, or none in this process.
  virtual const Plan* plan() const { return nullptr; }
  // The whole graph that steps run.
  virtual TracedGraph traced() const { return {}; }
  // The serial of the program that runs with these feeds, when it has been made and each of its steps does the same
  // work; else 0. Does not wait.
  virtual uint64_t FixedProgram([[maybe_unused]] const tenon_tensor_view* const* feeds) const { return 0; }
  // Lets go of memory that waits for a next run, unless another thread makes a program meanwhile. Whether there was
  // any.
  virtual bool DropIdle() { return false; }
  // Whether fetches stand in buffers of their own, which the caller may keep.
  virtual bool gives_own_buffers() const { return false; }
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_RUNNABLE_H_
