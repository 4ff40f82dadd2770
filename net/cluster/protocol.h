// SPDX-License-Identifier: Apache-2.0
// What masters and workers agree on: the methods, the version, and devices as messages.
#ifndef TENON_NET_CLUSTER_PROTOCOL_H_
#define TENON_NET_CLUSTER_PROTOCOL_H_

#include "core/exec/device.h"
#include "net/cluster/cluster.pb.h"

namespace tenon::cluster {

inline constexpr uint32_t kProtocol = 1;  // equal on both sides
inline constexpr std::string_view kVersion = "0.1.0";
inline constexpr std::string_view kMethodHello = "hello", kMethodOpen = "open", kMethodPart = "part", kMethodRun = "run",
                                  kMethodPing = "ping", kMethodClose = "close";

void Describe(const exec::Device& device, DeviceInfo* out);
// A device of another process: it has a name and properties, and cannot be used here.
exec::Device DeviceFrom(const DeviceInfo& info);

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_PROTOCOL_H_
