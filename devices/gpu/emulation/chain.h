// SPDX-License-Identifier: Apache-2.0
// All that the sources of chains include (fuse/source.cc, fuse/row_source.cc): precompiled for the emulation's
// compiler.
#ifndef TENON_DEVICES_GPU_EMULATION_CHAIN_H_
#define TENON_DEVICES_GPU_EMULATION_CHAIN_H_

#include "code/apply.h"
#include "code/fused.h"
#include "code/fused_pack.h"
#include "code/fused_row.h"

#endif  // TENON_DEVICES_GPU_EMULATION_CHAIN_H_
