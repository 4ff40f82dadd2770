// SPDX-License-Identifier: Apache-2.0
// Releases: buffers that the step makes are dropped right after their last reader.
#ifndef TENON_CORE_EXEC_LOWER_RELEASES_H_
#define TENON_CORE_EXEC_LOWER_RELEASES_H_

#include "core/exec/program/program_code.h"

namespace tenon::exec {

// After the last positions of slots are known. What lives to the end of the step, as fetches do, has no release.
void InsertReleases(ProgramCode* code);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_RELEASES_H_
