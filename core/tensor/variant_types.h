// SPDX-License-Identifier: Apache-2.0
// VariantTypes: the types of variants that may be written and made anew in another process, as plugins bring them
// (tenon/ext/draft/variant.h).
#ifndef TENON_CORE_TENSOR_VARIANT_TYPES_H_
#define TENON_CORE_TENSOR_VARIANT_TYPES_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/status.h"
#include "tenon/ext/draft/variant.h"

namespace tenon {
class PluginInstance;
}

namespace tenon::variant {

// One of them. Outlives its plugin, and is refused then.
class Type {
 public:
  Type(const tenon_variant_type* table, std::shared_ptr<PluginInstance> plugin)
      : table_(table), plugin_(std::move(plugin)) {}
  // Whether there is such a value, as tenon_variant_type.check says it; the error names the type.
  Status Check(const tenon_variant_info& info, std::span<const tenon_tensor_view> told) const;
  const PluginInstance* plugin() const { return plugin_.get(); }

 private:
  const tenon_variant_type* const table_;
  const std::shared_ptr<PluginInstance> plugin_;
};

// Thread-safe.
class Types {
 public:
  // What a plugin gave. INVALID_ARGUMENT says what is wrong with it; ALREADY_EXISTS: another plugin has one of the
  // types.
  Status Register(const tenon_variant_package* given, const std::shared_ptr<PluginInstance>& plugin);
  void Unregister(std::string_view plugin);
  // Is called once, when a type is asked for that is not here: it may register more. Before any is asked for.
  void SetOpener(std::function<void()> opener) { opener_ = std::move(opener); }

  // nullptr: no plugin has it, so that its values stay in their process.
  std::shared_ptr<const Type> Find(std::string_view name);
  // Whether the variants that an op makes are of such types.
  bool AreMadeBy(std::string_view op) const;

 private:
  std::shared_ptr<const Type> FindOpened(std::string_view name) const;

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Type>, std::less<>> types_;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> makers_;  // by plugin
  std::once_flag opened_;
  std::function<void()> opener_;
};

}  // namespace tenon::variant

#endif  // TENON_CORE_TENSOR_VARIANT_TYPES_H_
