// SPDX-License-Identifier: Apache-2.0
// What a session is asked for, from the one list of options (tenon/session_options.h): app.h's structs say what each
// means.
#ifndef TENON_CORE_SESSION_SESSION_OPTIONS_H_
#define TENON_CORE_SESSION_SESSION_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "tenon/session_options.h"

namespace tenon {
class MemoryBudget;
}
namespace tenon::exec {
class ResourceManager;
struct Device;
}  // namespace tenon::exec

namespace tenon::session {

class Remote;

#define TENON_OPTION_SIZE(name, value) uint64_t name = value;
#define TENON_OPTION_NUMBER(name, value) uint64_t name = value;
#define TENON_OPTION_CHOICE(name, value) uint32_t name = value;
#define TENON_OPTION_SWITCH(name, value) bool name = value;
#define TENON_OPTION_TEXT(name, value) std::string name = value;
#define TENON_OPTION_FILE(name, value) std::string name = value;
#define TENON_OPTION_TIME(name, value) uint64_t name##_ns = value;
#define TENON_OPTION(name, kind, value, reach, flag, help, names) TENON_OPTION_##kind(name, value)

struct DebugOptions {
  TENON_DEBUG_OPTIONS(TENON_OPTION)
};

struct SessionOptions {
  TENON_SESSION_OPTIONS(TENON_OPTION)
  DebugOptions debug;

  // Not of the list: what only this process has.
  std::shared_ptr<Remote> remote;  // runs the steps; nullptr: this process does
  // What this session's pools in a device's memory share with other sessions', and are charged to; empty: nothing.
  std::function<std::shared_ptr<MemoryBudget>(const exec::Device& device)> budget;
  exec::ResourceManager* unnamed =
      nullptr;            // a worker's, with the unnamed container of sessions without `isolate`; nullptr: none
  bool one_task = false;  // of a cluster; what other tasks have is not this session's
};

#undef TENON_OPTION
#undef TENON_OPTION_SIZE
#undef TENON_OPTION_NUMBER
#undef TENON_OPTION_CHOICE
#undef TENON_OPTION_SWITCH
#undef TENON_OPTION_TEXT
#undef TENON_OPTION_FILE
#undef TENON_OPTION_TIME

inline constexpr uint32_t kDynamicExecutor = 1;  // of `executor`

// Choices are in range, and nothing is asked for that sessions of this kind (on a cluster: a master is named) cannot
// honour: else an error that names the option.
Status CheckOptions(const SessionOptions& options);

// An option on its way to a worker: those that hold there. Its number, or its text.
struct CarriedOption {
  std::string_view name;  // "compile", "debug.one_queue"
  uint64_t number = 0;
  std::string_view text;
};
// Those that are not what they are by default. Valid as long as the options.
std::vector<CarriedOption> Carried(const SessionOptions& options);
// UNIMPLEMENTED names an option that is unknown here, or that is not for workers.
Status SetCarried(const CarriedOption& option, SessionOptions* options);

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_SESSION_OPTIONS_H_
