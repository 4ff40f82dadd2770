// SPDX-License-Identifier: Apache-2.0
// Abort: the step fails. TensorFlow's op ends its process; a graph, which may be a stranger's, never ends the process
// that runs it here.
#include <string>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct AbortStep {
  explicit AbortStep(CreateContext& c) : message(c.String("error_msg")), without_error(c.Bool("exit_without_error")) {}
  void Run(RunContext) const {
    Fail(TENON_ABORTED, message.empty() ? std::string("the graph asked for its end") : message,
         without_error
             ? "; exit_without_error would have the process end well, which no graph may do: the step fails instead"
             : "");
  }
  std::string message;
  bool without_error;
};

}  // namespace

TENON_KERNEL(kAbortKernel) = Registration<AbortStep>("Abort", {.flags = TENON_KERNEL_STATEFUL});

static void AbortShape(ShapeContext&) {}

TENON_OP(kAbort) = DefineOp({
    .name = "Abort",
    .attrs = "error_msg: string = ''; exit_without_error: bool = false",
    .doc = "Fails the step with ABORTED and error_msg. It does not end the process, as TensorFlow's op does, since "
           "that belongs to who runs the graph and holds other "
           "sessions: also with exit_without_error the step fails, and the error says so.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AbortShape>,
});

}  // namespace tenon::ops
