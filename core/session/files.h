// SPDX-License-Identifier: Apache-2.0
// Files for plugins ("tenon.files/1"), over the operating system or over a table that a test or simulator puts in.
#ifndef TENON_CORE_SESSION_FILES_H_
#define TENON_CORE_SESSION_FILES_H_

#include "tenon/ext/files.h"

namespace tenon::session {

// What plugins get; calls go to the table that is set at that moment.
const tenon_files* Files();
// nullptr brings the operating system's back. Not while steps run.
void SetFiles(const tenon_files* files);

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_FILES_H_
