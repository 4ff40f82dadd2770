// SPDX-License-Identifier: Apache-2.0
// The operating system's files, as a table.
#ifndef TENON_CORE_SESSION_SYSTEM_FILES_H_
#define TENON_CORE_SESSION_SYSTEM_FILES_H_

#include "tenon/ext/files.h"

namespace tenon::session {

// Every path is the system's, whatever it looks like. Any thread.
const tenon_files* SystemFiles();

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_SYSTEM_FILES_H_
