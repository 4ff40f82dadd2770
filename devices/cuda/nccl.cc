// SPDX-License-Identifier: Apache-2.0
// NCCL's name, and a look at its header where there is one.
#include "collective/communicators.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include "collective/communicators_check.h"
#endif

namespace tenon::gpu {

const CommunicatorNames kCommunicatorNames = {"libnccl.so.2", "install NCCL 2 and name its folder in LD_LIBRARY_PATH"};

}  // namespace tenon::gpu
