// SPDX-License-Identifier: Apache-2.0
#include "core/place/schedule.h"

#include <algorithm>
#include <limits>

#include "core/place/look_ahead.h"

namespace tenon::place {
namespace {

double Occupies(const Value& value, const Link& link) {
  return value.repeats * (link.busy_seconds + (link.bytes_per_second > 0 ? value.bytes / link.bytes_per_second : 0));
}
// From when the link is free again to when the value is there.
double FollowsBy(const Value& value, const Link& link) {
  return value.repeats * (link.latency_seconds - link.busy_seconds);
}

// Mean seconds of a transfer of nothing, and of a byte, between two devices.
struct MeanLink {
  double latency = 0, per_byte = 0;
};
MeanLink MeanOf(const Problem& problem) {
  MeanLink mean;
  const size_t count = problem.device_count();
  for (DeviceId from : problem.devices->ids())
    for (DeviceId to : problem.devices->ids()) {
      const Link& link = problem.link(from, to);
      if (from == to) continue;
      mean.latency += link.latency_seconds;
      if (link.bytes_per_second > 0) mean.per_byte += 1 / link.bytes_per_second;
    }
  // Of two devices taken by chance; one in `count` pairs is one device.
  const double pairs = static_cast<double>(count * count);
  return {mean.latency / pairs, mean.per_byte / pairs};
}

}  // namespace

Schedule::Schedule(const Problem* problem) : problem_(*problem), devices_(problem->device_count()) { Reset(); }

void Schedule::Reset() {
  queue_free_.assign(devices_, 0);
  link_free_.assign(devices_ * devices_, 0);
  used_.assign(devices_, 0);
  peak_.assign(devices_, 0);
  finish_.assign(problem_.size(), 0);
  device_.assign(problem_.size(), {});
  first_copy_.assign(problem_.values.size(), {});
  first_holding_.assign(problem_.values.size(), {});
  readers_left_.resize(problem_.values.size());
  for (ValueId v : readers_left_.ids()) readers_left_[v] = problem_.values[v].readers;
  copies_.clear();
  holdings_.clear();
  end_ = 0;
  over_memory_ = false;
}

void Schedule::Use(DeviceId device, double bytes) {
  double& used = used_[device];
  used += bytes;
  peak_[device] = std::max(peak_[device], used);
  over_memory_ = over_memory_ || (LimitOf(device) > 0 && used > LimitOf(device));
}

void Schedule::AddResident(GroupId group, DeviceId device) {
  double bytes = 0;
  for (Position member : problem_.groups.of(group)) bytes += problem_.resident_bytes[member];
  Use(device, bytes);
}

DeviceId Schedule::Home(ValueId id) const {
  const Value& value = problem_.values[id];
  if (!value.producer) return value.home;
  const DeviceId device = device_[value.producer];
  return device ? problem_.LiesOn(id, device) : device;
}

double Schedule::ReadyAt(const Value& value) const { return value.producer ? finish_[value.producer] : 0; }

const Schedule::Copy* Schedule::FindCopy(ValueId value, DeviceId device) const {
  for (CopyId i = first_copy_[value]; i; i = copies_[i].next)
    if (copies_[i].device == device) return &copies_[i];
  return nullptr;
}

double Schedule::FinishOn(Position position, DeviceId device) {
  double start = problem_.by_engine[position] ? 0 : queue_free_[device];
  InputId next = problem_.first_input[position];
  bool copied_links = false;
  ValueId last;
  for (ValueId v : problem_.inputs_of(position)) {
    const InputId input = next;
    ++next;
    if (v == last) continue;
    last = v;
    const Value& value = problem_.values[v];
    const DeviceId from = Home(v), to = problem_.WantedOn(input, device);
    double at = ReadyAt(value);
    if (from && from != to) {
      if (const Copy* copy = FindCopy(v, to)) {
        at = copy->at;
      } else {
        if (!copied_links) scratch_link_ = link_free_;
        copied_links = true;
        const Link& link = problem_.link(from, to);
        double& free = scratch_link_[problem_.WayOf(from, to)];
        free = std::max(at, free) + Occupies(value, link);
        at = free + FollowsBy(value, link);
      }
    }
    start = std::max(start, at);
  }
  return start + problem_.SecondsOf(position, device);
}

bool Schedule::Fits(Position position, DeviceId device, double more) const {
  const double limit = LimitOf(device);
  if (limit <= 0) return true;
  double bytes = used_[device] + more;
  InputId input = problem_.first_input[position];
  for (ValueId v : problem_.inputs_of(position)) {
    const DeviceId from = Home(v), to = problem_.WantedOn(input, device);
    ++input;
    if (from && from != to && to == device && FindCopy(v, to) == nullptr) bytes += problem_.values[v].bytes;
  }
  for (ValueId v : problem_.outputs_of(position))
    if (problem_.values[v].storage == v && problem_.LiesOn(v, device) == device) bytes += problem_.values[v].bytes;
  return bytes <= limit;
}

void Schedule::Hold(ValueId v, DeviceId device) {
  const Value& value = problem_.values[v];
  if (value.bytes == 0) return;
  Use(device, value.bytes);
  // What has no storage (a constant, a variable's value) keeps its copies for the step.
  if (!value.storage) return;
  HoldingId& first = first_holding_[value.storage];
  first = holdings_.push_back({device, value.bytes, first});
}

void Schedule::Drop(ValueId storage) {
  for (HoldingId i = first_holding_[storage]; i; i = holdings_[i].next)
    used_[holdings_[i].device] -= holdings_[i].bytes;
  first_holding_[storage] = {};
}

double Schedule::Bring(ValueId v, DeviceId from, DeviceId to) {
  const Value& value = problem_.values[v];
  const double ready = ReadyAt(value);
  if (!from || from == to) return ready;
  if (const Copy* copy = FindCopy(v, to)) return copy->at;
  const Link& link = problem_.link(from, to);
  double& free = link_free_[problem_.WayOf(from, to)];
  const double start = std::max(ready, free);
  free = start + Occupies(value, link);
  const double at = free + FollowsBy(value, link);
  first_copy_[v] = copies_.push_back({to, at, first_copy_[v]});
  Hold(v, to);
  if (record_ != nullptr) {
    ++record_->transfers;
    record_->transfer_bytes += value.repeats * value.bytes;
    if (problem_.request->explain || problem_.request->spans)
      record_->transfer_spans.push_back({value.edge, from, to, value.bytes, start, at});
  }
  return at;
}

double Schedule::Take(Position position, DeviceId device) {
  double start = problem_.by_engine[position] ? 0 : queue_free_[device];
  InputId input = problem_.first_input[position];
  for (ValueId v : problem_.inputs_of(position)) {
    start = std::max(start, Bring(v, Home(v), problem_.WantedOn(input, device)));
    ++input;
  }
  const double finish = start + problem_.SecondsOf(position, device);
  device_[position] = device;
  finish_[position] = finish;
  if (!problem_.by_engine[position]) queue_free_[device] = finish;
  end_ = std::max(end_, finish);
  const IdRange<ValueId> outputs = problem_.outputs_of(position);
  for (ValueId v : outputs)
    if (problem_.values[v].storage == v) Hold(v, problem_.LiesOn(v, device));
  auto next = std::lower_bound(problem_.fetched.begin(), problem_.fetched.end(), problem_.first_value[position]);
  for (; next != problem_.fetched.end() && problem_.values[*next].producer == position; ++next)
    BringFetched(static_cast<size_t>(next - problem_.fetched.begin()));
  for (ValueId v : problem_.inputs_of(position)) {
    const ValueId storage = problem_.values[v].storage;
    if (storage && --readers_left_[storage] == 0) Drop(storage);
  }
  for (ValueId v : outputs)
    if (problem_.values[v].storage == v && readers_left_[v] == 0) Drop(v);
  if (record_ != nullptr && (problem_.request->explain || problem_.request->spans))
    record_->node_spans.push_back(
        {problem_.request->order[position], device, start, finish, problem_.IsKnown(position, device)});
  return finish;
}

void Schedule::BringFetched(size_t i) {
  const ValueId v = problem_.fetched[i];
  const DeviceId from = Home(v), to = problem_.fetched_to[i];
  const bool there = !from || !to || from == to || (problem_.is_host(from) && problem_.is_host(to));
  end_ = std::max(end_, there ? ReadyAt(problem_.values[v]) : Bring(v, from, to));
}

double Schedule::Finish() {
  for (size_t i = 0; i < problem_.fetched.size() && !problem_.values[problem_.fetched[i]].producer; ++i)
    BringFetched(i);
  return end_;
}

double Simulate(const Problem& problem, const Sequence& sequence, const GroupDevices& device_of_group,
                Schedule* schedule, double bound, const LookAhead* look_ahead) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const double beyond = bound * (1 + 1e-12);  // both add the same seconds, in another order
  schedule->Reset();
  for (GroupId group : problem.groups.ids()) schedule->AddResident(group, device_of_group[group]);
  for (Position position : sequence) {
    const DeviceId device = device_of_group[problem.groups.group_of[position]];
    const double finish = schedule->Take(position, device);
    if (finish > bound || schedule->over_memory()) return kNever;
    if (look_ahead != nullptr && finish + look_ahead->After(position, device) > beyond) return kNever;
  }
  const double seconds = schedule->Finish();
  return seconds > bound || schedule->over_memory() ? kNever : seconds;
}

Sequence RankOrder(const Problem& problem) {
  const MeanLink mean = MeanOf(problem);
  IdVector<Position, double> rank(problem.size(), 0);
  for (Position p = rank.last_id(); p; --p) {
    const std::vector<DeviceId>& devices = problem.devices_of(problem.groups.group_of[p]);
    double seconds = 0;
    for (DeviceId device : devices) seconds += problem.SecondsOf(p, device);
    rank[p] += seconds / static_cast<double>(devices.size());
    for (ValueId v : problem.inputs_of(p)) {
      const Value& value = problem.values[v];
      const Position from = value.producer;
      if (!from) continue;
      const bool together = problem.groups.group_of[from] == problem.groups.group_of[p];
      const double transfer = together ? 0 : value.repeats * (mean.latency + value.bytes * mean.per_byte);
      rank[from] = std::max(rank[from], rank[p] + transfer);
    }
  }
  // A node's rank is at least its readers', so equal ranks in the order of the request keep it topological.
  Sequence sequence(problem.positions().begin(), problem.positions().end());
  std::stable_sort(sequence.begin(), sequence.end(), [&rank](Position a, Position b) { return rank[a] > rank[b]; });
  return sequence;
}

}  // namespace tenon::place
