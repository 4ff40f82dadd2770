// SPDX-License-Identifier: Apache-2.0
// KernelQuestion: a node and its shapes as kernels see them before they are made, and whether a kernel takes the node.
#ifndef TENON_CORE_EXEC_KERNEL_KERNEL_QUESTION_H_
#define TENON_CORE_EXEC_KERNEL_KERNEL_QUESTION_H_

#include <string>
#include <vector>

#include "core/exec/kernel/kernel_refusal.h"
#include "core/exec/kernel/kernel_registry.h"
#include "core/graph/shape_inference.h"

namespace tenon::exec {

struct Environment;
struct SessionDevice;

// What prepare() and compile() see of an edge: its shape, and its value when that is known.
tenon_tensor_view ShapeView(DType dtype, const graph::OutputFacts& facts, bool with_value);

// Everything that it is made of outlives it.
class KernelQuestion {
 public:
  // device: that the node is placed on; nullptr: none. Facts of a value count as constant.
  KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device,
                 const std::vector<const graph::OutputFacts*>& inputs, const std::vector<graph::OutputFacts>& outputs);
  // Of what was inferred for the node's graph.
  KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device,
                 const graph::ShapeInference& shapes);
  // Of unknown shapes.
  KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device);
  KernelQuestion(const KernelQuestion&) = delete;
  KernelQuestion& operator=(const KernelQuestion&) = delete;

  // UNIMPLEMENTED: the kernel does not take the node.
  Status Ask(const KernelEntry& kernel) const;
  // That the kernel says a run takes; 0: it does not.
  double Seconds(const KernelEntry& kernel) const;
  // For a kernel that takes it, but for the instance. They point into this question.
  tenon_prepare_args PrepareArgs() const;
  const tenon_tensor_view& output(size_t k) const { return views_[input_count_ + k]; }
  // Whether all of them are known.
  bool HasShapes() const;

 private:
  KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device, size_t input_count);
  void Point();
  tenon_kernel_query Query() const;  // but for the instance

  const graph::Node& node_;
  const Environment& env_;
  tenon_device* const device_;
  size_t input_count_;
  std::vector<tenon_tensor_view> views_;  // inputs, then outputs
  std::vector<const tenon_tensor_view*> pointers_;
};

// Seconds that the kernel says a run of the node takes, whose shapes are all known; else 0.
double SecondsOf(const graph::Node& node, const Environment& env, const SessionDevice* device,
                 const KernelEntry& kernel, const graph::ShapeInference& shapes);

// Removes those that do not take the node, whatever its shapes are, and says what each said. A failure is that of the
// first kernel which fails to answer; it stays.
Status KeepThoseThatTakeIt(const graph::Node& node, const Environment& env, const SessionDevice* device,
                           std::vector<KernelEntry>* kernels, std::vector<KernelRefusal>* refused);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_KERNEL_QUESTION_H_
