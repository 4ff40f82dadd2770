// SPDX-License-Identifier: Apache-2.0
#include "core/place/look_ahead.h"

#include <algorithm>
#include <limits>

namespace tenon::place {
namespace {

double TransferSeconds(const Problem& problem, const Value& value, DeviceId from, DeviceId to) {
  if (!from || from == to) return 0;
  const Link& link = problem.link(from, to);
  return value.repeats * (link.latency_seconds + (link.bytes_per_second > 0 ? value.bytes / link.bytes_per_second : 0));
}

}  // namespace

LookAhead::LookAhead(const Problem& problem)
    : devices_(problem.device_count()), rest_(problem.size() * devices_, 0) {
  for (size_t i = 0; i < problem.fetched.size(); ++i) PushFetch(problem, problem.fetched[i], problem.fetched_to[i]);
  for (Position p = problem.last(); p; --p)
    for (InputId input = problem.first_input[p]; input != problem.first_input[p.next()]; ++input)
      Push(problem, p, input);
}

void LookAhead::PushFetch(const Problem& problem, ValueId fetched, DeviceId to) {
  const Value& value = problem.values[fetched];
  if (!value.producer || !to) return;
  for (DeviceId device : problem.devices->ids()) {
    const DeviceId from = problem.LiesOn(fetched, device);
    if (problem.is_host(from) && problem.is_host(to)) continue;
    double& rest = rest_[Index(value.producer, device)];
    rest = std::max(rest, TransferSeconds(problem, value, from, to));
  }
}

void LookAhead::Push(const Problem& problem, Position reader, InputId input) {
  const ValueId read = problem.inputs[input];
  const Value& value = problem.values[read];
  const Position from = value.producer;
  if (!from) return;
  const GroupId group = problem.groups.group_of[reader];
  const bool together = problem.groups.group_of[from] == group;
  for (DeviceId device : problem.devices_of(problem.groups.group_of[from])) {
    double least = std::numeric_limits<double>::infinity();
    for (DeviceId there : problem.devices_of(group)) {
      if (together && there != device) continue;
      const double transfer =
          TransferSeconds(problem, value, problem.LiesOn(read, device), problem.WantedOn(input, there));
      least = std::min(least, After(reader, there) + problem.SecondsOf(reader, there) + transfer);
    }
    double& rest = rest_[Index(from, device)];
    rest = std::max(rest, least);
  }
}

}  // namespace tenon::place
