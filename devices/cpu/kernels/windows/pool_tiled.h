// SPDX-License-Identifier: Apache-2.0
// MaxPool and its gradient in float of small windows side by side, channels last: strides as large as windows, none
// cut, so that each cell is of one window at most.
//
// A register goes over channels, and where they are few beyond a pixel's: what it holds of the next pixel is stored
// before that pixel is, and so does no harm. What windows take, and where gradients go, is as tenon/extras/walk/pool.h
// says.
#ifndef TENON_DEVICES_CPU_KERNELS_WINDOWS_POOL_TILED_H_
#define TENON_DEVICES_CPU_KERNELS_WINDOWS_POOL_TILED_H_

#include "kernels/windows/window.h"
#include "tenon/extras/walk/pool.h"

namespace tenon::cpu {

bool TakesTiledPool(const sdk::PoolPlan& plan);

// Of those that it takes: out from in, and dx from in, out and dy.
void MaxPoolTiled(const sdk::PoolPlan& plan, sdk::RunContext c, const float* in, float* out);
void MaxPoolGradTiled(const sdk::PoolPlan& plan, sdk::RunContext c, const float* in, const float* out, const float* dy,
                      float* dx);

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_WINDOWS_POOL_TILED_H_
