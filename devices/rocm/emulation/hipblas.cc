// SPDX-License-Identifier: Apache-2.0
// A library with hipBLAS's functions that computes in the host's memory, on emulated streams
// (devices/gpu/emulation/stream.h), as far as devices/rocm/hipblas.h asks it. For tests.
#include "emulation/element.h"
#include "emulation/stream.h"
#include "library_abi.h"

namespace {

using namespace tenon::gpu;        // NOLINT: a library of its own
using namespace tenon::gpu::rocm;  // NOLINT

struct Handle {
  void* stream = nullptr;
  int atomics = 1;
};
Number NumberOf(BlasType type) {
  return type == kBlasDouble     ? Number::kDouble
         : type == kBlasHalf     ? Number::kHalf
         : type == kBlasBfloat16 ? Number::kBfloat16
                                 : Number::kFloat;
}
constexpr Status kInvalid = 3;

}  // namespace

extern "C" {

Status hipblasCreate(BlasHandle* handle) {
  *handle = new Handle;
  return 0;
}
Status hipblasDestroy(BlasHandle handle) {
  delete static_cast<Handle*>(handle);
  return 0;
}
Status hipblasSetStream(BlasHandle handle, StreamHandle stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
Status hipblasSetAtomicsMode(BlasHandle handle, int mode) {
  static_cast<Handle*>(handle)->atomics = mode;
  return 0;
}
Status hipblasGemmStridedBatchedEx(BlasHandle handle, BlasOperation turn_a, BlasOperation turn_b, int m, int n, int k,
                                   const void* alpha, const void* a, BlasType type, int lda, int64_t stride_a,
                                   const void* b, BlasType type_b, int ldb, int64_t stride_b, const void* beta, void* c,
                                   BlasType type_c, int ldc, int64_t stride_c, int batches, BlasCompute compute,
                                   int algorithm) {
  const auto& of = *static_cast<Handle*>(handle);
  const bool ta = turn_a == kBlasTurned, tb = turn_b == kBlasTurned;
  const Number scale = type == kBlasDouble ? Number::kDouble : Number::kFloat, number = NumberOf(type),
               result = NumberOf(type_c);
  if (of.atomics != 0 || type != type_b || (type != type_c && (type == kBlasDouble || type_c != kBlasFloat)) ||
      lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || algorithm != kBlasDefault ||
      compute != (type == kBlasDouble ? kBlasCompute64F : kBlasCompute32F) || Load(scale, alpha, 0) != 1 ||
      Load(scale, beta, 0) != 0) {
    return kInvalid;
  }
  static_cast<EmulatedStream*>(of.stream)->Give([=] {
    for (int64_t batch = 0; batch < batches; ++batch) {
      for (int64_t column = 0; column < n; ++column) {
        for (int64_t row = 0; row < m; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < k; ++i) {
            sum += Load(number, a, batch * stride_a + (ta ? row * lda + i : i * lda + row)) *
                   Load(number, b, batch * stride_b + (tb ? i * ldb + column : column * ldb + i));
          }
          Store(result, c, batch * stride_c + column * ldc + row, sum);
        }
      }
    }
  });
  return 0;
}

}  // extern "C"
