// SPDX-License-Identifier: Apache-2.0
#include "core/base/live_objects.h"

#include <map>
#include <mutex>

namespace tenon {
namespace {

struct LiveCounts {
  std::mutex mutex;
  std::map<std::string, int64_t, std::less<>> counts;
};
LiveCounts& Live() {
  static LiveCounts* const live = new LiveCounts;
  return *live;
}
void CountLive(const std::string& plugin, int64_t change) {
  std::lock_guard lock(Live().mutex);
  Live().counts[plugin] += change;
}

}  // namespace

LiveObject::LiveObject(std::string plugin) : plugin_(std::move(plugin)) { CountLive(plugin_, 1); }
LiveObject::~LiveObject() { CountLive(plugin_, -1); }

int64_t LiveKernels(std::string_view plugin) {
  std::lock_guard lock(Live().mutex);
  const auto it = Live().counts.find(plugin);
  return it == Live().counts.end() ? 0 : it->second;
}

}  // namespace tenon
