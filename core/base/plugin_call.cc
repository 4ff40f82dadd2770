// SPDX-License-Identifier: Apache-2.0
#include "core/base/plugin_call.h"

#include <cxxabi.h>

#include <exception>
#include <mutex>
#include <new>

#include "core/base/log.h"

namespace tenon {

constinit thread_local PluginTrail t_plugin_trail;

namespace {

std::atomic<FrameNamer> g_namer{nullptr};

// Versions by plugin: a list that only grows, so that a handler of a signal may walk it.
struct Version {
  const std::string plugin, version;
  const Version* const next;
};
std::atomic<const Version*> g_versions{nullptr};

}  // namespace

void SetFrameNamer(FrameNamer namer) { g_namer.store(namer); }

bool ReadTrail(const PluginTrail& trail, PluginPlace* out_place) {
  *out_place = {};
  if (const char* function = trail.function.load(std::memory_order_acquire)) {
    const auto read = [](const std::atomic<const std::string*>& from) {
      const std::string* text = from.load(std::memory_order_relaxed);
      return text == nullptr ? std::string_view() : std::string_view(*text);
    };
    *out_place = {read(trail.plugin), function, read(trail.node), read(trail.op)};
    return true;
  }
  const void* frame = trail.frame.load(std::memory_order_acquire);
  const FrameNamer namer = g_namer.load(std::memory_order_relaxed);
  return frame != nullptr && namer != nullptr && namer(frame, out_place);
}

std::string Describe(const PluginPlace& place) {
  std::string out(place.function);
  if (!place.node.empty()) out += StrCat(" of node '", place.node, "'");
  if (!place.op.empty()) out += StrCat(place.node.empty() ? " of op " : " (", place.op, place.node.empty() ? "" : ")");
  return out;
}

void NotePluginVersion(std::string_view plugin, std::string_view version) {
  static std::mutex* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  if (VersionOfPlugin(plugin) == version) return;
  g_versions.store(new Version{std::string(plugin), std::string(version), g_versions.load()});
}

std::string_view VersionOfPlugin(std::string_view plugin) {
  for (const Version* at = g_versions.load(); at != nullptr; at = at->next)
    if (at->plugin == plugin) return at->version;
  return {};
}

std::string DescribePlugin(std::string_view plugin) {
  const std::string_view version = VersionOfPlugin(plugin);
  return StrCat("plugin '", plugin, "'", version.empty() ? "" : " ", version);
}

PluginCall::PluginCall(const std::string& plugin, const char* function, const std::string* node,
                       const std::string* op) {
  PluginTrail& trail = ThisThreadsTrail();
  plugin_ = trail.plugin.load(std::memory_order_relaxed);
  node_ = trail.node.load(std::memory_order_relaxed);
  op_ = trail.op.load(std::memory_order_relaxed);
  function_ = trail.function.load(std::memory_order_relaxed);
  trail.plugin.store(&plugin, std::memory_order_relaxed);
  trail.node.store(node, std::memory_order_relaxed);
  trail.op.store(op, std::memory_order_relaxed);
  trail.function.store(function, std::memory_order_release);
}

PluginCall::~PluginCall() {
  PluginTrail& trail = ThisThreadsTrail();
  trail.function.store(function_, std::memory_order_relaxed);
  trail.plugin.store(plugin_, std::memory_order_relaxed);
  trail.node.store(node_, std::memory_order_relaxed);
  trail.op.store(op_, std::memory_order_relaxed);
}

namespace {

Status Threw(std::string_view plugin, std::string_view function, const char* what) {
  return Guarded([&] {
    return Internal(StrCat(DescribePlugin(plugin), ": its ", function, "() threw an exception (", what,
                           "); nothing may be thrown across the C ABI"));
  });
}

}  // namespace

Status Thrown(std::string_view plugin, std::string_view function) {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being ended; it must go on
  } catch (const std::exception& error) {
    return Threw(plugin, function, error.what());
  } catch (...) {
    return Threw(plugin, function, "something that is no std::exception");
  }
}

void LogFailure(const Status& status) { Log(TENON_LOG_ERROR, status.message()); }

}  // namespace tenon
