// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.cpu: the device type "CPU" and its kernels.
#include "device.h"

namespace {
const tenon_capability kCapabilities[] = {
    TENON_PROVIDES(DEVICE, &tenon::cpu::kDeviceDriver),
    TENON_PROVIDES(KERNELS, &tenon::cpu::kKernelPackage),
};
}  // namespace

TENON_PLUGIN_WITH("tenon.cpu", "0.1.0", "The CPU as a device, with kernels for the common ops.", kCapabilities,
                  tenon::cpu::kOptionDeclarations, tenon::cpu::kOptionCount, tenon::cpu::OnLoad, tenon::cpu::OnUnload)
