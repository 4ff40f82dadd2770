// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/protocol.h"

#include <random>

#include "core/exec/device/device.h"

namespace tenon::cluster {

void Describe(const exec::Device& device, DeviceInfo* out) {
  out->set_name(device.name);
  out->set_type(device.type);
  out->set_plugin(device.plugin);
  out->set_model(device.model);
  out->set_memory_kinds(device.memory_kinds);
  out->set_memory_bytes(device.memory_bytes);
  out->set_synchronous(device.synchronous);
  const tenon_device_properties& properties = device.properties;
  out->set_compute_queues(properties.compute_queues);
  out->set_flops(properties.flops);
  out->set_bytes_per_second(properties.bytes_per_second);
  out->set_launch_seconds(properties.launch_seconds);
  out->set_copy_seconds(properties.copy_seconds);
  out->set_link_bytes_per_second(properties.link_bytes_per_second);
  out->set_peer_bytes_per_second(properties.peer_bytes_per_second);
}

exec::Device DeviceFrom(const DeviceInfo& info) {
  exec::Device device;
  device.name = info.name();
  device.type = info.type();
  device.plugin = info.plugin();
  device.model = info.model();
  device.memory_kinds = info.memory_kinds();
  device.memory_bytes = info.memory_bytes();
  device.synchronous = info.synchronous();
  tenon_device_properties& properties = device.properties;
  properties.compute_queues = info.compute_queues();
  properties.flops = info.flops();
  properties.bytes_per_second = info.bytes_per_second();
  properties.launch_seconds = info.launch_seconds();
  properties.copy_seconds = info.copy_seconds();
  properties.link_bytes_per_second = info.link_bytes_per_second();
  properties.peer_bytes_per_second = info.peer_bytes_per_second();
  return device;
}

void WriteSpan(const trace::Trace::Event& event, TraceSpan* span) {
  span->set_group(std::string(event.group));
  span->set_line(std::string(event.line));
  span->set_name(std::string(event.name));
  span->set_category(std::string(event.category));
  span->set_detail(std::string(event.detail));
  span->set_begin_ns(event.begin_ns);
  span->set_end_ns(event.end_ns);
}

Status Ask(Connection& worker, std::string_view method, const google::protobuf::MessageLite& head, uint64_t deadline_ns,
           google::protobuf::MessageLite* reply, Cancellation* cancellation) {
  OutPacket packet;
  packet.Finish(head);
  return worker.CallAndWait(method, packet.pieces(), deadline_ns, [reply](tenon_span response) {
    return reply == nullptr ? Status::Ok() : InPacket::Parse(response, reply).status();
  }, cancellation);
}

void Answer(const Reply& reply, const google::protobuf::MessageLite& head) {
  OutPacket packet;
  packet.Finish(head);
  reply.Give(packet.pieces());
}

uint64_t RandomNumber() {
  std::random_device source;
  return ((uint64_t{source()} << 32) ^ source()) | 1;
}

}  // namespace tenon::cluster
