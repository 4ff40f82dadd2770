// SPDX-License-Identifier: Apache-2.0
// Package collective: reductions, gathers and broadcasts among the devices of a group. One line for each op, one for each kernel.
#include "tenon/sdk/package.h"

TENON_OPS(
    kCollectiveBcastRecv,
    kCollectiveBcastRecvV2,
    kCollectiveBcastSend,
    kCollectiveBcastSendV2,
    kCollectiveGather,
    kCollectiveGatherV2,
    kCollectiveReduce,
    kCollectiveReduceV2,
    kNcclAllReduce)

TENON_KERNELS(
    kCollectiveBcastRecvKernel,
    kCollectiveBcastRecvV2Kernel,
    kCollectiveBcastSendKernel,
    kCollectiveBcastSendV2Kernel,
    kCollectiveGatherKernel,
    kCollectiveGatherV2Kernel,
    kCollectiveReduceKernel,
    kCollectiveReduceV2Kernel,
    kNcclAllReduceKernel)

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.collective", "0.1.0", "Reductions, gathers and broadcasts among the devices of a group.")
