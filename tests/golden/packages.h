// SPDX-License-Identifier: Apache-2.0
// The op packages of the tree, opened as the loader would, and read through core's parser.
#ifndef TENON_TESTS_GOLDEN_PACKAGES_H_
#define TENON_TESTS_GOLDEN_PACKAGES_H_

#include <dlfcn.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/graph/op_registry.h"
#include "core/session/runtime.h"
#include "tenon/abi.h"

namespace tenon::golden {

using Json = nlohmann::json;

// One JSON value a line.
inline std::vector<Json> ReadLines(const std::string& name) {
  std::ifstream file(std::string(TENON_TEST_SOURCE_DIR) + "/tests/golden/" + name);
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

// Opens lib/tenon/plugins/<library>.so and gives its descriptor.
inline const tenon_plugin* OpenLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto query = reinterpret_cast<tenon_plugin_query_function>(dlsym(library, TENON_QUERY_SYMBOL));
  tenon_query_args args = {TENON_HEAD(tenon_query_args),
                           TENON_ABI_MAJOR,
                           TENON_ABI_MINOR,
                           TENON_LAYOUT_HASH,
                           {nullptr, 0},
                           TENON_REJECT_NONE,
                           0,
                           {nullptr, 0}};
  const tenon_plugin* plugin = query == nullptr ? nullptr : query(&args);
  if (plugin == nullptr) throw std::runtime_error(path + " is no plugin");
  return plugin;
}

// Of an op package.
inline const tenon_plugin* Open(const std::string& package) {
  return OpenLibrary(std::string(TENON_TEST_BUILD_DIR) + "/lib/tenon/plugins/tenon_ops_" + package + ".so");
}

inline const void* Capability(const tenon_plugin* plugin, std::string_view id) {
  for (uint64_t i = 0; i < plugin->capability_count; ++i) {
    const tenon_span& found = plugin->capabilities[i].id;
    if (std::string_view(found.data, found.size) == id) return plugin->capabilities[i].table;
  }
  return nullptr;
}

// A registry of all packages.
inline const graph::OpRegistry& Registry() {
  static const graph::OpRegistry* registry = [] {
    auto* all = new graph::OpRegistry;
    std::istringstream names(TENON_OPS_PACKAGES);
    for (std::string name; std::getline(names, name, ',');) {
      const tenon_plugin* plugin = Open(name);
      const auto* ops = static_cast<const tenon_op_package*>(Capability(plugin, TENON_CAPABILITY_OPS));
      if (ops == nullptr) throw std::runtime_error(name + " has no ops");
      std::map<std::string, std::string> refused;
      const Status status = all->Register(*ops, std::make_shared<PluginInstance>(name), &refused);
      if (!status.ok()) throw std::runtime_error(std::string(status.message()));
      if (!refused.empty()) throw std::runtime_error(refused.begin()->first + ": " + refused.begin()->second);
    }
    return all;
  }();
  return *registry;
}

// Shape functions are called after load() only.
inline void LoadAll() {
  static const bool loaded = [] {
    std::istringstream names(TENON_OPS_PACKAGES);
    for (std::string name; std::getline(names, name, ',');) {
      tenon_load_args args = {TENON_HEAD(tenon_load_args), session::HostTable(), nullptr, 0};
      tenon_plugin_self* self = nullptr;
      if (Open(name)->load(&args, &self) != nullptr) throw std::runtime_error(name + " was not loaded");
    }
    return true;
  }();
  (void)loaded;
}

}  // namespace tenon::golden

#endif  // TENON_TESTS_GOLDEN_PACKAGES_H_
