// SPDX-License-Identifier: Apache-2.0
#include "core/base/plugin_instance.h"

namespace tenon {

Status PluginInstance::Gone(const char* function) const {
  return FailedPrecondition(
      StrCat(DescribePlugin(id_), " was unloaded: its ", function, "() cannot be called; load it again"));
}

void PluginInstance::SetUnderstood(std::map<std::string, uint32_t, std::less<>> understood) {
  std::lock_guard lock(mutex_);
  understood_ = std::move(understood);
}

Status PluginInstance::CheckUnderstood(std::string_view type, uint32_t bits) const {
  std::lock_guard lock(mutex_);
  const auto found = understood_.find(type);
  const uint32_t unknown = bits & ~(found == understood_.end() ? 0 : found->second);
  if (unknown == 0) return Status::Ok();
  return Unimplemented(StrCat(DescribePlugin(id_), " does not understand the bits ", unknown, " of ", type,
                              ".must_understand; a newer version of it may"));
}

}  // namespace tenon
