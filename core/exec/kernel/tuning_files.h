// SPDX-License-Identifier: Apache-2.0
// The files of a folder for what kernels find out: how many there are, and which go when there are too many.
#ifndef TENON_CORE_EXEC_KERNEL_TUNING_FILES_H_
#define TENON_CORE_EXEC_KERNEL_TUNING_FILES_H_

#include <cstddef>
#include <string>

namespace tenon::exec {

// Where there are `most` files or more: removes those that were written longest ago, until a sixteenth of `most` is
// free, so that it is not looked for each time. Gives how many. Other processes may do the same meanwhile. What has
// another name than such files have stays, and does not count.
size_t DropOldest(const std::string& folder, size_t most);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_TUNING_FILES_H_
