// SPDX-License-Identifier: Apache-2.0
#include "core/session/device_trace.h"

#include <algorithm>
#include <string>

#include "core/base/plugin_call.h"
#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"

namespace tenon::session {
namespace {

constexpr uint64_t kSpansAtOnce = 256;

// "/device:TPU:0" of a full name.
std::string ShortName(const exec::Device& device) {
  const size_t at = device.name.rfind("/device:");
  return at == std::string::npos ? device.name : device.name.substr(at);
}

uint64_t ToNanoseconds(uint64_t ticks, double ticks_per_second) {
  return static_cast<uint64_t>(static_cast<double>(ticks) / ticks_per_second * 1e9);
}

void AddSpan(const exec::Device& device, const tenon_profile_span& span, double ticks_per_second, trace::Trace* trace) {
  const std::string group = ShortName(device);
  const std::string line = device.queues != nullptr && span.queue < static_cast<uint64_t>(device.queues->size())
                               ? device.queues->NameOf(static_cast<int>(span.queue))
                               : StrCat("queue ", span.queue);
  std::string detail = span.detail;
  if (span.waited_for[0] != '\0') detail += StrCat(detail.empty() ? "" : "; ", "waited for ", span.waited_for);
  if (span.code != TENON_OK) detail += StrCat(detail.empty() ? "" : "; ", "failed, code ", span.code);
  trace->AddOn({group, line}, span.name, span.kind, span.begin_ns, span.end_ns, detail);
  if (ticks_per_second <= 0) return;
  const std::string clock = StrCat(group, ", its own clock");
  const uint64_t begin = ToNanoseconds(span.begin_tick, ticks_per_second);
  if (span.waited_for[0] != '\0' && span.waited_ticks > 0)
    trace->AddOn({clock, line}, StrCat("wait for ", span.waited_for), "wait",
                 ToNanoseconds(span.begin_tick - std::min(span.begin_tick, span.waited_ticks), ticks_per_second), begin,
                 "");
  trace->AddOn({clock, line}, span.name, span.kind, begin, ToNanoseconds(span.end_tick, ticks_per_second), span.detail);
}

}  // namespace

DeviceTrace::DeviceTrace(const exec::Environment& env, trace::Trace* trace) : trace_(trace) {
  if (trace == nullptr) return;
  for (const exec::SessionDevice& each : env.devices) {
    const auto* const profile =
        each.queued() ? exec::ExtensionOf<tenon_profile>(*each.device, TENON_EXTENSION_PROFILE) : nullptr;
    if (profile == nullptr) continue;
    Source source = {each.device, profile, 0, false};
    uint64_t count = 0;
    TellPlugin(each.device->plugin, "read",
               [&] { source.profile->read(each.device->handle, 0, nullptr, 0, &count, &source.next); });
    source.watches = Watch(source, true);
    sources_.push_back(source);
  }
}

DeviceTrace::~DeviceTrace() {
  for (const Source& source : sources_) {
    if (source.watches) Watch(source, false);
  }
}

// A device that cannot record (it is lost) says so where the step fails; a trace without it is no failure of its own.
bool DeviceTrace::Watch(const Source& source, bool on) {
  return source.profile->watch != nullptr && CallPlugin(source.device->plugin, "watch", [&] {
                                               return source.profile->watch(source.device->handle, on ? 1 : 0);
                                             }).ok();
}

void DeviceTrace::Finish() {
  for (const Source& source : sources_) Read(source, trace_);
}

void DeviceTrace::Read(const Source& source, trace::Trace* trace) {
  double clock = 0;
  TellPlugin(source.device->plugin, "ticks_per_second",
             [&] { clock = source.profile->ticks_per_second(source.device->handle); });
  std::vector<tenon_profile_span> spans(kSpansAtOnce);
  uint64_t next = source.next;
  for (uint64_t count = kSpansAtOnce; count == kSpansAtOnce;) {
    count = 0;
    TellPlugin(source.device->plugin, "read",
               [&] { source.profile->read(source.device->handle, next, spans.data(), spans.size(), &count, &next); });
    count = std::min<uint64_t>(count, spans.size());
    for (uint64_t i = 0; i < count; ++i) AddSpan(*source.device, spans[i], clock, trace);
  }
}

}  // namespace tenon::session
