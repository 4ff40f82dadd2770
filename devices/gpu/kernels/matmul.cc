// SPDX-License-Identifier: Apache-2.0
// MatMul and BatchMatMul in its three versions.
#include "kernels/product.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::gpu {

using sdk::Dims;

ProductProblem MatrixProblem(bool transpose_a, bool transpose_b, bool batches, const Shapes& s) {
  const Dims a = s.in(0), b = s.in(1), out = s.out(0);
  if (a.size() < 2 || b.size() < 2 || (!batches && (a.size() > 2 || b.size() > 2))) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "matrices have 2 dims; the shapes are ", a, " and ", b);
  }
  const Dims left = a.last(2), right = b.last(2);
  ProductProblem p;
  p.dtype = s.dtype(0);
  p.keeps_sums = s.output(0).dtype != p.dtype;
  p.rows = left[transpose_a ? 1 : 0];
  p.depth = left[transpose_a ? 0 : 1];
  p.columns = right[transpose_b ? 0 : 1];
  if (right[transpose_b ? 1 : 0] != p.depth)
    sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
  if (out.size() < 2 || out[out.size() - 2] != p.rows || out.back() != p.columns) {
    sdk::Fail(TENON_INTERNAL, "the output's shape ", out, " does not fit the product of ", a, " and ", b);
  }
  p.left.line.step = transpose_a ? 1 : left[1];
  p.left.depth.step = transpose_a ? left[1] : 1;
  p.right.line.step = transpose_b ? right[1] : 1;
  p.right.depth.step = transpose_b ? 1 : right[1];
  p.out_row.step = p.columns;

  const sdk::Broadcast<2> batch({a.first(a.size() - 2), b.first(b.size() - 2)}, out.first(out.size() - 2));
  if (batch.rank > kMostBatchDims) {
    sdk::Fail(TENON_UNIMPLEMENTED, "GPUs broadcast matrices over at most ", kMostBatchDims + 1,
              " alternations of dims; these have ", batch.rank + 1);
  }
  const int64_t a_count = sdk::Multiply(p.rows, p.depth), b_count = sdk::Multiply(p.depth, p.columns);
  p.batches.count = batch.total;
  p.batches.inner = batch.inner;
  p.batches.left_step = batch.inner_stride[0] * a_count;
  p.batches.right_step = batch.inner_stride[1] * b_count;
  p.batches.out_step = sdk::Multiply(p.rows, p.columns);
  p.batches.rank = batch.rank;
  for (int d = 0; d < batch.rank; ++d) {
    const auto at = static_cast<size_t>(d);
    p.batches.dims[d] = batch.dims[at];
    p.batches.left_strides[d] = batch.strides[0][at] * a_count;
    p.batches.right_strides[d] = batch.strides[1][at] * b_count;
  }
  return p;
}

namespace {

template <bool kBatches>
struct MatMulKernel {
  explicit MatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool(kBatches ? "adj_x" : "transpose_a")),
        transpose_b(c.Bool(kBatches ? "adj_y" : "transpose_b")) {}
  struct Plan {
    Plan(const MatMulKernel& kernel, Shapes& s)
        : product(MatrixProblem(kernel.transpose_a, kernel.transpose_b, kBatches, s), s) {}
    void Launch(Launcher& on, char* const* at) const { product.Launch(on, at[0], at[1], at[2]); }
    ProductPlan product;
  };
  bool transpose_a, transpose_b;
};

constexpr uint32_t kFlags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE;
constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list, .flags = kFlags};

// Out: of the sums as they are, where it is another type.
template <class T, class Out = T>
constexpr tenon_kernel_registration OneType() {
  using List =
      sdk::Constraints<typename Types<T>::template Constraint<"Ta">, typename Types<T>::template Constraint<"Tb">,
                       typename Types<Out>::template Constraint<"Tout">>;
  return Kernel<MatMulKernel<true>>("BatchMatMulV3", {.constraints = List::list, .flags = kFlags});
}

}  // namespace

TENON_GPU_KERNEL(MatMul) = Kernel<MatMulKernel<false>>("MatMul", kTraits);
TENON_GPU_KERNEL(BatchMatMul) = Kernel<MatMulKernel<true>>("BatchMatMul", kTraits);
TENON_GPU_KERNEL(BatchMatMulV2) = Kernel<MatMulKernel<true>>("BatchMatMulV2", kTraits);
TENON_GPU_KERNEL(BatchMatMulV3Float) = OneType<float>();
TENON_GPU_KERNEL(BatchMatMulV3Double) = OneType<double>();
TENON_GPU_KERNEL(BatchMatMulV3Half) = OneType<sdk::Half>();
TENON_GPU_KERNEL(BatchMatMulV3Bfloat16) = OneType<sdk::Bfloat16>();
TENON_GPU_KERNEL(BatchMatMulV3HalfSums) = OneType<sdk::Half, float>();
TENON_GPU_KERNEL(BatchMatMulV3Bfloat16Sums) = OneType<sdk::Bfloat16, float>();
TENON_GPU_KERNEL(BatchMatMulV3Int32) = OneType<int32_t>();
TENON_GPU_KERNEL(BatchMatMulV3Int64) = OneType<int64_t>();

}  // namespace tenon::gpu
