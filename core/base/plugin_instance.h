// SPDX-License-Identifier: Apache-2.0
// PluginInstance: a plugin as one runtime loaded it. Its functions get the self that its load() made, so that two
// runtimes with other options stay apart; and whoever calls them says so, so that it is not unloaded under them.
#ifndef TENON_CORE_BASE_PLUGIN_INSTANCE_H_
#define TENON_CORE_BASE_PLUGIN_INSTANCE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/plugin_call.h"
#include "tenon/abi.h"

namespace tenon {

// Thread-safe. Graphs and callables keep it longer than the plugin is loaded: then it refuses to call.
class PluginInstance {
 public:
  explicit PluginInstance(std::string id, tenon_plugin_self* self = nullptr) : id_(std::move(id)), self_(self) {}

  const std::string& id() const { return id_; }
  tenon_plugin_self* self() const { return self_.load(); }

  // No call begins any more. Those that run go on; calls() says how many they are.
  void Close() { is_open_.store(false); }
  // The plugin is loaded again, or was not unloaded after all.
  void Open(tenon_plugin_self* self) {
    self_.store(self);
    is_open_.store(true);
  }
  int64_t calls() const { return calls_.load(); }

  // The bits of must_understand that the plugin understands, by type of struct; before anything of it is called.
  void SetUnderstood(std::map<std::string, uint32_t, std::less<>> understood);
  // Who sets bits in a struct that the plugin is to get asks first: UNIMPLEMENTED names those that it does not
  // understand. type: "tenon_frame".
  Status CheckUnderstood(std::string_view type, uint32_t bits) const;

  // call(self) -> tenon_status* or void, as CallPlugin. FAILED_PRECONDITION once the plugin is unloaded.
  template <typename Function>
  Status Call(const char* function, const std::string* node, const std::string* op, Function call) {
    const Entered entered(this);
    if (!is_open_.load()) return Gone(function);
    return CallPlugin(id_, function, node, op, [&] { return call(self_.load()); });
  }

 private:
  struct Entered {
    explicit Entered(PluginInstance* entered) : instance(entered) { instance->calls_.fetch_add(1); }
    ~Entered() { instance->calls_.fetch_sub(1); }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    PluginInstance* const instance;
  };
  Status Gone(const char* function) const;

  const std::string id_;
  std::atomic<tenon_plugin_self*> self_;
  std::atomic<bool> is_open_{true};
  std::atomic<int64_t> calls_{0};
  mutable std::mutex mutex_;
  std::map<std::string, uint32_t, std::less<>> understood_;
};

}  // namespace tenon

#endif  // TENON_CORE_BASE_PLUGIN_INSTANCE_H_
