// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.cpu_codegen: machine code for chains of element-wise nodes, their reductions, and loops of them on
// the device type "CPU".
#include "compiler.h"

namespace {
const tenon_capability kCapabilities[] = {TENON_PROVIDES(COMPILER, &tenon::cpu_codegen::kCompiler),
                                          TENON_PROVIDES(LOOP_COMPILER, &tenon::cpu_codegen::kLoopCompiler)};
}  // namespace

TENON_PLUGIN_WITH("tenon.cpu_codegen", "0.1.0",
                  "Machine code for chains of element-wise nodes, reductions and loops on the CPU.", kCapabilities,
                  tenon::cpu_codegen::kOptions, tenon::cpu_codegen::kOptionCount, tenon::cpu_codegen::OnLoad,
                  tenon::cpu_codegen::OnUnload)
