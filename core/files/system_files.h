// SPDX-License-Identifier: Apache-2.0
// The operating system's files, as a table.
#ifndef TENON_CORE_FILES_SYSTEM_FILES_H_
#define TENON_CORE_FILES_SYSTEM_FILES_H_

#include <string_view>

#include "tenon/ext/files.h"

namespace tenon::files {

// Every path is the system's, whatever it looks like. Any thread.
const tenon_files* SystemFiles();
// For that table, of a descriptor that becomes its own. The path is for errors.
tenon_file* MakeSystemFile(int descriptor, std::string_view path);
// "cannot WHAT 'PATH': ..." of an errno.
tenon_status* SystemFileError(const char* what, std::string_view path, int error);

}  // namespace tenon::files

#endif  // TENON_CORE_FILES_SYSTEM_FILES_H_
