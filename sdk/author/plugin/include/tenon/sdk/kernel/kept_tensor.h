// SPDX-License-Identifier: Apache-2.0
// One tensor in a buffer, owned: what retain_input or alloc_tensor gave. It may be kept past the kernel's run, moved to
// other threads and dropped there.
//
// It is what a value is kept in, and counts against the limit of the session: its bytes, once however often they are
// shared, and a record for each time that they are kept, so that whoever keeps many references to one small tensor
// meets the limit too. RESOURCE_EXHAUSTED, thrown as in kernel.h, wherever one is made. What a plugin keeps beside
// tensors it charges itself (charge.h).
#ifndef TENON_SDK_KERNEL_KEPT_TENSOR_H_
#define TENON_SDK_KERNEL_KEPT_TENSOR_H_

#include <utility>
#include <vector>

#include "tenon/ext/draft/keeping.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// The host's table; nullptr: it has none, and records are not charged.
inline const tenon_keeping* HostKeeping() {
  static const auto* const keeping = [] {
    const auto* table =
        static_cast<const tenon_keeping*>(tenon_plugin_host->get_extension(ToSpan(TENON_EXTENSION_KEEPING)));
    return table != nullptr && TENON_CALLABLE(table, refund) ? table : nullptr;
  }();
  return keeping;
}

class KeptTensor {
 public:
  // What one takes where it is kept: itself, its dims, and its share of an element and of the list that holds that,
  // which may be twice as long as it is full, and is copied when it grows.
  static constexpr uint64_t kRecordBytes = 256;

  // Takes the view's reference over, also when this fails.
  explicit KeptTensor(const tenon_tensor_view& view) : view_(view) {
    try {
      dims_.assign(view.dl.shape, view.dl.shape + view.dl.ndim);
      if (view_.buffer != nullptr && HostKeeping() != nullptr) Check(HostKeeping()->keep(view_.buffer, RecordBytes()));
    } catch (...) {
      if (view_.buffer != nullptr) tenon_plugin_host->buffer_release(view_.buffer);
      throw;
    }
  }
  // Input `index` of a kernel that names it in retained_inputs.
  static KeptTensor OfInput(const RunContext& c, int32_t index) {
    tenon_tensor_view kept{};
    Check(c.services().retain_input(c.frame(), index, &kept));
    return KeptTensor(kept);
  }
  KeptTensor(KeptTensor&& other) noexcept : view_(other.view_), dims_(std::move(other.dims_)) {
    other.view_.buffer = nullptr;
  }
  KeptTensor& operator=(KeptTensor&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(dims_, other.dims_);
    return *this;
  }
  ~KeptTensor() {
    if (view_.buffer == nullptr) return;
    if (HostKeeping() != nullptr) HostKeeping()->drop(view_.buffer, RecordBytes());
    else tenon_plugin_host->buffer_release(view_.buffer);
  }
  // The same tensor again, in the same buffer.
  KeptTensor Share() const {
    if (view_.buffer != nullptr) tenon_plugin_host->buffer_retain(view_.buffer);
    return KeptTensor(view());
  }
  // Valid as long as this.
  tenon_tensor_view view() const {
    tenon_tensor_view view = view_;
    view.dl.shape = const_cast<int64_t*>(dims_.data());
    return view;
  }

 private:
  uint64_t RecordBytes() const { return kRecordBytes + static_cast<uint64_t>(view_.dl.ndim) * sizeof(int64_t); }

  tenon_tensor_view view_;
  std::vector<int64_t> dims_;
};

// The tensors of these views, whose references are taken over, also when this fails.
inline std::vector<KeptTensor> KeepAll(const std::vector<tenon_tensor_view>& views) {
  size_t taken = 0;
  try {
    std::vector<KeptTensor> kept;
    kept.reserve(views.size());
    while (taken < views.size()) kept.emplace_back(views[taken++]);
    return kept;
  } catch (...) {
    for (; taken < views.size(); ++taken)
      if (views[taken].buffer != nullptr) tenon_plugin_host->buffer_release(views[taken].buffer);
    throw;
  }
}

// A tensor in a buffer of its own, uninitialised, which counts against the session's limit: RESOURCE_EXHAUSTED, thrown
// as in kernel.h. extra_bytes: behind the elements, for strings.
inline KeptTensor NewTensor(const RunContext& c, uint32_t dtype, Dims dims, uint64_t extra_bytes = 0) {
  tenon_tensor_view view{};
  Check(c.services().alloc_tensor(c.frame(), dtype, ToShape(dims), extra_bytes, &view));
  return KeptTensor(view);
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_KEPT_TENSOR_H_
