// SPDX-License-Identifier: Apache-2.0
#include "core/place/schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tenon::place {
namespace {

double Occupies(const Value& value, const Link& link) {
  return link.bytes_per_second > 0 ? value.repeats * value.bytes / link.bytes_per_second : 0;
}

// Mean seconds of a transfer of nothing, and of a byte, between two devices.
struct MeanLink {
  double latency = 0, per_byte = 0;
};
MeanLink MeanOf(const Problem& problem) {
  MeanLink mean;
  const size_t count = problem.device_count();
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to) {
      const Link& link = problem.link(static_cast<int>(from), static_cast<int>(to));
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
  device_.assign(problem_.size(), -1);
  first_copy_.assign(problem_.values.size(), -1);
  first_holding_.assign(problem_.values.size(), -1);
  readers_left_.resize(problem_.values.size());
  for (size_t v = 0; v < readers_left_.size(); ++v) readers_left_[v] = problem_.values[v].readers;
  copies_.clear();
  holdings_.clear();
  end_ = 0;
  over_memory_ = false;
}

void Schedule::AddResident(int32_t group, int device) {
  double bytes = 0;
  for (int32_t member : problem_.groups.of(group)) bytes += problem_.resident_bytes[member];
  const size_t d = static_cast<size_t>(device);
  used_[d] += bytes;
  peak_[d] = std::max(peak_[d], used_[d]);
  over_memory_ = over_memory_ || (LimitOf(device) > 0 && used_[d] > LimitOf(device));
}

int Schedule::Home(const Value& value, int32_t index) const {
  if (value.producer < 0) return value.home;
  const int device = device_[value.producer];
  return device < 0 ? -1 : problem_.LiesOn(index, device);
}

double Schedule::ReadyAt(const Value& value) const { return value.producer < 0 ? 0 : finish_[value.producer]; }

const Schedule::Copy* Schedule::FindCopy(int32_t value, int device) const {
  for (int32_t i = first_copy_[value]; i >= 0; i = copies_[i].next)
    if (copies_[i].device == device) return &copies_[i];
  return nullptr;
}

double Schedule::FinishOn(size_t position, int device) {
  double start = problem_.by_engine[position] ? 0 : queue_free_[device];
  size_t slot = static_cast<size_t>(problem_.input_offsets[position]);
  bool copied_links = false;
  int32_t last = -1;
  for (int32_t v : problem_.inputs_of(position)) {
    const size_t this_slot = slot++;
    if (v == last) continue;
    last = v;
    const Value& value = problem_.values[v];
    const int from = Home(value, v), to = problem_.WantedOn(this_slot, device);
    double at = ReadyAt(value);
    if (from >= 0 && from != to) {
      if (const Copy* copy = FindCopy(v, to)) {
        at = copy->at;
      } else {
        if (!copied_links) scratch_link_ = link_free_;
        copied_links = true;
        const Link& link = problem_.link(from, to);
        double& free = scratch_link_[static_cast<size_t>(from) * devices_ + static_cast<size_t>(to)];
        free = std::max(at, free) + Occupies(value, link);
        at = free + value.repeats * link.latency_seconds;
      }
    }
    start = std::max(start, at);
  }
  return start + problem_.SecondsOf(position, device);
}

bool Schedule::Fits(size_t position, int device, double more) const {
  const double limit = LimitOf(device);
  if (limit <= 0) return true;
  double bytes = used_[device] + more;
  size_t slot = static_cast<size_t>(problem_.input_offsets[position]);
  for (int32_t v : problem_.inputs_of(position)) {
    const Value& value = problem_.values[v];
    const int from = Home(value, v), to = problem_.WantedOn(slot++, device);
    if (from >= 0 && from != to && to == device && FindCopy(v, to) == nullptr) bytes += value.bytes;
  }
  const size_t first = static_cast<size_t>(problem_.first_value[position]);
  for (size_t v = first; problem_.values[v].edge.index >= 0; ++v)
    if (problem_.values[v].storage == static_cast<int32_t>(v) && problem_.LiesOn(static_cast<int32_t>(v), device) == device)
      bytes += problem_.values[v].bytes;
  return bytes <= limit;
}

void Schedule::Hold(int32_t v, int device) {
  const Value& value = problem_.values[v];
  if (value.bytes == 0) return;
  const size_t d = static_cast<size_t>(device);
  used_[d] += value.bytes;
  peak_[d] = std::max(peak_[d], used_[d]);
  over_memory_ = over_memory_ || (LimitOf(device) > 0 && used_[d] > LimitOf(device));
  // What has no storage (a constant, a variable's value) keeps its copies for the step.
  if (value.storage < 0) return;
  int32_t& first = first_holding_[value.storage];
  holdings_.push_back({device, value.bytes, first});
  first = static_cast<int32_t>(holdings_.size()) - 1;
}

void Schedule::Drop(int32_t storage) {
  for (int32_t i = first_holding_[storage]; i >= 0; i = holdings_[i].next)
    used_[holdings_[i].device] -= holdings_[i].bytes;
  first_holding_[storage] = -1;
}

double Schedule::Bring(int32_t v, int from, int to) {
  const Value& value = problem_.values[v];
  const double ready = ReadyAt(value);
  if (from < 0 || from == to) return ready;
  if (const Copy* copy = FindCopy(v, to)) return copy->at;
  const Link& link = problem_.link(from, to);
  double& free = link_free_[static_cast<size_t>(from) * devices_ + static_cast<size_t>(to)];
  const double start = std::max(ready, free);
  free = start + Occupies(value, link);
  const double at = free + value.repeats * link.latency_seconds;
  copies_.push_back({to, at, first_copy_[v]});
  first_copy_[v] = static_cast<int32_t>(copies_.size()) - 1;
  Hold(v, to);
  if (record_ != nullptr) {
    ++record_->transfers;
    record_->transfer_bytes += value.repeats * value.bytes;
    if (problem_.request->explain || problem_.request->spans) record_->transfer_spans.push_back({value.edge, from, to, value.bytes, start, at});
  }
  return at;
}

double Schedule::Take(size_t position, int device) {
  double start = problem_.by_engine[position] ? 0 : queue_free_[device];
  size_t slot = static_cast<size_t>(problem_.input_offsets[position]);
  for (int32_t v : problem_.inputs_of(position))
    start = std::max(start, Bring(v, Home(problem_.values[v], v), problem_.WantedOn(slot++, device)));
  const double finish = start + problem_.SecondsOf(position, device);
  device_[position] = device;
  finish_[position] = finish;
  if (!problem_.by_engine[position]) queue_free_[device] = finish;
  end_ = std::max(end_, finish);
  const size_t first = static_cast<size_t>(problem_.first_value[position]);
  for (size_t v = first; problem_.values[v].edge.index >= 0; ++v)
    if (problem_.values[v].storage == static_cast<int32_t>(v)) Hold(static_cast<int32_t>(v), problem_.LiesOn(static_cast<int32_t>(v), device));
  for (int32_t v : problem_.inputs_of(position)) {
    const int32_t storage = problem_.values[v].storage;
    if (storage >= 0 && --readers_left_[storage] == 0) Drop(storage);
  }
  for (size_t v = first; problem_.values[v].edge.index >= 0; ++v)
    if (problem_.values[v].storage == static_cast<int32_t>(v) && readers_left_[v] == 0) Drop(static_cast<int32_t>(v));
  if (record_ != nullptr && (problem_.request->explain || problem_.request->spans))
    record_->node_spans.push_back({problem_.request->order[position], device, start, finish});
  return finish;
}

double Schedule::Finish() {
  for (size_t i = 0; i < problem_.fetched.size(); ++i) {
    const int32_t v = problem_.fetched[i];
    const int from = Home(problem_.values[v], v), to = problem_.fetched_to[i];
    const bool there = from < 0 || to < 0 || from == to || (problem_.is_host(from) && problem_.is_host(to));
    end_ = std::max(end_, there ? ReadyAt(problem_.values[v]) : Bring(v, from, to));
  }
  return end_;
}

double Simulate(const Problem& problem, const std::vector<int32_t>& sequence, const std::vector<int>& device_of_group, Schedule* schedule,
                double bound) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  schedule->Reset();
  for (size_t g = 0; g < problem.groups.size(); ++g) schedule->AddResident(static_cast<int32_t>(g), device_of_group[g]);
  for (int32_t position : sequence) {
    const int32_t group = problem.groups.group_of[position];
    const double finish = schedule->Take(static_cast<size_t>(position), device_of_group[group]);
    if (finish > bound || schedule->over_memory()) return kNever;
  }
  const double seconds = schedule->Finish();
  return seconds > bound || schedule->over_memory() ? kNever : seconds;
}

std::vector<int32_t> RankOrder(const Problem& problem) {
  const MeanLink mean = MeanOf(problem);
  std::vector<double> rank(problem.size(), 0);
  for (size_t p = problem.size(); p-- > 0;) {
    const std::vector<int>& devices = problem.sets.devices(problem.groups.sets[problem.groups.group_of[p]]);
    double seconds = 0;
    for (int device : devices) seconds += problem.SecondsOf(p, device);
    rank[p] += seconds / static_cast<double>(devices.size());
    for (int32_t v : problem.inputs_of(p)) {
      const Value& value = problem.values[v];
      if (value.producer < 0) continue;
      const size_t from = static_cast<size_t>(value.producer);
      const bool together = problem.groups.group_of[from] == problem.groups.group_of[p];
      const double transfer = together ? 0 : value.repeats * (mean.latency + value.bytes * mean.per_byte);
      rank[from] = std::max(rank[from], rank[p] + transfer);
    }
  }
  // A node's rank is at least its readers', so equal ranks in the order of the request keep it topological.
  std::vector<int32_t> sequence(problem.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&rank](int32_t a, int32_t b) { return rank[a] > rank[b]; });
  return sequence;
}

}  // namespace tenon::place
