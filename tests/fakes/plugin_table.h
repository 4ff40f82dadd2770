// SPDX-License-Identifier: Apache-2.0
// A table that a test's plugin offers besides what the engine asks of it.
#ifndef TENON_TESTS_FAKES_PLUGIN_TABLE_H_
#define TENON_TESTS_FAKES_PLUGIN_TABLE_H_

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "tenon/plugin.h"

namespace tenon::fakes {

// Of the capability `id`, in the library that a runtime opened, not another copy of it. NULL when none has.
inline const void* PluginTable(const std::string& path, std::string_view id) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto query = reinterpret_cast<tenon_plugin_query_function>(dlsym(library, TENON_QUERY_SYMBOL));
  tenon_query_args args = {};
  args.struct_size = sizeof(args);
  args.host_abi_major = TENON_ABI_MAJOR;
  args.host_abi_minor = TENON_ABI_MINOR;
  args.host_layout_hash = TENON_LAYOUT_HASH;
  const tenon_plugin* const plugin = query == nullptr ? nullptr : query(&args);
  for (uint64_t i = 0; plugin != nullptr && i < plugin->capability_count; ++i)
    if (std::string_view(plugin->capabilities[i].id.data, plugin->capabilities[i].id.size) == id) return plugin->capabilities[i].table;
  return nullptr;
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_PLUGIN_TABLE_H_
