// SPDX-License-Identifier: Apache-2.0
// Failures of one node of a region, in its kernel's words.
#ifndef TENON_DEVICES_CPU_CODEGEN_REGION_FAILURE_H_
#define TENON_DEVICES_CPU_CODEGEN_REGION_FAILURE_H_

#include <string>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {

// name: "node 'x' (Op)".
[[noreturn]] inline void FailAs(const std::string& name, sdk::KernelError& error) {
  tenon_status* const status = error.release();
  const uint32_t code = tenon_plugin_host->status_code(status);
  const std::string text(sdk::ToText(tenon_plugin_host->status_message(status)));
  tenon_plugin_host->status_release(status);
  sdk::Fail(code, name, ": ", text);
}

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REGION_FAILURE_H_
