// SPDX-License-Identifier: Apache-2.0
// ExtractImagePatches, NHWC: rows of windows are copied as they lie.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

struct PatchesKernel {
  explicit PatchesKernel(sdk::CreateContext& c)
      : same(c.String("padding") == "SAME"),
        sizes(Read(c, "ksizes")),
        strides(Read(c, "strides")),
        rates(Read(c, "rates")) {}
  struct Plan {
    Plan(const PatchesKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims in = sdk::DimsOf(c.input(0)), out = sdk::DimsOf(c.output(0));
      for (size_t i = 0; i < 2; ++i) {
        const int64_t reach = (kernel.sizes[i] - 1) * kernel.rates[i] + 1;
        size[i] = in[1 + i], count[i] = out[1 + i];
        before[i] = kernel.same ? std::max<int64_t>(0, (count[i] - 1) * kernel.strides[i] + reach - size[i]) / 2 : 0;
      }
      batch = in[0];
      pixel = static_cast<size_t>(in[3]) * sdk::ElementSize(c.input(0).dtype);
    }
    int64_t batch = 0;
    std::array<int64_t, 2> size{}, count{}, before{};
    size_t pixel = 0;  // bytes
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const auto row = static_cast<size_t>(plan.count[1] * sizes[0] * sizes[1]) * plan.pixel;  // of the output
    c.ParallelFor(plan.batch * plan.count[0], 0.2 * static_cast<double>(row), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const char* image =
            c.input<char>(0) + static_cast<size_t>(i / plan.count[0] * plan.size[0] * plan.size[1]) * plan.pixel;
        Row(plan, image, i % plan.count[0], c.output<char>(0) + static_cast<size_t>(i) * row);
      }
    });
  }

 private:
  static std::array<int64_t, 2> Read(sdk::CreateContext& c, std::string_view attr) {
    const std::vector<int64_t> values = c.Ints(attr);
    if (values.size() != 4) return {1, 1};
    return {values[1], values[2]};
  }
  void Row(const Plan& plan, const char* image, int64_t oy, char* out) const {
    for (int64_t ox = 0; ox < plan.count[1]; ++ox) {
      for (int64_t ky = 0; ky < sizes[0]; ++ky, out += static_cast<size_t>(sizes[1]) * plan.pixel) {
        const int64_t y = oy * strides[0] - plan.before[0] + ky * rates[0], x = ox * strides[1] - plan.before[1];
        if (y < 0 || y >= plan.size[0]) {
          std::memset(out, 0, static_cast<size_t>(sizes[1]) * plan.pixel);
        } else {
          Copy(plan, image + static_cast<size_t>(y * plan.size[1]) * plan.pixel, x, out);
        }
      }
    }
  }
  // The row of a window that begins at x, which may be outside.
  void Copy(const Plan& plan, const char* line, int64_t x, char* out) const {
    if (rates[1] == 1 && x >= 0 && x + sizes[1] <= plan.size[1]) {
      std::memcpy(out, line + static_cast<size_t>(x) * plan.pixel, static_cast<size_t>(sizes[1]) * plan.pixel);
      return;
    }
    for (int64_t kx = 0; kx < sizes[1]; ++kx, x += rates[1], out += plan.pixel) {
      if (x >= 0 && x < plan.size[1]) {
        std::memcpy(out, line + static_cast<size_t>(x) * plan.pixel, plan.pixel);
      } else {
        std::memset(out, 0, plan.pixel);
      }
    }
  }

  const bool same;
  const std::array<int64_t, 2> sizes, strides, rates;
};

}  // namespace

TENON_CPU_KERNEL(ExtractImagePatches) =
    CpuKernel<PatchesKernel>("ExtractImagePatches", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list});

}  // namespace tenon::cpu
