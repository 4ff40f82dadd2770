// SPDX-License-Identifier: Apache-2.0
// What a set of nodes was made into.
#ifndef TENON_DEVICES_GPU_FUSE_EXECUTABLE_H_
#define TENON_DEVICES_GPU_FUSE_EXECUTABLE_H_

#include "tenon/sdk/device/compiler.h"

namespace tenon::gpu {

struct Executable : sdk::Compiled {
  virtual ~Executable() = default;
  // Gives its work to the frame's queue. Throws what sdk::CurrentFailure() understands.
  virtual void Run(const tenon_frame& frame) const = 0;
};

inline const tenon_tensor_view& ViewOf(const tenon_compile_args& args, const tenon_output& output) {
  const tenon_tensor_view* view = nullptr;
  sdk::Check(args.edge(args.context, output, &view));
  return *view;
}

inline bool BoolAttr(const tenon_node_services& services, const tenon_node* node, tenon_span name) {
  tenon_attr_value value = {};
  sdk::Check(services.attr(node, name, &value));
  return value.kind == TENON_ATTR_BOOL && *static_cast<const uint8_t*>(value.data) != 0;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_EXECUTABLE_H_
