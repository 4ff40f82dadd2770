// SPDX-License-Identifier: Apache-2.0
// StepState: what a step, or a part of one, may read and change that outlives it: variables, queues, tables, generators
// of random numbers, files. Two steps that have nothing of it in common may run in any order, so neither waits for the
// other's end.
#ifndef TENON_NET_CLUSTER_STEP_STATE_H_
#define TENON_NET_CLUSTER_STEP_STATE_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace tenon::graph {
class Graph;
}

namespace tenon::cluster {

class StepState {
 public:
  // Of a part's graph.
  static StepState Of(const graph::Graph& graph);
  // Whatever any step may have.
  static StepState Everything();

  // Of a part: whether there is nothing.
  bool empty() const { return !own_.any && own_.all.empty(); }

  // A part's, of that task, into that of its step.
  void Add(const StepState& part, size_t task);
  // Whether this step, to which Add() gave its parts, has anything in common with a part of another step at a task.
  bool Shares(const StepState& part, size_t task) const;

 private:
  // Of a task.
  struct Names {
    bool any = false;  // and what they are is not known
    std::set<std::string> all;
  };
  bool everything_ = false;
  Names own_;                       // of a part
  std::map<size_t, Names> of_tasks_;  // of a step
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_STEP_STATE_H_
