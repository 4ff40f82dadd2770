// SPDX-License-Identifier: Apache-2.0
// What convolution and pooling share on the CPU, beyond the windows' geometry (tenon/extras/walk/window.h).
#ifndef TENON_DEVICES_CPU_KERNELS_WINDOWS_WINDOW_H_
#define TENON_DEVICES_CPU_KERNELS_WINDOWS_WINDOW_H_

#include "kernels/common/types.h"
#include "tenon/extras/walk/window.h"

namespace tenon::cpu {

using sdk::Image;
using sdk::VolumeAttributes;
using sdk::WindowAttributes;
using sdk::WindowDim;

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_WINDOWS_WINDOW_H_
