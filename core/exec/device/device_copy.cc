// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/device_copy.h"

#include "core/base/log.h"

namespace tenon::exec {
namespace {

// The pair as a plugin sees it.
struct ShownPair : tenon_device_pair {
  ShownPair(const Device* from, const Device* to)
      : tenon_device_pair{TENON_HEAD(tenon_device_pair),
                          from->handle,
                          to->handle,
                          Span(from->plugin),
                          Span(to->plugin),
                          &Extension},
        own{from, to} {}
  static const void* Extension(const tenon_device_pair* pair, tenon_device* device, tenon_span id) {
    for (const Device* each : static_cast<const ShownPair*>(pair)->own)
      if (each->handle == device && each->driver->get_extension != nullptr)
        return each->driver->get_extension(device, id);
    return nullptr;
  }
  const Device* own[2];
};

bool Reaches(const DeviceCopy& copy, const Device* source, const Device* target) {
  if (View(copy.table->source_type) != source->type || View(copy.table->target_type) != target->type) return false;
  const ShownPair pair(source, target);
  uint32_t reaches = 0;
  const Status status =
      CallPlugin(copy.plugin, "reaches", [&] { return copy.table->reaches(copy.self, &pair, &reaches); });
  if (status.ok()) return reaches != 0;
  Log(TENON_LOG_WARNING,
      StrCat("copies from ", source->name, " to ", target->name, " go through the host: ", status.message()));
  return false;
}

}  // namespace

std::vector<DevicePair> FindPairs(const std::vector<const Device*>& devices,
                                  const std::vector<std::shared_ptr<const DeviceCopy>>& copies) {
  std::vector<DevicePair> pairs;
  if (copies.empty()) return pairs;
  for (const Device* source : devices)
    for (const Device* target : devices) {
      if (source->queues == nullptr || target->queues == nullptr || source->driver == target->driver) continue;
      for (const auto& copy : copies)
        if (Reaches(*copy, source, target)) {
          pairs.push_back({source, target, copy});
          break;
        }
    }
  return pairs;
}

}  // namespace tenon::exec
