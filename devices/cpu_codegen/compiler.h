// SPDX-License-Identifier: Apache-2.0
// The capabilities tenon.compiler/1 and tenon.loop_compiler/1 of this plugin, and its options.
#ifndef TENON_DEVICES_CPU_CODEGEN_COMPILER_H_
#define TENON_DEVICES_CPU_CODEGEN_COMPILER_H_

#include "tenon/ext/draft/compile.h"
#include "tenon/ext/draft/compile_loop.h"
#include "tenon/plugin.h"

namespace tenon::cpu_codegen {

extern const tenon_compiler kCompiler;
extern const tenon_loop_compiler kLoopCompiler;
extern const tenon_option_declaration kOptions[];
inline constexpr uint64_t kOptionCount = 3;
tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self** out_self);
void OnUnload(tenon_plugin_self* self);

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_COMPILER_H_
