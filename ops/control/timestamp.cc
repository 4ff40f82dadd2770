// SPDX-License-Identifier: Apache-2.0
// Timestamp: what the clock says when the node runs.
#include <chrono>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct ReadClock {
  void Run(RunContext c) const {
    *c.output<double>(0) = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

TENON_KERNEL(kTimestampKernel) = Registration<ReadClock>("Timestamp", {.flags = 0});

TENON_OP(kTimestamp) = DefineOp({
    .name = "Timestamp",
    .outputs = "ts: double",
    .doc = "Seconds since 1970, to the microsecond or better.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
