// SPDX-License-Identifier: Apache-2.0
// One tensor in a buffer, owned: what retain_input or alloc_tensor gave. It may be kept past the kernel's run, moved to other threads and dropped
// there.
#ifndef TENON_SDK_KERNEL_KEPT_TENSOR_H_
#define TENON_SDK_KERNEL_KEPT_TENSOR_H_

#include <utility>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

class KeptTensor {
 public:
  // Takes the view's reference over.
  explicit KeptTensor(const tenon_tensor_view& view) : view_(view), dims_(view.dl.shape, view.dl.shape + view.dl.ndim) {}
  // Input `index` of a kernel that names it in retained_inputs.
  static KeptTensor OfInput(const RunContext& c, int32_t index) {
    tenon_tensor_view kept{};
    Check(c.services().retain_input(c.frame(), index, &kept));
    return KeptTensor(kept);
  }
  KeptTensor(KeptTensor&& other) noexcept : view_(other.view_), dims_(std::move(other.dims_)) { other.view_.buffer = nullptr; }
  KeptTensor& operator=(KeptTensor&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(dims_, other.dims_);
    return *this;
  }
  ~KeptTensor() {
    if (view_.buffer != nullptr) tenon_plugin_host->buffer_release(view_.buffer);
  }
  // The same tensor again, in the same buffer.
  KeptTensor Share() const {
    KeptTensor again(view());  // first its dims, which may want memory: without it nothing is to be released
    if (view_.buffer != nullptr) tenon_plugin_host->buffer_retain(view_.buffer);
    return again;
  }
  // Valid as long as this.
  tenon_tensor_view view() const {
    tenon_tensor_view view = view_;
    view.dl.shape = const_cast<int64_t*>(dims_.data());
    return view;
  }

 private:
  tenon_tensor_view view_;
  std::vector<int64_t> dims_;
};

// A tensor in a buffer of its own, uninitialised, which counts against the session's limit: RESOURCE_EXHAUSTED, thrown as in kernel.h. extra_bytes:
// behind the elements, for strings.
inline KeptTensor NewTensor(const RunContext& c, uint32_t dtype, Dims dims, uint64_t extra_bytes = 0) {
  tenon_tensor_view view{};
  Check(c.services().alloc_tensor(c.frame(), dtype, ToShape(dims), extra_bytes, &view));
  return KeptTensor(view);
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_KEPT_TENSOR_H_
