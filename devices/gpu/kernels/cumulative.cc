// SPDX-License-Identifier: Apache-2.0
// Cumsum and Cumprod.
#include "code/cumulative.h"

#include <algorithm>

#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

template <sdk::FixedString kCode>
struct Cumulative {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("axis"), 1}};
  explicit Cumulative(sdk::CreateContext& c) : exclusive(c.Bool("exclusive")), reverse(c.Bool("reverse")) {}
  struct Plan {
    Plan(const Cumulative& kernel, Shapes& s) {
      const sdk::Dims dims = s.in(0);
      const auto rank = static_cast<int64_t>(dims.size());
      const int64_t given = s.Integer(1), axis = given < 0 ? given + rank : given;
      if (axis < 0 || axis >= rank) sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", given, " is outside x of shape ", dims);
      const auto at = static_cast<size_t>(axis);
      params.n = dims[at];
      params.inner = sdk::Count(dims.subspan(at + 1));
      params.lines = sdk::Count(dims.first(at)) * params.inner;
      params.exclusive = kernel.exclusive ? 1 : 0;
      params.reverse = kernel.reverse ? 1 : 0;
      params.per_split = params.n;
      params.splits = 1;
      if (params.lines == 0 || params.n == 0) return;

      // Neighbours walk along memory side by side, or the threads of a block along a line.
      const bool columns = params.inner >= kSideBySide || params.n <= kShortLine;
      const int64_t processors = s.facts().processors;
      const int64_t wanted =
          columns ? processors * kThreadsOfProcessor / params.lines : processors * kBlocksOfProcessor / params.lines;
      const int64_t share = columns ? kShortLine : kBlockShare;
      const int64_t splits = std::clamp<int64_t>(std::min(wanted, params.n / share), 1, 65535);
      params.per_split = (params.n + splits - 1) / splits;
      params.splits = (params.n + params.per_split - 1) / params.per_split;
      const auto blocks = static_cast<uint32_t>(std::min<int64_t>(params.lines, processors * kBlocksOfProcessor));
      const uint32_t dtype = s.dtype(0);
      if (!columns) rows = {{blocks, static_cast<uint32_t>(params.splits), 1}, kFlatThreads};
      scan = s.Code(sdk::Concat(kCode.data, columns ? "Columns" : "Rows"), dtype);
      if (params.splits == 1) return;
      totals = s.Workspace(sdk::Multiply(sdk::Multiply(params.lines, params.splits), sizeof(int64_t)));
      total = s.Code(sdk::Concat(kCode.data, columns ? "ColumnTotals" : "RowTotals"), dtype);
      carry = s.Code(sdk::Concat(kCode.data, "Carry"), dtype);
    }
    void Launch(Launcher& on, char* const* at) const {
      if (scan == nullptr) return;
      CumulativeParams p = params;
      p.x = at[0];
      p.out = at[2];
      if (p.splits > 1) {
        p.totals = on.Workspace<char>(totals);
        Give(on, total, p);
        on(carry, Flat(p.lines), p);
      }
      Give(on, scan, p);
    }
    void Give(Launcher& on, Function code, const CumulativeParams& p) const {
      rows.has_value() ? on(code, *rows, p) : on(code, Flat(p.lines * p.splits), p);
    }
    static constexpr int64_t kSideBySide = 8, kShortLine = 64, kBlockShare = 4096, kThreadsOfProcessor = 2048,
                             kBlocksOfProcessor = 8;
    CumulativeParams params = {};
    int64_t totals = 0;
    std::optional<Grid> rows;
    Function scan = nullptr, total = nullptr, carry = nullptr;
  };
  bool exclusive, reverse;
};

constexpr sdk::Traits kTraits = {
    .constraints = sdk::Constraints<Numbers::Constraint<"T">, sdk::Indices::Constraint<"Tidx">>::list};

}  // namespace

TENON_GPU_KERNEL(Cumsum) = Kernel<Cumulative<"Cumsum">>("Cumsum", kTraits);
TENON_GPU_KERNEL(Cumprod) = Kernel<Cumulative<"Cumprod">>("Cumprod", kTraits);

}  // namespace tenon::gpu
