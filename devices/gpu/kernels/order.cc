// SPDX-License-Identifier: Apache-2.0
// TopKV2.
#include "code/order.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

struct TopK {
  // In which order TensorFlow leaves them then is what one thread does after the other: the CPU's kernel does it, so
  // that a sampler draws the same elements wherever the model runs.
  static void Supports(sdk::KernelQuery& query) {
    if (!query.Bool("sorted")) query.Fail(TENON_UNIMPLEMENTED, "sorted = false; the GPU's kernel sorts");
  }
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("k"), 1}};
  struct Plan {
    Plan(const TopK&, Shapes& s) {
      const sdk::Dims dims = s.in(0);
      if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "input must be >= 1-D, got shape []");
      const uint32_t index_type = s.output(1).dtype;
      TopKParams& p = params;
      p.columns = dims.back();
      p.rows = sdk::Count(dims.first(dims.size() - 1));
      p.k = s.Integer(1);
      p.place_bytes = static_cast<int32_t>(sdk::ElementSize(index_type));
      if (p.columns > std::numeric_limits<int32_t>::max() ||
          (index_type == TENON_DT_INT16 && p.columns > std::numeric_limits<int16_t>::max())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "rows of ", p.columns, " elements are longer than index_type ",
                  sdk::TypeName(index_type), " counts");
      }
      if (p.k < 0 || p.k > p.columns)
        sdk::Fail(TENON_INVALID_ARGUMENT, "input must have at least k columns. Had ", p.columns, ", needed ", p.k);
      if (s.out(0).empty() || s.out(0).back() != p.k)
        sdk::Fail(TENON_INTERNAL, "outputs of shape ", s.out(0), " for k = ", p.k);
      if (p.rows == 0 || p.k == 0) return;
      p.sorted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(p.k)));
      const bool large = p.sorted > kSortedInBlock;
      // Where each block has a share of the workspace, no more than run at once.
      const int64_t blocks = std::min<int64_t>(p.rows, int64_t{s.facts().processors} * (large ? 4 : 64));
      grid = {{static_cast<uint32_t>(blocks), 1, 1}, kFlatThreads};
      if (large) {
        keys = s.Workspace(sdk::Multiply(sdk::Multiply(blocks, p.sorted), sizeof(uint64_t)));
        indices = s.Workspace(sdk::Multiply(sdk::Multiply(blocks, p.sorted), sizeof(uint32_t)));
      }
      code = s.Code("TopK", s.dtype(0));
    }
    void Launch(Launcher& on, char* const* at) const {
      if (code == nullptr) return;
      TopKParams p = params;
      p.x = at[0];
      p.values = at[2];
      p.places = at[3];
      p.keys = on.Workspace<uint64_t>(keys);
      p.indices = on.Workspace<uint32_t>(indices);
      on(code, grid, p);
    }
    TopKParams params = {};
    Grid grid;
    int64_t keys = 0, indices = 0;
    Function code = nullptr;
  };
};
using IndexTypes = Types<int16_t, int32_t, int64_t>;

}  // namespace

TENON_GPU_KERNEL(TopKV2) = Kernel<TopK>(
    "TopKV2", {.constraints = sdk::Constraints<Numbers::Constraint<"T">, IndexTypes::Constraint<"index_type">>::list});

}  // namespace tenon::gpu
