// SPDX-License-Identifier: Apache-2.0
// Ops that call a Python function of the process that wrote the graph: PyFunc, PyFuncStateless, EagerPyFunc. A graph
// has a number of the function alone, so that they cannot run anywhere else, in TensorFlow neither. They are known by
// name, and say why.
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct RefusedCall {
  explicit RefusedCall(CreateContext& c) {
    c.Fail(TENON_UNIMPLEMENTED, c.op(), " '", c.name(),
           "' calls a Python function of the process that wrote the graph, of which the graph has the number ",
           c.Has("token") ? Concat("'", c.String("token"), "' ") : std::string(),
           "alone: it can run in no other program. Make it of ops, or feed what it gives.");
  }
  void Run(RunContext) const {}
};

void AnyShapes(ShapeContext&) {}

constexpr Traits kRefusedCall = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kPyFuncKernel) = Registration<RefusedCall>("PyFunc", kRefusedCall);
TENON_KERNEL(kPyFuncStatelessKernel) = Registration<RefusedCall>("PyFuncStateless", kRefusedCall);
TENON_KERNEL(kEagerPyFuncKernel) = Registration<RefusedCall>("EagerPyFunc", kRefusedCall);

static constexpr std::string_view kPythonDoc =
    "A Python function of the process that wrote the graph: it runs nowhere else.";

TENON_OP(kPyFunc) = DefineOp({
    .name = "PyFunc",
    .inputs = "input: Tin",
    .outputs = "output: Tout",
    .attrs = "token: string; Tin: list(type); Tout: list(type)",
    .doc = kPythonDoc,
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<AnyShapes>,
});

TENON_OP(kPyFuncStateless) = DefineOp({
    .name = "PyFuncStateless",
    .inputs = "input: Tin",
    .outputs = "output: Tout",
    .attrs = "token: string; Tin: list(type); Tout: list(type)",
    .doc = kPythonDoc,
    .traits = TENON_OP_NO_FOLD,
    .shape = ShapeFunction<AnyShapes>,
});

TENON_OP(kEagerPyFunc) = DefineOp({
    .name = "EagerPyFunc",
    .inputs = "input: Tin",
    .outputs = "output: Tout",
    .attrs = "token: string; is_async: bool = false; Tin: list(type); Tout: list(type)",
    .doc = kPythonDoc,
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<AnyShapes>,
});

}  // namespace tenon::ops
