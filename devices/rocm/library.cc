// SPDX-License-Identifier: Apache-2.0
// The libraries of AMD.
#include "hipblas.h"
#include "library_pair.h"
#include "miopen.h"

namespace tenon::gpu {

std::unique_ptr<Library> MakeLibrary(const Options& options) {
  if (options.libraries == "off") return nullptr;
  return std::make_unique<LibraryPair<Hipblas, Miopen>>(options);
}

}  // namespace tenon::gpu
