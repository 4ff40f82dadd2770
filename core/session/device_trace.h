// SPDX-License-Identifier: Apache-2.0
// DeviceTrace: what the devices' queues did in a step, from the drivers' own records, as rows of its trace.
#ifndef TENON_CORE_SESSION_DEVICE_TRACE_H_
#define TENON_CORE_SESSION_DEVICE_TRACE_H_

#include <cstdint>
#include <vector>

#include "core/trace/trace.h"
#include "tenon/ext/draft/profile.h"

namespace tenon::exec {
struct Device;
struct Environment;
}  // namespace tenon::exec

namespace tenon::session {

// A row for each queue by the host's clock, and, where the device has a clock of its own, one more by that, with the
// queue's waits and what they were for. Work of other steps that ran meanwhile is there too.
class DeviceTrace {
 public:
  // Before the step. trace nullptr: nothing is recorded.
  DeviceTrace(const exec::Environment& env, trace::Trace* trace);
  ~DeviceTrace();
  DeviceTrace(const DeviceTrace&) = delete;
  DeviceTrace& operator=(const DeviceTrace&) = delete;
  // After it.
  void Finish();

 private:
  struct Source {
    const exec::Device* device;
    const tenon_profile* profile;
    uint64_t next;  // the first span of the step
    bool watches;   // the device was asked to record
  };
  static void Read(const Source& source, trace::Trace* trace);
  static bool Watch(const Source& source, bool on);
  trace::Trace* trace_;
  std::vector<Source> sources_;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_DEVICE_TRACE_H_
