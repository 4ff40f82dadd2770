// SPDX-License-Identifier: Apache-2.0
// SpaceToBatchND, BatchToSpaceND, SpaceToDepth and DepthToSpace: strided copies, one for each place in a block.
#include <array>
#include <cstring>

#include "kernels/common/string_copy.h"
#include "kernels/moves/strided_copy.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

// The image has the pixels in their places, the batches have them apart: pixel p of the image, counted with what stands
// before it, is place p % block, pixel p / block.
template <bool kToBatch>
struct BatchKernel {
  void Run(sdk::RunContext c) const {
    const View& image = kToBatch ? c.input_view(0) : c.output_view(0);
    const View& apart = kToBatch ? c.output_view(0) : c.input_view(0);
    const View& blocks = c.input_view(1);
    const int64_t count = sdk::Count(blocks);
    const sdk::Dims in = sdk::DimsOf(image), out = sdk::DimsOf(apart);
    CheckRank(in);
    if (static_cast<int64_t>(in.size()) <= count)
      sdk::Fail(TENON_INVALID_ARGUMENT, "a tensor of shape ", in, " has no ", count, " dims after the batch");
    int64_t places = 1;
    for (int64_t i = 0; i < count; ++i) places = sdk::Multiply(places, Block(c, i));
    if (sdk::Multiply(in[0], places) != out[0])
      sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", in[0], " and ", out[0], " do not go with ", places, " places");
    if (c.output_view(0).byte_size == 0) return;
    if (kToBatch && sdk::Count(in) != sdk::Count(out))
      std::memset(c.output<void>(0), 0, static_cast<size_t>(c.output_view(0).byte_size));
    for (int64_t place = 0; place < places; ++place) CopyPlace(c, place, count, in, out);
  }

 private:
  static int64_t Block(sdk::RunContext c, int64_t i) {
    const int64_t block = sdk::ValueAt(c.input_view(1), i);
    if (block < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "block_shape[", i, "] = ", block, " is not positive");
    return block;
  }

  static void CopyPlace(sdk::RunContext c, int64_t place, int64_t count, sdk::Dims in, sdk::Dims out) {
    std::array<int64_t, kMaxRank> image = {}, apart = {}, offsets = {};
    FillStrides(in, image);
    FillStrides(out, apart);
    for (int64_t i = count, rest = place; i-- > 0;) {
      offsets[static_cast<size_t>(i)] = rest % Block(c, i);
      rest /= Block(c, i);
    }
    StridedCopy copy;
    const auto add = [&](int64_t dim, int64_t image_stride, int64_t apart_stride) {
      copy.Add(dim, kToBatch ? image_stride : apart_stride, kToBatch ? apart_stride : image_stride);
    };
    const auto offset = [&](int64_t image_at, int64_t apart_at) {
      copy.Offset(kToBatch ? image_at : apart_at, kToBatch ? apart_at : image_at);
    };
    offset(0, place * in[0] * apart[0]);
    add(in[0], image[0], apart[0]);
    for (int64_t i = 0; i < count; ++i) {
      const auto d = static_cast<size_t>(i + 1);
      const int64_t block = Block(c, i), before = sdk::ValueAt(c.input_view(2), 2 * i),
                    after = sdk::ValueAt(c.input_view(2), 2 * i + 1);
      if (before < 0 || after < 0 || in[d] + before + after != out[d] * block) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "dims ", in[d], " and ", out[d], " do not go with blocks of ", block, " and ",
                  before, " and ", after, " at the ends");
      }
      // Pixels q of this place with 0 <= q * block + shift < in[d].
      const int64_t shift = offsets[static_cast<size_t>(i)] - before;
      const int64_t first = shift >= 0 ? 0 : (-shift + block - 1) / block;
      const int64_t last = in[d] - shift <= 0 ? 0 : (in[d] - shift - 1) / block + 1;
      if (last <= first) return;
      offset((first * block + shift) * image[d], first * apart[d]);
      add(last - first, block * image[d], apart[d]);
    }
    for (size_t d = static_cast<size_t>(count) + 1; d < in.size(); ++d) add(in[d], image[d], apart[d]);
    copy.Run(c, c.output_view(0).dtype, c.input<void>(0), c.output<void>(0));
  }
};

}  // namespace

TENON_CPU_KERNEL(SpaceToBatchND) = CpuKernel<BatchKernel<true>>("SpaceToBatchND", kPlain);
TENON_CPU_KERNEL(BatchToSpaceND) = CpuKernel<BatchKernel<false>>("BatchToSpaceND", kPlain);
TENON_CPU_KERNEL(SpaceToDepthString) = CpuStringKernel<StridedKernel<sdk::DepthBuilder<true>>>("SpaceToDepth");
TENON_CPU_KERNEL(DepthToSpaceString) = CpuStringKernel<StridedKernel<sdk::DepthBuilder<false>>>("DepthToSpace");
TENON_CPU_KERNEL(SpaceToDepth) = CpuKernel<StridedKernel<sdk::DepthBuilder<true>>>("SpaceToDepth", kPlain);
TENON_CPU_KERNEL(DepthToSpace) = CpuKernel<StridedKernel<sdk::DepthBuilder<false>>>("DepthToSpace", kPlain);

}  // namespace tenon::cpu
