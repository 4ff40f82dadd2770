// SPDX-License-Identifier: Apache-2.0
// Timeline: a step's trace as text, a line for each row: the host, each queue of each device, by the host's clock and
// by the devices' own.
#ifndef TENON_CLI_TIMELINE_TEXT_TIMELINE_H_
#define TENON_CLI_TIMELINE_TEXT_TIMELINE_H_

#include <string>
#include <string_view>

#include "tenon/tenon.h"

namespace tenon::cli {

// trace: Chrome's JSON, as a run gives it. width: of the lines at most, where names keep their ends; 0: 100 characters
// for the time, names as they are. The time has 20 characters at least.
host::Result<std::string> FormatTimeline(std::string_view trace, size_t width);

}  // namespace tenon::cli

#endif  // TENON_CLI_TIMELINE_TEXT_TIMELINE_H_
