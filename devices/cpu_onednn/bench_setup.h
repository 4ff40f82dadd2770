// SPDX-License-Identifier: Apache-2.0
// For the benchmark: oneDNN at every size, so that it can be compared where it would refuse.
#ifndef TENON_DEVICES_CPU_ONEDNN_BENCH_SETUP_H_
#define TENON_DEVICES_CPU_ONEDNN_BENCH_SETUP_H_

#include "package.h"
#include "program.h"

[[maybe_unused]] static const bool kAlways = [] {
  tenon::cpu_onednn::use_always = true;
  return true;
}();

#endif  // TENON_DEVICES_CPU_ONEDNN_BENCH_SETUP_H_
