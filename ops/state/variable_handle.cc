// SPDX-License-Identifier: Apache-2.0
// Handles of variables: they are made, asked and destroyed on the host, wherever the value lies.
//
// A handle's output is one cell, the host's resource. A reference output (VariableV2) is the same cell with a reference
// dtype.
#include <string>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/kernel/shape_kernels.h"

namespace tenon::ops {
using namespace sdk;

namespace {

template <bool kReference>
struct MakeHandle {
  explicit MakeHandle(CreateContext& c) {
    const std::string container(c.String("container"));
    std::string name(c.String("shared_name"));
    // A resource variable has no fallback in TensorFlow, where two handles without a name are one variable by accident;
    // its anonymous name makes a fresh one. Both take the node's name here.
    if (name.empty() || (!kReference && name == "cd2c89b7-88b7-44c8-ad83-06c2a9158347")) name = c.name();
    const tenon_create_args& args = c.args();
    const std::string type = std::string(TypeName(c.Type("dtype"))) +
                             " variable";  // one of another type under the same name is refused here
    c.Check(args.services->resource_handle(args.context, ToSpan(container), ToSpan(name), ToSpan(type), 0, &handle));
  }
  void Run(RunContext c) const { *c.output<tenon_resource*>(0) = handle; }
  tenon_resource* handle = nullptr;
};

struct IsInitialized {
  void Run(RunContext c) const {
    *c.output<bool>(0) = c.services().variable_is_initialized(c.frame(), c.resource(0)) != 0;
  }
};

struct Destroy {
  explicit Destroy(CreateContext& c) : ignore_missing(c.Bool("ignore_lookup_error")) {}
  void Run(RunContext c) const {
    tenon_status* status = c.services().resource_destroy(c.frame(), c.resource(0));
    if (status != nullptr && ignore_missing && tenon_plugin_host->status_code(status) == TENON_NOT_FOUND) {
      tenon_plugin_host->status_release(status);
      return;
    }
    Check(status);
  }
  bool ignore_missing;
};

tenon_tensor_view ValueOf(RunContext c) {
  tenon_tensor_view value = {};
  Check(c.services().variable_read(c.frame(), c.resource(0), &value));
  return value;
}

// Reads are shared anyway; a variable without a value is refused as one that is read. Where the value lies does not
// matter.
struct KeepsReads {
  void Run(RunContext c) const {
    if (c.services().variable_is_initialized(c.frame(), c.resource(0)) == 0) ValueOf(c);
  }
};

constexpr Traits kStateful = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL};

}  // namespace

TENON_KERNEL(kVarHandleOpKernel) = Registration<MakeHandle<false>>("VarHandleOp", kStateful);
TENON_KERNEL(kVariableKernel) = Registration<MakeHandle<true>>("Variable", kStateful);
TENON_KERNEL(kVariableV2Kernel) = Registration<MakeHandle<true>>("VariableV2", kStateful);
TENON_KERNEL(kIsVariableInitializedKernel) =
    Registration<IsInitialized>("IsVariableInitialized", {});
TENON_KERNEL(kVarIsInitializedOpKernel) =
    Registration<IsInitialized>("VarIsInitializedOp", {});
TENON_KERNEL(kVariableShapeKernel) =
    Registration<VariableShapeKernel>("VariableShape", {.dynamic_outputs = 1});
TENON_KERNEL(kDisableCopyOnReadKernel) = Registration<KeepsReads>("DisableCopyOnRead", {});
TENON_KERNEL(kDestroyResourceOpKernel) = Registration<Destroy>("DestroyResourceOp", {});

}  // namespace tenon::ops
