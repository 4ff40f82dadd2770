// SPDX-License-Identifier: Apache-2.0
// WorkFrame: a kernel's frame that is a work's. What is written for kernels and makes outputs at shapes of its own, as
// the parsing of Examples, runs in an iterator, and its outputs are tensors of the session's.
//
// It has outputs, memory, and whether it was given up; nothing that belongs to a step. Its shares of work are done one
// after the other, on the thread that asks.
#ifndef TENON_OPS_DATASET_BASE_WORK_FRAME_H_
#define TENON_OPS_DATASET_BASE_WORK_FRAME_H_

#include <optional>
#include <utility>
#include <vector>

#include "base/dataset.h"

namespace tenon::ops {

class WorkFrame {
 public:
  // types: of the outputs. The pass outlives it.
  WorkFrame(const Pass& pass, std::vector<uint32_t> types)
      : pass_(pass), types_(std::move(types)), made_(types_.size()), views_(types_.size()) {
    for (tenon_tensor_view& view : views_) outputs_.push_back(&view);
    frame_ = {};
    frame_.struct_size = sizeof frame_;
    frame_.outputs = outputs_.data();
    frame_.output_count = static_cast<int32_t>(outputs_.size());
    frame_.services = Services();
    frame_.context = reinterpret_cast<tenon_frame_context*>(this);
  }
  WorkFrame(const WorkFrame&) = delete;
  WorkFrame& operator=(const WorkFrame&) = delete;

  sdk::RunContext context() { return sdk::RunContext(&frame_); }
  // Output `index`, which was made and not yet taken.
  sdk::KeptTensor Take(int32_t index) { return *std::exchange(made_[static_cast<size_t>(index)], std::nullopt); }

 private:
  static WorkFrame& Of(tenon_frame* frame) { return *reinterpret_cast<WorkFrame*>(frame->context); }

  static tenon_status* AllocTensor(tenon_frame* frame, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                                   tenon_tensor_view* out_view) {
    const sdk::Work& work = Of(frame).pass_.work();
    return work.services().alloc_tensor(work.get(), dtype, shape, extra_bytes, out_view);
  }
  static tenon_status* AllocOutput(tenon_frame* frame, int32_t index, tenon_shape shape,
                                   uint64_t extra_bytes) noexcept {
    try {
      WorkFrame& self = Of(frame);
      const auto at = static_cast<size_t>(index);
      tenon_tensor_view view{};
      sdk::Check(AllocTensor(frame, self.types_.at(at), shape, extra_bytes, &view));
      self.made_[at].emplace(view);
      self.views_[at] = self.made_[at]->view();
      return nullptr;
    } catch (...) {
      return sdk::CurrentFailure();
    }
  }
  static void ParallelFor(tenon_frame*, int64_t total, double, tenon_range_function function, void* argument) {
    function(argument, 0, total);
  }
  static uint32_t IsCancelled(tenon_frame* frame) { return Of(frame).pass_.cancelled() ? 1 : 0; }
  static const tenon_frame_services* Services() {
    static const tenon_frame_services services = [] {
      tenon_frame_services some{};
      some.struct_size = sizeof some;
      some.alloc_tensor = &AllocTensor;
      some.alloc_output = &AllocOutput;
      some.parallel_for = &ParallelFor;
      some.is_cancelled = &IsCancelled;
      return some;
    }();
    return &services;
  }

  const Pass& pass_;
  const std::vector<uint32_t> types_;
  std::vector<std::optional<sdk::KeptTensor>> made_;
  std::vector<tenon_tensor_view> views_;  // of those
  std::vector<tenon_tensor_view*> outputs_;
  tenon_frame frame_;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_WORK_FRAME_H_
