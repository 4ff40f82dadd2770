// SPDX-License-Identifier: Apache-2.0
// What a set of nodes was made into.
#ifndef TENON_DEVICES_GPU_FUSE_EXECUTABLE_H_
#define TENON_DEVICES_GPU_FUSE_EXECUTABLE_H_

#include <memory>
#include <vector>

#include "tenon/ext/draft/compile.h"
#include "tenon/sdk/kernel.h"

struct tenon_executable {
  virtual ~tenon_executable() = default;
  // Gives its work to the frame's queue. Throws what sdk::CurrentFailure() understands.
  virtual void Run(const tenon_frame& frame) const = 0;

  uint64_t workspace_bytes = 0;
  std::vector<tenon_in_place> in_place;
};

namespace tenon::gpu {

inline const tenon_tensor_view& ViewOf(const tenon_compile_args& args, const tenon_output& output) {
  const tenon_tensor_view* view = nullptr;
  sdk::Check(args.edge(args.context, output, &view));
  return *view;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_EXECUTABLE_H_
