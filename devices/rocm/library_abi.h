// SPDX-License-Identifier: Apache-2.0
// What is used of hipBLAS's and MIOpen's C interfaces, for machines that have their libraries and not their headers
// (Debian has neither). Values and signatures are those of ROCm 6 and 7; hipBLAS before ROCm 6 had other types under
// the same names.
#ifndef TENON_DEVICES_ROCM_LIBRARY_ABI_H_
#define TENON_DEVICES_ROCM_LIBRARY_ABI_H_

#include <cstddef>
#include <cstdint>

namespace tenon::gpu::rocm {

using StreamHandle = void*;  // hipStream_t
using Status = int;          // hipblasStatus_t, miopenStatus_t; 0: success

// ---- hipBLAS ----
using BlasHandle = void*;
enum BlasOperation : int { kBlasPlain = 111, kBlasTurned = 112 };
enum BlasType : int { kBlasFloat = 0, kBlasDouble = 1, kBlasHalf = 2, kBlasBfloat16 = 14 };  // hipDataType
enum BlasCompute : int { kBlasCompute32F = 2, kBlasCompute64F = 7 };
inline constexpr int kBlasDefault = 160, kBlasAtomicsNotAllowed = 0;

using hipblasCreate = Status(BlasHandle*);
using hipblasDestroy = Status(BlasHandle);
using hipblasSetStream = Status(BlasHandle, StreamHandle);
using hipblasSetAtomicsMode = Status(BlasHandle, int mode);
// Column-major. In ROCm 6 hipblasGemmStridedBatchedEx_v2.
using hipblasGemmStridedBatchedEx = Status(BlasHandle, BlasOperation, BlasOperation, int m, int n, int k,
                                           const void* alpha, const void* a, BlasType, int lda, int64_t stride_a,
                                           const void* b, BlasType, int ldb, int64_t stride_b, const void* beta,
                                           void* c, BlasType, int ldc, int64_t stride_c, int batches, BlasCompute,
                                           int algorithm);

// ---- MIOpen ----
using OpenHandle = struct miopenHandle*;
using OpenTensor = struct miopenTensorDescriptor*;
using OpenWindow = struct miopenConvolutionDescriptor*;
enum OpenType : int { kOpenHalf = 0, kOpenFloat = 1, kOpenBfloat16 = 5, kOpenDouble = 6 };
inline constexpr int kOpenConvolution = 0, kOpenDeterministic = 1;
struct OpenSolution {
  float milliseconds;
  size_t workspace_bytes;
  uint64_t id;
  int algorithm;
};
static_assert(sizeof(OpenSolution) == 32);

using miopenCreate = Status(OpenHandle*);
using miopenDestroy = Status(OpenHandle);
using miopenSetStream = Status(OpenHandle, StreamHandle);
using miopenCreateTensorDescriptor = Status(OpenTensor*);
using miopenDestroyTensorDescriptor = Status(OpenTensor);
using miopenSetTensorDescriptor = Status(OpenTensor, OpenType, int rank, const int* dims, const int* strides);
using miopenCreateConvolutionDescriptor = Status(OpenWindow*);
using miopenDestroyConvolutionDescriptor = Status(OpenWindow);
using miopenInitConvolutionDescriptor = Status(OpenWindow, int mode, int pad_h, int pad_w, int stride_h, int stride_w,
                                               int dilation_h, int dilation_w);
using miopenSetConvolutionGroupCount = Status(OpenWindow, int groups);
using miopenSetConvolutionAttribute = Status(OpenWindow, int attribute, int value);
// Of the forward convolution (w, x, window, y), the gradient of the input (dy, w, window, dx) and of the filter (dy, x,
// window, dw).
using miopenGetSolution = Status(OpenHandle, OpenTensor, OpenTensor, OpenWindow, OpenTensor, size_t most, size_t* count,
                                 OpenSolution*);
using miopenCompileSolution = Status(OpenHandle, OpenTensor, OpenTensor, OpenWindow, OpenTensor, uint64_t id);
using miopenImmediate = Status(OpenHandle, OpenTensor, const void*, OpenTensor, const void*, OpenWindow, OpenTensor,
                               void*, void* workspace, size_t bytes, uint64_t id);

}  // namespace tenon::gpu::rocm

#endif  // TENON_DEVICES_ROCM_LIBRARY_ABI_H_
