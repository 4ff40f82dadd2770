// SPDX-License-Identifier: Apache-2.0
// Products of matrices by hipBLAS (ROCm 6 and 7), found by name when the first product is planned.
//
// Its matrices are column-major: it is asked for the turned product, as cuBLASLt is (devices/cuda). Sums with atomics,
// whose bits vary, are switched off. It has no epilogue; products with one are left to our kernels. Float products are
// strict under every policy.
#ifndef TENON_DEVICES_ROCM_HIPBLAS_H_
#define TENON_DEVICES_ROCM_HIPBLAS_H_

#include <memory>
#include <mutex>
#include <string>

#include "library.h"
#include "library_abi.h"

namespace tenon::gpu {

class Hipblas {
 public:
  // The GPU is the calling thread's.
  explicit Hipblas(const Options& options);
  ~Hipblas();

  std::unique_ptr<LibraryWork> Take(const MatrixProduct& product) const;
  std::string Describe() const { return about_; }

 private:
  class Work;
  struct Functions {
    rocm::hipblasCreate* hipblasCreate;
    rocm::hipblasDestroy* hipblasDestroy;
    rocm::hipblasSetStream* hipblasSetStream;
    rocm::hipblasSetAtomicsMode* hipblasSetAtomicsMode;
    rocm::hipblasGemmStridedBatchedEx* gemm;
  };
  Functions f_ = {};
  rocm::BlasHandle handle_ = nullptr;  // NULL: none
  mutable std::mutex mutex_;           // guards the handle, which knows one stream at a time
  std::string about_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_ROCM_HIPBLAS_H_
