// SPDX-License-Identifier: Apache-2.0
// A capability's table of a library that the runtime has opened already, not of another copy of it.
#ifndef TENON_TESTS_FAKES_PLUGIN_CAPABILITY_H_
#define TENON_TESTS_FAKES_PLUGIN_CAPABILITY_H_

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "tenon/plugin.h"

namespace tenon::fakes {

// The library's descriptor; NULL when it cannot be had. flags: RTLD_NOLOAD asks for one that is open.
inline const tenon_plugin* PluginOf(const std::string& path, int flags = RTLD_NOLOAD) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (library == nullptr) return nullptr;
  const auto query = reinterpret_cast<tenon_plugin_query_function>(dlsym(library, TENON_QUERY_SYMBOL));
  tenon_query_args args = {};
  args.struct_size = sizeof(args);
  args.host_abi_major = TENON_ABI_MAJOR;
  args.host_abi_minor = TENON_ABI_MINOR;
  args.host_layout_hash = TENON_LAYOUT_HASH;
  return query == nullptr ? nullptr : query(&args);
}

// NULL when the plugin has none of this id.
inline const void* CapabilityOf(const tenon_plugin* plugin, std::string_view id) {
  for (uint64_t i = 0; plugin != nullptr && i < plugin->capability_count; ++i)
    if (std::string_view(plugin->capabilities[i].id.data, plugin->capabilities[i].id.size) == id)
      return plugin->capabilities[i].table;
  return nullptr;
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_PLUGIN_CAPABILITY_H_
