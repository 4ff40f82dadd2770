// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN (9), found by name when the first convolution is planned.
//
// One convolution is a graph of one operation of cuDNN's backend API. Its heuristics name engines, best first; the
// first is taken that can be built, whose bits are the same each time, and which keeps to the precision that was asked
// for: with strict float32 none that uses tensor cores (which round to TF32), and without ALLOW_FLOAT16 none that
// converts its inputs. Plans are kept: building one may compile. What no engine takes is said once, and computed by our
// kernels.
#ifndef TENON_DEVICES_CUDA_CUDNN_LIBRARY_H_
#define TENON_DEVICES_CUDA_CUDNN_LIBRARY_H_

#include <cudnn.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "library.h"
#include "named_library.h"

namespace tenon::gpu {

#define TENON_CUDNN_FUNCTIONS(X)                                                                                       \
  X(cudnnCreate)                                                                                                       \
  X(cudnnDestroy) X(cudnnSetStream) X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnBackendCreateDescriptor)          \
      X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) \
          X(cudnnBackendExecute)

class Cudnn {
 public:
  // The GPU is the calling thread's.
  explicit Cudnn(const Options& options);
  ~Cudnn();

  std::unique_ptr<LibraryWork> Take(const Convolution& convolution) const;
  std::string Describe() const { return about_; }

 private:
  class Descriptor;
  class Work;
  class KeptWork;
  struct Functions {
    TENON_CUDNN_FUNCTIONS(TENON_GPU_MEMBER)
  };
  Functions f_ = {};
  cudnnHandle_t handle_ = nullptr;  // NULL: none
  mutable std::mutex mutex_;        // guards the handle, which knows one stream at a time, and the plans
  mutable std::map<std::array<int64_t, 21>, std::shared_ptr<const Work>>
      plans_;  // by the problem's key; NULL: not taken
  std::string about_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_CUDA_CUDNN_LIBRARY_H_
