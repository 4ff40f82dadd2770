// SPDX-License-Identifier: Apache-2.0
// MatMul on the matrix unit.
//
// The numbers are those of the array: within a fold a column adds its products from the first row to the last, and the
// accumulator adds the folds in order, all in float32. In bfloat16 both factors are rounded first, and their products are
// exact in float32; in the exact mode products are float32's.
#include <algorithm>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

struct Operands {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  bool round;          // factors to bfloat16
  int64_t fold_rows;   // of the array
};

// rows x columns, from memory that holds it plainly or transposed, as the unit's inputs.
template <class T>
std::vector<float> Fetch(const T* data, int64_t rows, int64_t columns, bool transposed, bool round) {
  std::vector<float> out(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const float value = ToFloat(transposed ? data[j * rows + i] : data[i * columns + j]);
      out[static_cast<size_t>(i * columns + j)] = round ? ToFloat(ToBfloat16(value)) : value;
    }
  }
  return out;
}

template <class T>
void Multiply(const Operands& o, const T* a, const T* b, T* c) {
  const std::vector<float> left = Fetch(a, o.m, o.k, o.transpose_a, o.round);
  const std::vector<float> right = Fetch(b, o.k, o.n, o.transpose_b, o.round);
  const auto columns = static_cast<size_t>(o.n);
  std::vector<float> sum(columns), accumulator(columns);
  for (int64_t i = 0; i < o.m; ++i) {
    std::fill(accumulator.begin(), accumulator.end(), 0.0f);
    for (int64_t fold = 0; fold < o.k; fold += o.fold_rows) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t k = fold; k < std::min(fold + o.fold_rows, o.k); ++k) {
        const float factor = left[static_cast<size_t>(i * o.k + k)];
        const float* row = right.data() + k * o.n;
        for (size_t j = 0; j < columns; ++j) sum[j] += factor * row[j];
      }
      for (size_t j = 0; j < columns; ++j) accumulator[j] += sum[j];
    }
    for (size_t j = 0; j < columns; ++j) c[i * o.n + static_cast<int64_t>(j)] = FromFloat<T>(accumulator[j]);
  }
}

struct MatMulKernel : DeviceKernel {
  explicit MatMulKernel(sdk::CreateContext& c)
      : DeviceKernel(c), transpose_a(c.Bool("transpose_a")), transpose_b(c.Bool("transpose_b")) {}

  struct Plan {
    Plan(const MatMulKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1));
      if (a.size() != 2 || b.size() != 2) sdk::Fail(TENON_INVALID_ARGUMENT, "matrices have 2 dims; the shapes are ", a, " and ", b);
      o.transpose_a = kernel.transpose_a;
      o.transpose_b = kernel.transpose_b;
      o.m = a[o.transpose_a ? 1 : 0];
      o.k = a[o.transpose_a ? 0 : 1];
      o.n = b[o.transpose_b ? 0 : 1];
      if (b[o.transpose_b ? 1 : 0] != o.k) sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
      const bool half = c.input(0).dtype == TENON_DT_BFLOAT16;
      const Precision precision = kernel.device().options().precision;
      o.round = half || precision == Precision::kBfloat16 ||
                (precision == Precision::kPolicy && c.args().precision == TENON_PRECISION_ALLOW_BFLOAT16);
      o.fold_rows = kernel.machine().rows;
      Product product;
      product.m = o.m;
      product.n = o.n;
      product.k = o.k;
      product.input_bytes = product.output_bytes = half ? 2 : 4;
      product.passes = o.round ? 1 : kFloatPasses;
      cost = MatrixCycles(kernel.machine(), product);
      multiply = half ? &Any<Bfloat16> : &Any<float>;
    }
    template <class T>
    static void Any(const Operands& o, const char* a, const char* b, char* c) {
      Multiply(o, reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), reinterpret_cast<T*>(c));
    }
    Operands o = {};
    Cycles cost;
    void (*multiply)(const Operands&, const char*, const char*, char*);
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    const char* a = Input(c, 0);
    const char* b = Input(c, 1);
    char* out = Output(c, 0);
    Submit(c, "MatMul", plan.cost, [&plan, a, b, out] { plan.multiply(plan.o, a, b, out); });
  }
  bool transpose_a, transpose_b;
};

}  // namespace

extern constinit const tenon_kernel_registration kMatMul = sdk::Registration<MatMulKernel>(
    "MatMul", {.device_type = kDeviceType,
               .constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT, TENON_DT_BFLOAT16>>::list,
               .flags = TENON_KERNEL_DETERMINISTIC});

}  // namespace tenon::tpu_sim
