// SPDX-License-Identifier: Apache-2.0
// The libraries of NVIDIA, as far as the toolkit that this was built with has their headers.
#include "library_pair.h"

#if __has_include(<cublasLt.h>)
#include "cublas_lt.h"
#else
namespace tenon::gpu {
using CublasLt = NoLibrary;
}
#endif
#if __has_include(<cudnn.h>)
#include "cudnn_library.h"
#else
namespace tenon::gpu {
using Cudnn = NoLibrary;
}
#endif

namespace tenon::gpu {

std::unique_ptr<Library> MakeLibrary(const Options& options) {
  if (options.libraries == "off") return nullptr;
  return std::make_unique<LibraryPair<CublasLt, Cudnn>>(options);
}

}  // namespace tenon::gpu
