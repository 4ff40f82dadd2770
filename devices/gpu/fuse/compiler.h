// SPDX-License-Identifier: Apache-2.0
// The compiler of GPU plugins: chains of element-wise nodes become one kernel, compiled at run time by the vendor's
// library; a product, its bias and its rectifier become one launch (product.h).
//
// It claims sets of nodes that have one shape, as far as the graph says; a set whose shapes differ when they are known,
// or one for which the vendor's compiler is missing, runs node by node. What was compiled is kept in memory for the
// device and in a folder on disk (option cache), by its source, so that neither another shape nor another process
// compiles it again.
#ifndef TENON_DEVICES_GPU_FUSE_COMPILER_H_
#define TENON_DEVICES_GPU_FUSE_COMPILER_H_

#include "tenon/ext/draft/compile.h"

namespace tenon::gpu {

extern const tenon_compiler kCompiler;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_COMPILER_H_
