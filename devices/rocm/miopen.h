// SPDX-License-Identifier: Apache-2.0
// Convolutions by MIOpen (ROCm 5 to 7), found by name when the first convolution is planned.
//
// Its immediate mode names solutions, best first; the first is compiled when a node is planned. Only solutions whose
// bits are the same each time are asked for. It pads both sides of an image alike; convolutions that need more behind
// than before are left to our kernels.
#ifndef TENON_DEVICES_ROCM_MIOPEN_H_
#define TENON_DEVICES_ROCM_MIOPEN_H_

#include <memory>
#include <mutex>
#include <string>

#include "library.h"
#include "library_abi.h"

namespace tenon::gpu {

class Miopen {
 public:
  // The GPU is the calling thread's.
  explicit Miopen(const Options& options);
  ~Miopen();

  std::unique_ptr<LibraryWork> Take(const Convolution& convolution) const;
  std::string Describe() const { return about_; }

 private:
  class Work;
  // The three of each result, in the order of Convolution::Result.
  struct Calls {
    rocm::miopenGetSolution* get;
    rocm::miopenCompileSolution* compile;
    rocm::miopenImmediate* run;
  };
  struct Functions {
    rocm::miopenCreate* miopenCreate;
    rocm::miopenDestroy* miopenDestroy;
    rocm::miopenSetStream* miopenSetStream;
    rocm::miopenCreateTensorDescriptor* miopenCreateTensorDescriptor;
    rocm::miopenDestroyTensorDescriptor* miopenDestroyTensorDescriptor;
    rocm::miopenSetTensorDescriptor* miopenSetTensorDescriptor;
    rocm::miopenCreateConvolutionDescriptor* miopenCreateConvolutionDescriptor;
    rocm::miopenDestroyConvolutionDescriptor* miopenDestroyConvolutionDescriptor;
    rocm::miopenInitConvolutionDescriptor* miopenInitConvolutionDescriptor;
    rocm::miopenSetConvolutionGroupCount* miopenSetConvolutionGroupCount;
    rocm::miopenSetConvolutionAttribute* miopenSetConvolutionAttribute;
    Calls calls[3];
  };
  Functions f_ = {};
  rocm::OpenHandle handle_ = nullptr;  // NULL: none
  mutable std::mutex mutex_;           // guards the handle, which knows one stream at a time
  std::string about_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_ROCM_MIOPEN_H_
