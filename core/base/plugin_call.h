// SPDX-License-Identifier: Apache-2.0
// PluginCall: every call into a plugin goes through here, or does what is done here itself. A thread leaves a trail: in
// whose function it is, so that a crash, a watchdog and an error can say it; and what a plugin throws becomes a status.
#ifndef TENON_CORE_BASE_PLUGIN_CALL_H_
#define TENON_CORE_BASE_PLUGIN_CALL_H_

#include <atomic>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/status.h"

namespace tenon {

// Where one thread is. Written by that thread with plain stores, read by handlers of its signals and by watchdogs. What
// the pointers lead to outlives the call.
struct PluginTrail {
  std::atomic<const std::string*> plugin{nullptr}, node{nullptr}, op{nullptr};
  std::atomic<const char*> function{nullptr};  // nullptr: in no call but a kernel's, if any
  std::atomic<const void*> frame{nullptr};     // of the kernel that runs: who its frame belongs to knows the names
};
// In the library's own part of the thread's memory, so that to find it costs no call.
extern constinit thread_local PluginTrail t_plugin_trail __attribute__((tls_model("initial-exec")));
inline PluginTrail& ThisThreadsTrail() { return t_plugin_trail; }

// What a trail says, of strings that live as long as what it leads to.
struct PluginPlace {
  std::string_view plugin, function, node, op;
};
// False: the thread is in no plugin. May be called in a handler of a signal.
bool ReadTrail(const PluginTrail& trail, PluginPlace* out_place);
// "run of node 'n' (Op)", "queue_copy".
std::string Describe(const PluginPlace& place);

// How the names of a trail's frame are found; false: it is none of a plugin's kernel. For a handler of a signal too.
using FrameNamer = bool (*)(const void* frame, PluginPlace* out_place);
void SetFrameNamer(FrameNamer namer);

// The version that a plugin has, for people; kept for ever. Any thread.
void NotePluginVersion(std::string_view plugin, std::string_view version);
// Empty: nobody said it. For a handler of a signal too.
std::string_view VersionOfPlugin(std::string_view plugin);
// "plugin 'tenon.cpu' 0.1.0".
std::string DescribePlugin(std::string_view plugin);

// That this thread is in a function of a plugin, from here to the end of the scope.
class PluginCall {
 public:
  PluginCall(const std::string& plugin, const char* function, const std::string* node = nullptr,
             const std::string* op = nullptr);
  ~PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

 private:
  const std::string *plugin_, *node_, *op_;  // what the trail said before
  const char* function_;
};

// That this thread is in a kernel's run.
class KernelCall {
 public:
  explicit KernelCall(const void* frame) : before_(ThisThreadsTrail().frame.load(std::memory_order_relaxed)) {
    ThisThreadsTrail().frame.store(frame, std::memory_order_release);
  }
  ~KernelCall() { ThisThreadsTrail().frame.store(before_, std::memory_order_relaxed); }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

 private:
  const void* const before_;
};

// What was thrown across the C ABI, as a status. In a catch block.
Status Thrown(std::string_view plugin, std::string_view function);

// Calls a plugin. A status comes back as it is; an exception as INTERNAL that names plugin and function.
template <typename Function>
Status CallPlugin(const std::string& plugin, const char* function, const std::string* node, const std::string* op,
                  Function call) {
  const PluginCall mark(plugin, function, node, op);
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return Status::Ok();
    } else {
      return Status(call());
    }
  } catch (...) {
    return Thrown(plugin, function);
  }
}
template <typename Function>
Status CallPlugin(const std::string& plugin, const char* function, Function call) {
  return CallPlugin(plugin, function, nullptr, nullptr, std::move(call));
}

void LogFailure(const Status& status);
// As CallPlugin, where nobody waits for an answer: what is thrown is logged.
template <typename... Arguments>
void TellPlugin(const Arguments&... arguments) {
  if (Status status = CallPlugin(arguments...); !status.ok()) LogFailure(status);
}

}  // namespace tenon

#endif  // TENON_CORE_BASE_PLUGIN_CALL_H_
