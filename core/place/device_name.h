// SPDX-License-Identifier: Apache-2.0
// Device names, whole or partial, in all of TensorFlow's spellings.
//
//   /job:worker/replica:0/task:17/device:GPU:3   whole
//   /job:worker/task:17   /device:GPU   /device:GPU:*   /job:*   ""   "/"   partial: what is not said may be anything
//   /gpu:3   /cpu:*       short: a type right after the slash, written in upper case from then on
//   GPU:3   GPU           local: for people at a command line
// The long form keeps the type as it was written. Types match whatever their case is, because the white paper, old
// files and new files write them differently; jobs match exactly.
#ifndef TENON_CORE_PLACE_DEVICE_NAME_H_
#define TENON_CORE_PLACE_DEVICE_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tenon::place {

struct DeviceName {
  std::optional<std::string> job;
  std::optional<int32_t> replica;
  std::optional<int32_t> task;
  std::optional<std::string> type;
  std::optional<int32_t> id;

  // The error shows the name, the place and the spellings that there are.
  static Result<DeviceName> Parse(std::string_view text);
  // The long form; "" for a name that says nothing.
  std::string ToString() const;

  bool empty() const { return !job && !replica && !task && !type && !id; }
  bool complete() const { return job && replica && task && type && id; }
  // Whether everything that this name says is so in `other`.
  bool Matches(const DeviceName& other) const;
  // Takes from `other` what this name does not say.
  void Complete(const DeviceName& other);
  // Takes all that `other` says. A contradiction is INVALID_ARGUMENT naming both; with `soft`, contradicting types and
  // ids are forgotten instead. Jobs, replicas and tasks always must agree.
  Status Merge(const DeviceName& other, bool soft);

  bool operator==(const DeviceName&) const = default;
};

// The whole name of a task, "/job:worker/replica:0/task:1", of one that may leave the replica and the task (0) out.
Result<std::string> TaskName(std::string_view text);

// The task of a whole device name, "/job:worker/replica:0/task:1".
inline std::string_view TaskOf(std::string_view device) { return device.substr(0, device.rfind("/device:")); }

// Whether two device types are one, whatever their case.
bool SameType(std::string_view a, std::string_view b);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_DEVICE_NAME_H_
