// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.rocm: AMD GPUs as devices of type "GPU".
#include "api.h"
#include "driver.h"
#include "driver_card.h"
#include "fuse/attention_pass.h"
#include "fuse/compiler.h"
#include "fuse/mixed_precision.h"

namespace tenon::gpu {

const Vendor kVendor = {"tenon.rocm", "ROCm", [](const Options&) -> std::unique_ptr<Runtime> {
                          return std::make_unique<DriverRuntime<HipApi>>();
                        }};

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

constexpr tenon_option_declaration kOptions[] = {TENON_GPU_OPTIONS("-1")};

tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self** out_self) {
  return tenon::gpu::LoadPlugin(args, kOptions, std::size(kOptions), out_self);
}

}  // namespace

TENON_PLUGIN_WITH("tenon.rocm", "0.1.0", "AMD GPUs.", kCapabilities, kOptions, std::size(kOptions), OnLoad,
                  tenon::gpu::UnloadPlugin)
