// SPDX-License-Identifier: Apache-2.0
// NodeRunner: one node made ready to run. Finds its kernel, infers shapes, prepares, and remembers what it prepared.
//
// A runner belongs to a plan and is shared by its steps. What is prepared for a set of input shapes (and values, when
// the op's shape function reads values) is immutable and kept in a bounded cache.
#ifndef TENON_CORE_EXEC_KERNEL_NODE_RUNNER_H_
#define TENON_CORE_EXEC_KERNEL_NODE_RUNNER_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/exec/device/queue_id.h"
#include "core/exec/kernel/kernel_refusal.h"
#include "core/exec/kernel/kernel_registry.h"
#include "core/graph/shape_inference.h"

namespace tenon::exec {

class KernelInstance;
class KernelQuestion;
class KernelStore;
class QueueWork;
struct Environment;
struct Place;
struct SessionDevice;

// Numbers that name the dims of a value: equal numbers, equal dims, forever. A call takes kShapeIds of them, from the
// one returned.
inline constexpr int32_t kShapeIds = 64;
uint64_t NewShapeIds();

// A node with known input shapes.
struct PreparedNode {
  ~PreparedNode();
  uint64_t shape_ids = 0;  // of the outputs; 0 when Prepare made it
  std::shared_ptr<KernelInstance> kernel;
  tenon_prepared* prepared = nullptr;
  uint64_t workspace_bytes = 0;
  std::vector<graph::OutputFacts> outputs;  // inferred; kernels' dynamic outputs may be unknown
  std::vector<uint64_t> output_bytes;
  std::vector<int64_t> key;
  mutable std::atomic<uint64_t> took_ns{0};  // its kernel's last run, of kernels that may run elsewhere; 0: none yet
  mutable std::atomic<bool> shares{false};   // that run used several threads by itself
};

class NodeRunner;
// Worth another thread, of the time that a kernel takes: to hand work over and back takes some tens of microseconds.
inline constexpr uint64_t kWorthAThreadNs = 50000;
// Whether a kernel of the node may run on another thread than the step's, beside others: nothing but its outputs tells
// that it has run, or when.
bool MayRunBeside(const NodeRunner& runner);

class NodeRunner {
 public:
  // device: of the environment's, that the node is placed on.
  static Result<std::shared_ptr<NodeRunner>> Create(const graph::Node& node, const Environment& env, KernelStore* store,
                                                    int32_t device);

  const graph::Node& node() const { return *node_; }
  // The best candidate; what it declares (async, view, dynamic outputs) holds for planning.
  const tenon_kernel_registration& registration() const { return *candidates_[0].registration; }
  const std::string& plugin() const { return candidates_[0].plugin(); }
  bool has(uint32_t trait) const { return (registration().traits & trait) != 0; }
  // The kernels that did not take the node, with what they said: when it was made, and for the shapes prepared for
  // last.
  std::vector<KernelRefusal> refusals() const;
  // The kernels that do not take it with these shapes, those that refused it at once among them.
  std::vector<KernelRefusal> RefusalsFor(const graph::ShapeInference& shapes) const;
  // The device whose queue it runs on; nullptr: it runs on the host's memory. A kernel for every device runs on the
  // host.
  const SessionDevice* queued_on() const { return queued_on_; }
  // Whether an argument lies in the host's memory.
  bool host_input(size_t i) const { return queued_on_ == nullptr || host_inputs_[i]; }
  bool host_output(size_t k) const { return queued_on_ == nullptr || host_outputs_[k]; }
  // Whether it touches variables, or memory of the device's pool: then it may only run on the device's main queue, and
  // in no compiled set of nodes.
  bool main_queue_only() const { return main_queue_only_; }
  // For a frame of the kernel in a step with this work.
  Place PlaceFor(QueueWork* work, QueueId queue) const;

  // Takes note of what its resources and references are of, where the node that makes them says so, for Resolve, which
  // sees handles alone. Loops and branches may lie between.
  Status KnowHandles(const graph::Graph& graph);
  // Prepares for facts known before the step; values in the facts count as constant.
  Result<std::shared_ptr<const PreparedNode>> Prepare(const std::vector<const graph::OutputFacts*>& inputs,
                                                      const std::vector<graph::OutputFacts>& outputs);
  // Whether what is prepared depends on values of inputs, as seen so far.
  bool value_dependent() const { return value_dependent_.load(std::memory_order_relaxed); }
  // Prepares for what stands in the views now. `last` is tried first.
  Result<std::shared_ptr<const PreparedNode>> Resolve(std::span<const tenon_tensor_view* const> inputs,
                                                      const std::shared_ptr<const PreparedNode>& last);

 private:
  NodeRunner(const graph::Node& node, const Environment& env, KernelStore* store, int32_t device,
             std::vector<KernelEntry> candidates, std::vector<KernelRefusal> refused);
  Result<std::shared_ptr<KernelInstance>> Instance(size_t i);
  // The node as this kernel runs it; UNIMPLEMENTED: it does not take it.
  Result<std::shared_ptr<PreparedNode>> PrepareWith(size_t i, const KernelQuestion& question);

  const graph::Node* node_;
  const Environment* env_;
  KernelStore* store_;
  const SessionDevice* device_;               // that it is placed on; nullptr: the environment has none
  const SessionDevice* queued_on_ = nullptr;
  std::vector<bool> host_inputs_, host_outputs_;  // of a queue's kernel
  bool main_queue_only_ = false;
  std::vector<graph::OutputFacts> handles_;  // by input; empty: nothing is known
  std::vector<KernelEntry> candidates_;
  std::vector<KernelRefusal> refused_at_once_;
  mutable std::mutex mutex_;
  std::vector<KernelRefusal> refused_shapes_;
  std::vector<std::shared_ptr<KernelInstance>> instances_;
  std::vector<std::shared_ptr<const PreparedNode>> cache_;
  size_t next_evicted_ = 0;
  std::atomic<bool> value_dependent_{false};
};

// Whether a kernel for a queue has an argument in the host's memory.
bool WantsHostMemory(const graph::Node& node, const tenon_kernel_registration& kernel, bool input, size_t index);

// The kernel alone: its frame is complete. Traces, releases what it pinned, and names the node in an error.
Status RunPrepared(const PreparedNode& prepared, tenon_frame* frame);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_NODE_RUNNER_H_
