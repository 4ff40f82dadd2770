// SPDX-License-Identifier: Apache-2.0
// What prepare() may ask for: the context behind it, and its services.
#ifndef TENON_CORE_EXEC_KERNEL_PREPARE_SERVICES_H_
#define TENON_CORE_EXEC_KERNEL_PREPARE_SERVICES_H_

#include <deque>
#include <string>
#include <vector>

#include "tenon/kernel.h"

namespace tenon::exec {
struct Environment;
struct SessionDevice;
}  // namespace tenon::exec

// Of one prepare(), on its thread.
struct tenon_prepare_context {
  tenon_prepare_context(const tenon::exec::Environment& env, const tenon::exec::SessionDevice* device,
                        const std::string& plugin)
      : env(env), device(device), plugin(plugin) {}
  ~tenon_prepare_context();
  tenon_prepare_context(const tenon_prepare_context&) = delete;
  tenon_prepare_context& operator=(const tenon_prepare_context&) = delete;

  const tenon::exec::Environment& env;
  const tenon::exec::SessionDevice* const device;  // that the kernel runs on; nullptr: none
  const std::string& plugin;
  std::deque<std::string> answers;  // that the plugin has spans of
  std::vector<tenon_buffer*> scratch;
};

namespace tenon::exec {

const tenon_prepare_services* PrepareServices();

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_PREPARE_SERVICES_H_
