// SPDX-License-Identifier: Apache-2.0
// What masters and workers agree on: the methods, the version, and devices and traces as messages.
#ifndef TENON_NET_CLUSTER_PROTOCOL_H_
#define TENON_NET_CLUSTER_PROTOCOL_H_

#include <array>

#include "core/base/cancellation.h"
#include "core/trace/trace.h"
#include "net/cluster/network.h"
#include "net/cluster/packet.h"

namespace tenon::cluster {

inline constexpr uint32_t kProtocol = 5;  // equal on both sides
inline constexpr std::string_view kVersion = "0.1.0";
inline constexpr std::string_view kMethodHello = "hello", kMethodOpen = "open", kMethodPart = "part",
                                  kMethodRun = "run", kMethodPing = "ping", kMethodClose = "close",
                                  kMethodSettle = "settle", kMethodDrop = "drop", kMethodReset = "reset",
                                  kMethodGo = "go";
inline constexpr std::array kMethods = {kMethodHello, kMethodOpen,   kMethodPart, kMethodRun,   kMethodPing,
                                        kMethodClose, kMethodSettle, kMethodDrop, kMethodReset, kMethodGo};

void Describe(const exec::Device& device, DeviceInfo* out);
// A device of another process: it has a name and properties, and cannot be used here.
exec::Device DeviceFrom(const DeviceInfo& info);

void WriteSpan(const trace::Trace::Event& event, TraceSpan* span);

// Calls a worker with a head alone, and waits. reply: NULL when it says nothing but that it went well.
Status Ask(Connection& worker, std::string_view method, const google::protobuf::MessageLite& head, uint64_t deadline_ns,
           google::protobuf::MessageLite* reply = nullptr, Cancellation* cancellation = nullptr);

// Answers a call with a head alone.
void Answer(const Reply& reply, const google::protobuf::MessageLite& head);

// For incarnations and sessions: never 0.
uint64_t RandomNumber();

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_PROTOCOL_H_
