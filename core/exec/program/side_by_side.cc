// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/side_by_side.h"

#include <algorithm>

#include "core/exec/device/environment.h"
#include "core/exec/plan/plan.h"
#include "core/exec/program/program_code.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/graph.h"

namespace tenon::exec {
namespace {

// Less is not worth another executor, which has a node's bookkeeping and no arena.
constexpr uint64_t kLeastSavedNs = 1'000'000;
constexpr uint64_t kLeastSavedOf = 5;  // a fifth of the step

}  // namespace

bool MayGainSideBySide(const Plan& plan, const ProgramCode& code) {
  using Kind = Operation::Kind;
  // Straight code's memory is known; what the dynamic executor takes could pass a limit that it kept.
  if (plan.env().pool->is_limited() || plan.env().threads == nullptr || plan.env().threads->threads() < 2 ||
      plan.uses_queues() || plan.options().part != nullptr)
    return false;
  int beside = 0;
  for (const Operation& operation : code.operations) {
    const bool plain = operation.kind == Kind::kRun || operation.kind == Kind::kGuarded ||
                       operation.kind == Kind::kDynamic || operation.kind == Kind::kRead ||
                       operation.kind == Kind::kView || operation.kind == Kind::kRelease ||
                       operation.kind == Kind::kCheck;
    if (!plain || operation.region != nullptr) return false;
    const NodeRunner* const runner = plan.runner(operation.node).get();
    beside += runner != nullptr && operation.kind != Kind::kRelease && MayRunBeside(*runner) ? 1 : 0;
  }
  return beside >= 2;
}

uint64_t SavedSideBySide(const Plan& plan, const ProgramCode& code, const std::vector<OperationTime>& times) {
  const graph::Graph& graph = plan.graph();
  graph::NodeMap<OperationTime> of_node(graph.size());
  uint64_t straight = 0;
  for (size_t i = 0; i < code.operations.size(); ++i) {
    OperationTime& node = of_node[code.operations[i].node];
    node.ns += times[i].ns;
    node.shares = node.shares || times[i].shares;
    straight += times[i].ns;
  }
  if (straight < kLeastSavedNs) return 0;
  std::vector<uint64_t> free(plan.env().threads->threads(), 0);  // when each thread is; the first is the step's own
  graph::NodeMap<uint64_t> done(graph.size(), 0);
  for (const graph::NodeId id : plan.order()) {
    const graph::Node& node = graph.node(id);
    uint64_t begin = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].node && plan.FeedOf(node.inputs[i]) < 0) begin = std::max(begin, done[node.inputs[i].node]);
    for (const graph::NodeId control : node.controls) begin = std::max(begin, done[control]);
    const OperationTime& time = of_node[id];
    done[id] = begin;
    if (time.ns == 0) continue;
    const bool beside =
        time.ns >= kWorthAThreadNs && !time.shares && plan.runner(id) != nullptr && MayRunBeside(*plan.runner(id));
    uint64_t& thread = beside ? *std::min_element(free.begin(), free.end()) : free[0];
    thread = done[id] = std::max(begin, thread) + time.ns;
  }
  const uint64_t end = *std::max_element(free.begin(), free.end());
  const uint64_t saved = straight > end ? straight - end : 0;
  return saved >= kLeastSavedNs && saved * kLeastSavedOf >= straight ? saved : 0;
}

}  // namespace tenon::exec
