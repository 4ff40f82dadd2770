// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes with sums, means and softmax along their rows between them, as one kernel
// (row_source.h).
#ifndef TENON_DEVICES_GPU_FUSE_ROWS_H_
#define TENON_DEVICES_GPU_FUSE_ROWS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device.h"
#include "fuse/executable.h"

namespace tenon::gpu {

// Whether an op may be one that looks at whole rows.
inline bool IsOpOfRows(std::string_view op) {
  return op == "Sum" || op == "Mean" || op == "Softmax" || op == "LogSoftmax";
}
// Why such a node is none of rows; "": it is. shape: of what it takes.
std::string WhyNotOfRows(const tenon_graph_cursor& cursor, int64_t id, const std::vector<int64_t>& shape);
// Whether `ones` is the shape of one value for each row of `rows`.
bool IsShapeOfOnes(const std::vector<int64_t>& ones, const std::vector<int64_t>& rows);

bool HasOpsOfRows(const tenon_compile_args& args);
std::unique_ptr<Executable> MakeRows(const tenon_compile_args& args, Device& device);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ROWS_H_
