// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.gpu_emulated: what devices/cuda and devices/rocm share, over a runtime in the host's memory. For
// tests.
#include "collective/communicators.h"
#include "driver.h"
#include "fuse/attention_pass.h"
#include "fuse/compiler.h"
#include "fuse/mixed_precision.h"

namespace tenon::gpu {

// Tests name theirs (emulation/nccl.cc) in the option collectives.
const CommunicatorNames kCommunicatorNames = {"", "build the target tenon_emulated_nccl"};

}  // namespace tenon::gpu

namespace {

const tenon_capability kCapabilities[] = {
    TENON_PROVIDES(DEVICE, &tenon::gpu::kDeviceDriver),
    TENON_PROVIDES(KERNELS, &tenon::gpu::kKernelPackage),
    TENON_PROVIDES(COMPILER, &tenon::gpu::kCompiler),
    TENON_PROVIDES(COLLECTIVE, &tenon::gpu::kCollective),
    TENON_PROVIDES(GRAPH_PASS, &tenon::gpu::kAttentionPass),
    TENON_PROVIDES(GRAPH_PASS, &tenon::gpu::kBfloat16Pass),  // after the other, whose nodes these keep together
    TENON_PROVIDES(GRAPH_PASS, &tenon::gpu::kFloat16Pass),
};

constexpr tenon_option_declaration kOptions[] = {
    TENON_GPU_OPTIONS("0"),
    TENON_GPU_OPTION("lose_after", "-1", TENON_OPTION_INT,
                     "the first device is lost after so many pieces of work; -1: never"),
    TENON_GPU_OPTION("refuse_allocation", "-1", TENON_OPTION_INT,
                     "the allocation of that number, counted from 0, finds no memory; -1: none"),
};

tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self** out_self) {
  return tenon::gpu::LoadPlugin(args, kOptions, std::size(kOptions), out_self);
}

}  // namespace

TENON_PLUGIN_WITH("tenon.gpu_emulated", "0.1.0",
                  "GPUs on the host's threads: the kernels and the engine of the GPU plugins, without a GPU.",
                  kCapabilities, kOptions, std::size(kOptions), OnLoad, tenon::gpu::UnloadPlugin)
