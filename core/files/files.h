// SPDX-License-Identifier: Apache-2.0
// Files for plugins and the application ("tenon.files/1"): a path with a scheme leads to the file system that a plugin
// brought (mounts.h), any other to the operating system's. Where not all files are granted (file_grants.h), each path
// is checked here, and the system's are opened below what was granted (granted_files.h).
#ifndef TENON_CORE_FILES_FILES_H_
#define TENON_CORE_FILES_FILES_H_

#include "tenon/ext/files.h"

namespace tenon::files {

// One table for the process. Any thread.
const tenon_files* Files();

}  // namespace tenon::files

#endif  // TENON_CORE_FILES_FILES_H_
