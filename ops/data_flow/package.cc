// SPDX-License-Identifier: Apache-2.0
// Package data_flow: queues and tensor arrays. One line for each op and each kernel, all of which run on the host.
#include "tenon/sdk/package.h"

TENON_OPS(
    kFIFOQueueV2,
    kPaddingFIFOQueueV2,
    kQueueCloseV2,
    kQueueDequeueManyV2,
    kQueueDequeueUpToV2,
    kQueueDequeueV2,
    kQueueEnqueueManyV2,
    kQueueEnqueueV2,
    kQueueIsClosedV2,
    kQueueSizeV2,
    kRandomShuffleQueueV2,
    kTensorArrayCloseV3,
    kTensorArrayConcatV3,
    kTensorArrayGatherV3,
    kTensorArrayGradV3,
    kTensorArrayReadV3,
    kTensorArrayScatterV3,
    kTensorArraySizeV3,
    kTensorArraySplitV3,
    kTensorArrayV3,
    kTensorArrayWriteV3)

TENON_KERNELS(
    kFIFOQueueV2Kernel,
    kPaddingFIFOQueueV2Kernel,
    kQueueCloseV2Kernel,
    kQueueDequeueManyV2Kernel,
    kQueueDequeueUpToV2Kernel,
    kQueueDequeueV2Kernel,
    kQueueEnqueueManyV2Kernel,
    kQueueEnqueueV2Kernel,
    kQueueIsClosedV2Kernel,
    kQueueSizeV2Kernel,
    kRandomShuffleQueueV2Kernel,
    kTensorArrayCloseV3Kernel,
    kTensorArrayConcatV3Kernel,
    kTensorArrayGatherV3Kernel,
    kTensorArrayGradV3Kernel,
    kTensorArrayReadV3Kernel,
    kTensorArrayScatterV3Kernel,
    kTensorArraySizeV3Kernel,
    kTensorArraySplitV3Kernel,
    kTensorArrayV3Kernel,
    kTensorArrayWriteV3Kernel)

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.data_flow", "0.1.0", "Queues and tensor arrays.")
