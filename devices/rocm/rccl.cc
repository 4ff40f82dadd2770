// SPDX-License-Identifier: Apache-2.0
// RCCL's name, and a look at its header where there is one.
#include "collective/communicators.h"

#if __has_include(<rccl/rccl.h>)
#include <rccl/rccl.h>

#include "collective/communicators_check.h"
#endif

namespace tenon::gpu {

const CommunicatorNames kCommunicatorNames = {"librccl.so.1",
                                              "install RCCL of ROCm and name its folder in LD_LIBRARY_PATH"};

}  // namespace tenon::gpu
