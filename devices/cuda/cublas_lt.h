// SPDX-License-Identifier: Apache-2.0
// Products of matrices by cuBLASLt, found by name when the first product is planned.
//
// cuBLASLt's matrices are column-major, so that it is asked for the turned product, out^T = right^T left^T, whose
// operands lie in memory as ours do. Of its algorithms those are taken that give the same bits each time: no sum in
// place by several blocks. What it refuses it is asked for again, in the next more exact way that the policy allows,
// and without the bias and the rectifier; the log says each refusal once.
#ifndef TENON_DEVICES_CUDA_CUBLAS_LT_H_
#define TENON_DEVICES_CUDA_CUBLAS_LT_H_

#include <cublasLt.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "library.h"
#include "named_library.h"

namespace tenon::gpu {

#define TENON_CUBLAS_LT_FUNCTIONS(X)                                                                           \
  X(cublasLtCreate)                                                                                            \
  X(cublasLtDestroy) X(cublasLtGetVersion) X(cublasLtGetStatusString) X(cublasLtMatrixLayoutInit_internal)     \
      X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulDescInit_internal) X(cublasLtMatmulDescSetAttribute) \
          X(cublasLtMatmulPreferenceInit_internal) X(cublasLtMatmulPreferenceSetAttribute)                     \
              X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)

class CublasLt {
 public:
  // The GPU is the calling thread's.
  explicit CublasLt(const Options& options);
  ~CublasLt();

  std::unique_ptr<LibraryWork> Take(const MatrixProduct& product) const;
  std::string Describe() const { return about_; }

 private:
  class Work;
  void Say(const std::string& text, bool is_last) const;
  struct Functions {
    TENON_CUBLAS_LT_FUNCTIONS(TENON_GPU_MEMBER)
  };
  Functions f_ = {};
  cublasLtHandle_t handle_ = nullptr;  // NULL: none
  std::string about_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> said_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_CUDA_CUBLAS_LT_H_
