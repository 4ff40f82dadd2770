// SPDX-License-Identifier: Apache-2.0
// CompilerEntry: a compiler that a plugin registered.
#ifndef TENON_CORE_EXEC_DEVICE_COMPILER_ENTRY_H_
#define TENON_CORE_EXEC_DEVICE_COMPILER_ENTRY_H_

#include <string>

#include "tenon/ext/draft/compile.h"

namespace tenon::exec {

// A compiler of a device type.
struct CompilerEntry {
  std::string plugin;
  const tenon_compiler* table = nullptr;
  tenon_plugin_self* self = nullptr;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_COMPILER_ENTRY_H_
