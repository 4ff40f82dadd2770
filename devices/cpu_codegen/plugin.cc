// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.cpu_codegen: machine code for chains of element-wise nodes and their reductions on the device type "CPU".
#include "compiler.h"

namespace {
const tenon_capability kCapabilities[] = {TENON_PROVIDES(COMPILER, &tenon::cpu_codegen::kCompiler)};
}  // namespace

TENON_PLUGIN_WITH("tenon.cpu_codegen", "0.1.0", "Machine code for chains of element-wise nodes and reductions on the CPU.", kCapabilities, tenon::cpu_codegen::kOptions,
                  tenon::cpu_codegen::kOptionCount, tenon::cpu_codegen::OnLoad, tenon::cpu_codegen::OnUnload)
