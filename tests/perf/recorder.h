// SPDX-License-Identifier: Apache-2.0
// What recorder_plugin.cc offers besides kernels: the calls of one step, to be made again without the engine.
#ifndef TENON_TESTS_PERF_RECORDER_H_
#define TENON_TESTS_PERF_RECORDER_H_

#include "tenon/kernel.h"

// The capability; the engine passes over it.
#define TENON_PERF_RECORDER "tenon.perf.recorder/1"

struct tenon_perf_call {
  tenon_status* (*run)(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  tenon_kernel* kernel;
  const tenon_prepared* prepared;
  tenon_frame* frame;
  tenon_span op;
};

// One step at a time, on one thread. The memory that the calls use is the step's and the variables': the callable and
// its session must live, and must not run any more, while the calls are made again.
struct tenon_perf_recorder {
  void (*start)();
  // NULL, or why the calls cannot be made again.
  const char* (*stop)();
  const tenon_perf_call* (*calls)(uint64_t* out_count);
};

#endif  // TENON_TESTS_PERF_RECORDER_H_
