// SPDX-License-Identifier: Apache-2.0
// What lives of a plugin, so that its unloading can be refused.
#ifndef TENON_CORE_BASE_LIVE_OBJECTS_H_
#define TENON_CORE_BASE_LIVE_OBJECTS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Something of a plugin lives while this does.
class LiveObject {
 public:
  explicit LiveObject(std::string plugin);
  ~LiveObject();
  LiveObject(const LiveObject&) = delete;
  LiveObject& operator=(const LiveObject&) = delete;

  const std::string& plugin() const { return plugin_; }

 private:
  std::string plugin_;
};

// Live kernels and executables of a plugin.
int64_t LiveKernels(std::string_view plugin);

}  // namespace tenon

#endif  // TENON_CORE_BASE_LIVE_OBJECTS_H_
