// SPDX-License-Identifier: Apache-2.0
// StridedSliceAssign and ResourceStridedSliceAssign: a slice of a variable gets a value, which broadcasts to it.
#include <array>
#include <memory_resource>
#include <vector>

#include "kernels/moves/strided_copy.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

template <bool kReference>
struct StridedAssignKernel {
  explicit StridedAssignKernel(sdk::CreateContext& c) : masks(c) {}
  void Run(sdk::RunContext c) const {
    tenon_resource* handle = c.resource(0);
    const View& value = c.input_view(4);
    {
      sdk::Update update(c, handle, 0, value.dtype);
      StridedCopy copy;
      copy.WriteWhole();
      Build(c, update.dims(), &copy);
      if (copy.total() > 0) Write(c, copy, value, update);
      update.Commit();
    }
    if (kReference) *c.output<tenon_resource*>(0) = handle;
  }

 private:
  // The dims of the slice as its reader sees them: those of an index are gone, new ones are 1 and no dim of the
  // variable.
  struct SeenDim {
    int64_t size, stride;  // of the variable's elements
  };
  void Build(const sdk::RunContext& c, sdk::Dims full, StridedCopy* copy) const {
    std::array<int64_t, kMaxRank> strides = {};
    std::array<SeenDim, kMaxRank> dims = {};
    CheckRank(full);
    FillStrides(full, strides);
    size_t dim = 0;
    masks.ForEachDim(full, c.input_view(1), c.input_view(2), c.input_view(3),
                     [&](int64_t from, int64_t step, int64_t size) {
                       if (size > 0) copy->Offset(0, from * strides[dim]);
                       dims[dim] = {size, step * strides[dim]};
                       ++dim;
                     });
    std::vector<SeenDim> seen;
    const int64_t count = sdk::Count(c.input_view(1));
    int64_t named = 0;
    for (int64_t i = 0; i < count; ++i) named += ((masks.ellipsis | masks.new_axis) >> i & 1) == 0 ? 1 : 0;
    size_t at = 0;
    const auto whole = [&] {
      for (int64_t k = static_cast<int64_t>(full.size()) - named; k > 0; --k) seen.push_back(dims[at++]);
    };
    bool ellipsis = false;
    for (int64_t i = 0; i < count; ++i) {
      if ((masks.ellipsis >> i & 1) != 0) {
        whole();
        ellipsis = true;
      } else if ((masks.new_axis >> i & 1) != 0) {
        seen.push_back({1, 0});
      } else {
        if ((masks.shrink >> i & 1) == 0) seen.push_back(dims[at]);
        ++at;
      }
    }
    if (!ellipsis) whole();
    AddDims(seen, sdk::DimsOf(c.input_view(4)), copy);
  }
  static void AddDims(const std::vector<SeenDim>& seen, sdk::Dims value, StridedCopy* copy) {
    std::vector<int64_t> sizes;
    bool empty = false;
    for (const SeenDim& each : seen) sizes.push_back(each.size), empty |= each.size == 0;
    if (empty) return void(copy->Add(0, 0, 0));
    std::vector<int64_t> steps(seen.size(), 0);
    int64_t stride = 1;
    for (size_t k = 1; k <= value.size(); ++k) {
      const int64_t size = value[value.size() - k];
      const bool fits = k <= seen.size() ? size == 1 || size == sizes[seen.size() - k] : size == 1;
      if (!fits) sdk::Fail(TENON_INVALID_ARGUMENT, "Cannot broadcast input shape ", value, " into final shape ", sizes);
      if (k <= seen.size() && size != 1) steps[seen.size() - k] = stride;
      stride *= size;
    }
    for (size_t i = 0; i < seen.size(); ++i) copy->Add(sizes[i], steps[i], seen[i].stride);
  }
  // The value may be what is written: elements are read before any of them goes.
  static void Write(const sdk::RunContext& c, const StridedCopy& copy, const View& value, sdk::Update& update) {
    const char *from = sdk::Data<const char>(value), *to = update.new_data<char>();
    sdk::StepMemory memory(c);
    std::pmr::vector<char> kept(&memory);
    if (from < to + update.new_view().byte_size && to < from + value.byte_size) {
      kept.assign(from, from + value.byte_size);
      from = kept.data();
    }
    update.BeginWriting();
    copy.Run(c, value.dtype, from, update.new_data<void>());
  }

  sdk::StridedSliceMasks masks;
};

}  // namespace

TENON_CPU_KERNEL(StridedSliceAssign) = CpuKernel<StridedAssignKernel<true>>("StridedSliceAssign", kPlain);
TENON_CPU_KERNEL(ResourceStridedSliceAssign) = CpuKernel<StridedAssignKernel<false>>("ResourceStridedSliceAssign",
                                                                                     kPlain);

}  // namespace tenon::cpu
