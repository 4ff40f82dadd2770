// SPDX-License-Identifier: Apache-2.0
// The libraries of NVIDIA, as far as the toolkit that this was built with has their headers.
#include "library_pair.h"
#include "tracer.h"

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
#if __has_include(<cupti.h>)
#include "cupti_tracer.h"
#endif

namespace tenon::gpu {

std::unique_ptr<Library> MakeLibrary(const Options& options) {
  if (options.libraries == "off") return nullptr;
  return std::make_unique<LibraryPair<CublasLt, Cudnn>>(options);
}

std::unique_ptr<Tracer> MakeTracer(const Options& options) {
#if __has_include(<cupti.h>)
  if (options.libraries != "off") return std::make_unique<CuptiTracer>(options);
#endif
  (void)options;
  return nullptr;
}

}  // namespace tenon::gpu
