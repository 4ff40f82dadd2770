// SPDX-License-Identifier: Apache-2.0
// CompilerEntry, LoopCompilerEntry: compilers that plugins registered.
#ifndef TENON_CORE_EXEC_DEVICE_COMPILER_ENTRY_H_
#define TENON_CORE_EXEC_DEVICE_COMPILER_ENTRY_H_

#include <string>

#include "tenon/ext/draft/compile.h"

struct tenon_loop_compiler;  // ext/draft/compile_loop.h

namespace tenon::exec {

// A compiler of a device type.
struct CompilerEntry {
  std::string plugin;
  const tenon_compiler* table = nullptr;
  tenon_plugin_self* self = nullptr;
};
// One of loops.
struct LoopCompilerEntry {
  std::string plugin;
  const tenon_loop_compiler* table = nullptr;
  tenon_plugin_self* self = nullptr;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_COMPILER_ENTRY_H_
