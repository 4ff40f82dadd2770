// SPDX-License-Identifier: Apache-2.0
// A library with cuBLASLt's functions that computes in the host's memory, on emulated streams
// (devices/gpu/emulation/stream.h), as far as devices/cuda/cublas_lt.h asks it: column-major matrices, batches with
// strides, biases and rectifiers. It refuses what the real one refuses: operands that do not fit, workspace that was
// not given, addresses that are not aligned; and, where some releases do, floats as halves and an epilogue in matrices
// whose columns are no multiple of 16 bytes apart. TENON_EMULATED_LIES=1: it wants more workspace than it was told that
// there may be; 2: it found less than nothing; and says that all went well. For tests.
#include <cublasLt.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulation/element.h"
#include "emulation/stream.h"

namespace {

using tenon::gpu::Number;

// What the opaque descriptors hold.
struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t step, batch;
  int32_t batches;
};
struct Product {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t turn_a, turn_b;
  cublasLtEpilogue_t epilogue;
  const void* bias;
};
struct Preference {
  uint64_t most_workspace;
  uint32_t alignment;
};
constexpr uint64_t kWorkspace = 512;

template <class T, class Opaque>
T Get(const Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  T value;
  std::memcpy(&value, opaque, sizeof value);
  return value;
}
template <class T, class Opaque>
cublasStatus_t Put(Opaque* opaque, const T& value) {
  std::memcpy(opaque, &value, sizeof value);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t Take(const void* buffer, size_t bytes, T* out) {
  if (bytes != sizeof *out) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(out, buffer, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Number NumberOf(cudaDataType_t type) {
  return type == CUDA_R_64F    ? Number::kDouble
         : type == CUDA_R_16F  ? Number::kHalf
         : type == CUDA_R_16BF ? Number::kBfloat16
                               : Number::kFloat;
}
int MantissaOf(cublasComputeType_t compute) {
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 || compute == CUBLAS_COMPUTE_32F_FAST_16F ? 10
         : compute == CUBLAS_COMPUTE_32F_FAST_16BF                                         ? 7
                                                                                           : 52;
}

bool Fits(const Product& p, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = p.turn_a == CUBLAS_OP_T, tb = p.turn_b == CUBLAS_OP_T;
  const uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns, k2 = tb ? b.columns : b.rows,
                 n = tb ? b.rows : b.columns;
  const auto steps = [](const Layout& of) { return of.step >= static_cast<int64_t>(of.rows); };
  return m == d.rows && n == d.columns && k == k2 && steps(a) && steps(b) && steps(d) && a.type == b.type &&
         (a.type == d.type || (d.type == CUDA_R_32F && a.type != CUDA_R_64F)) && a.batches == d.batches &&
         b.batches == d.batches && p.scale == (a.type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);
}

void Compute(const Product& p, const Layout& a, const void* a_data, const Layout& b, const void* b_data,
             const Layout& d, void* d_data) {
  const Number type = NumberOf(a.type), result = NumberOf(d.type);
  const int bits = MantissaOf(p.compute);
  const bool ta = p.turn_a == CUBLAS_OP_T, tb = p.turn_b == CUBLAS_OP_T;
  const auto depth = static_cast<int64_t>(ta ? a.rows : a.columns);
  for (int64_t batch = 0; batch < d.batches; ++batch) {
    for (int64_t column = 0; column < static_cast<int64_t>(d.columns); ++column) {
      for (int64_t row = 0; row < static_cast<int64_t>(d.rows); ++row) {
        double sum = 0;
        for (int64_t i = 0; i < depth; ++i) {
          const double left = Load(type, a_data, batch * a.batch + (ta ? row * a.step + i : i * a.step + row));
          const double right = Load(type, b_data, batch * b.batch + (tb ? i * b.step + column : column * b.step + i));
          sum += tenon::gpu::Rounded(left, bits) * tenon::gpu::Rounded(right, bits);
        }
        if ((p.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) sum += Load(result, p.bias, row);
        if ((p.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) sum = std::max(sum, 0.0);
        Store(result, d_data, batch * d.batch + column * d.step + row, sum);
      }
    }
  }
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "an error of the emulated cuBLASLt";
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t step) {
  return Put(layout, Layout{type, rows, columns, step, 0, 1});
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* buffer, size_t bytes) {
  auto value = Get<Layout>(layout);
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) status = Take(buffer, bytes, &value.batches);
  if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) status = Take(buffer, bytes, &value.batch);
  return status == CUBLAS_STATUS_SUCCESS ? Put(layout, value) : status;
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t product, size_t, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  return Put(product, Product{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name,
                                              const void* buffer, size_t bytes) {
  auto value = Get<Product>(product);
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (name == CUBLASLT_MATMUL_DESC_TRANSA) status = Take(buffer, bytes, &value.turn_a);
  if (name == CUBLASLT_MATMUL_DESC_TRANSB) status = Take(buffer, bytes, &value.turn_b);
  if (name == CUBLASLT_MATMUL_DESC_EPILOGUE) status = Take(buffer, bytes, &value.epilogue);
  if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER) status = Take(buffer, bytes, &value.bias);
  return status == CUBLAS_STATUS_SUCCESS ? Put(product, value) : status;
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t) {
  return Put(preference, Preference{0, 256});
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* buffer,
                                                    size_t bytes) {
  auto value = Get<Preference>(preference);
  uint32_t number = 0;
  cublasStatus_t status = name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? Take(buffer, bytes, &value.most_workspace)
                                                                           : Take(buffer, bytes, &number);
  if (name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) value.alignment = number;
  return status == CUBLAS_STATUS_SUCCESS ? Put(preference, value) : status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  *count = 0;
  const auto wanted = Get<Preference>(preference);
  if (!Fits(Get<Product>(product), Get<Layout>(a), Get<Layout>(b), Get<Layout>(d))) return CUBLAS_STATUS_INVALID_VALUE;
  if (wanted.most_workspace < kWorkspace) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto p = Get<Product>(product);
  const auto is_even = [](const Layout& of) {
    return static_cast<uint64_t>(of.step) * (of.type == CUDA_R_64F ? 8 : of.type == CUDA_R_32F ? 4 : 2) % 16 == 0;
  };
  const bool by_halves = p.compute == CUBLAS_COMPUTE_32F_FAST_16F || p.compute == CUBLAS_COMPUTE_32F_FAST_16BF;
  if (by_halves && !(is_even(Get<Layout>(a)) && is_even(Get<Layout>(b)) && is_even(Get<Layout>(d))))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT && !is_even(Get<Layout>(d))) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  results[0].algo.data[0] = wanted.alignment;
  results[0].workspaceSize = kWorkspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  const char* const wished = std::getenv("TENON_EMULATED_LIES");
  if (wished != nullptr && *wished == '1') results[0].workspaceSize = SIZE_MAX - 100;
  if (wished != nullptr && *wished == '2') *count = -1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const auto p = Get<Product>(product);
  const auto al = Get<Layout>(a_layout), bl = Get<Layout>(b_layout), dl = Get<Layout>(d_layout);
  const Number scale = NumberOf(p.scale);
  if (!Fits(p, al, bl, dl) || workspace_bytes < kWorkspace || tenon::gpu::Load(scale, alpha, 0) != 1 ||
      tenon::gpu::Load(scale, beta, 0) != 0 || ((p.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 && p.bias == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const void* address : {a, b, static_cast<const void*>(d)}) {
    if (reinterpret_cast<uintptr_t>(address) % algorithm->data[0] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  reinterpret_cast<tenon::gpu::EmulatedStream*>(stream)->Give([=] {
    std::memset(workspace, 0xA5, kWorkspace);  // what is not ours would show
    Compute(p, al, a, bl, b, dl, d);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
