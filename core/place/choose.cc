// SPDX-License-Identifier: Apache-2.0
#include "core/place/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/tensor/allowance.h"

namespace tenon::place {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Nodes that may be simulated while searching; some tenths of a second.
constexpr int64_t kSearchVisits = 1500000;
constexpr size_t kFewGroups = 24;    // all pairs are moved
constexpr size_t kManyDevices = 16;  // from here on no look ahead: its cost grows with their square

// The least that the rest of the step takes after a node, if the node is on a device.
class LookAhead {
 public:
  explicit LookAhead(const Problem& problem) : devices_(problem.device_count()), rest_(problem.size() * devices_, 0) {
    for (size_t i = 0; i < problem.fetched.size(); ++i) PushFetch(problem, problem.values[problem.fetched[i]], problem.fetched_to[i]);
    for (size_t p = problem.size(); p-- > 0;)
      for (int32_t v : problem.inputs_of(p))
        if (const Value& value = problem.values[v]; value.producer >= 0) Push(problem, p, value);
  }
  double After(size_t position, int device) const { return rest_[position * devices_ + static_cast<size_t>(device)]; }

 private:
  static double TransferSeconds(const Problem& problem, const Value& value, int from, int to) {
    if (from == to) return 0;
    const Link& link = problem.link(from, to);
    return value.repeats * (link.latency_seconds + (link.bytes_per_second > 0 ? value.bytes / link.bytes_per_second : 0));
  }
  void PushFetch(const Problem& problem, const Value& value, int to) {
    if (value.producer < 0 || to < 0) return;
    for (size_t d = 0; d < devices_; ++d) {
      double& rest = rest_[static_cast<size_t>(value.producer) * devices_ + d];
      rest = std::max(rest, TransferSeconds(problem, value, static_cast<int>(d), to));
    }
  }
  void Push(const Problem& problem, size_t reader, const Value& value) {
    const size_t from = static_cast<size_t>(value.producer);
    const int32_t group = problem.groups.group_of[reader];
    const bool together = problem.groups.group_of[from] == group;
    for (int device : problem.sets.devices(problem.groups.sets[problem.groups.group_of[from]])) {
      double least = kNever;
      for (int there : problem.sets.devices(problem.groups.sets[group])) {
        if (together && there != device) continue;
        least = std::min(least, After(reader, there) + problem.SecondsOf(reader, there) + TransferSeconds(problem, value, device, there));
      }
      double& rest = rest_[from * devices_ + static_cast<size_t>(device)];
      rest = std::max(rest, least);
    }
  }
  size_t devices_;
  std::vector<double> rest_;
};

struct Policy {
  const LookAhead* look_ahead = nullptr;
  bool generators_wait = true;         // nodes without inputs go with their only reader
  bool most_memory = false;            // the device with most room, not the earliest finish
  std::vector<int> fixed = {};         // devices of groups that are placed before; -1: free
};

class Greedy {
 public:
  Greedy(const Problem& problem, const std::vector<int32_t>& sequence, Schedule* schedule, Policy policy)
      : problem_(problem), sequence_(sequence), schedule_(*schedule), policy_(std::move(policy)), device_(policy_.fixed) {
    device_.resize(problem.groups.size(), -1);
  }

  // Empty when a node fits nowhere; then `stuck` is its position.
  std::vector<int> Run(size_t* stuck) {
    schedule_.Reset();
    for (size_t g = 0; g < device_.size(); ++g)
      if (device_[g] >= 0) schedule_.AddResident(static_cast<int32_t>(g), device_[g]);
    for (int32_t position : sequence_) {
      if (CanWait(static_cast<size_t>(position))) continue;
      if (!Place(static_cast<size_t>(position), -1)) {
        *stuck = static_cast<size_t>(position);
        return {};
      }
    }
    for (int32_t position : sequence_)
      if (!schedule_.taken(static_cast<size_t>(position)) && !Place(static_cast<size_t>(position), -1)) {
        *stuck = static_cast<size_t>(position);
        return {};
      }
    return std::move(device_);
  }

 private:
  int32_t GroupOf(size_t position) const { return problem_.groups.group_of[position]; }
  const std::vector<int>& DevicesOf(size_t position) const {
    return problem_.sets.devices(problem_.groups.sets[GroupOf(position)]);
  }
  // Nodes without inputs and without time (constants) go where they are read first, and so may those with one reader.
  bool CanWait(size_t position) const {
    if (!problem_.inputs_of(position).empty() || device_[GroupOf(position)] >= 0) return false;
    const Value& value = problem_.values[problem_.first_value[position]];
    return problem_.by_engine[position] || (policy_.generators_wait && value.edge.index >= 0 && value.readers == 1);
  }

  // `near`: the device of the first reader, for what waited.
  bool Place(size_t position, int near) {
    if (schedule_.taken(position)) return true;
    int& device = device_[GroupOf(position)];
    if (device < 0) {
      const int best = Best(position, near);
      if (best < 0) return false;
      device = best;
      schedule_.AddResident(GroupOf(position), best);
    }
    const int here = device;
    for (int32_t v : problem_.inputs_of(position)) {
      const int32_t producer = problem_.values[v].producer;
      if (producer >= 0 && !schedule_.taken(static_cast<size_t>(producer)) && !Place(static_cast<size_t>(producer), here)) return false;
    }
    schedule_.Take(position, here);
    return true;
  }

  int Best(size_t position, int near) {
    double resident = 0;
    for (int32_t member : problem_.groups.of(GroupOf(position))) resident += problem_.resident_bytes[member];
    int best = -1;
    double least = kNever, most_near = 0;
    for (int device : DevicesOf(position)) {
      if (!schedule_.Fits(position, device, resident)) continue;
      const double score = device == near ? -1 : policy_.most_memory ? Fullness(device) : Score(position, device);
      const double bytes = BytesNear(position, device);
      const double slack = 1e-9 * std::abs(least);
      const bool ties = best >= 0 && score <= least + slack;
      if (best < 0 || score < least - slack || (ties && Prefers(device, bytes, best, most_near))) {
        best = device;
        least = score;
        most_near = bytes;
      }
    }
    return best;
  }
  bool Prefers(int device, double bytes, int other, double other_bytes) const {
    if (bytes != other_bytes) return bytes > other_bytes;
    const auto priority = [this](int d) { return (*problem_.devices)[d].priority; };
    return priority(device) > priority(other);
  }
  double BytesNear(size_t position, int device) const {
    double bytes = 0;
    for (int32_t v : problem_.inputs_of(position)) {
      const Value& value = problem_.values[v];
      const int at = value.producer < 0 ? value.home : schedule_.device(static_cast<size_t>(value.producer));
      if (at == device) bytes += value.bytes;
    }
    return bytes;
  }
  double Fullness(int device) const {
    const double limit = (*problem_.devices)[device].memory_bytes;
    return limit > 0 ? schedule_.used_bytes()[device] / limit : 0;
  }
  double Score(size_t position, int device) {
    double score = schedule_.FinishOn(position, device), after = 0;
    for (int32_t member : problem_.groups.of(GroupOf(position))) {
      if (static_cast<size_t>(member) != position) score += problem_.SecondsOf(static_cast<size_t>(member), device);
      if (policy_.look_ahead != nullptr) after = std::max(after, policy_.look_ahead->After(static_cast<size_t>(member), device));
    }
    return score + after;
  }

  const Problem& problem_;
  const std::vector<int32_t>& sequence_;
  Schedule& schedule_;
  Policy policy_;
  std::vector<int> device_;
};

class Search {
 public:
  Search(const Problem& problem, const std::vector<int32_t>& sequence, Schedule* schedule)
      : problem_(problem), sequence_(sequence), schedule_(schedule), left_(kSearchVisits) {
    for (size_t g = 0; g < problem.groups.size(); ++g)
      if (problem.sets.devices(problem.groups.sets[g]).size() > 1) movable_.push_back(g);
  }

  // Whether the work allowed suffices to move a good part of the groups once.
  bool worthwhile() const { return movable_.size() * problem_.size() < 4 * static_cast<size_t>(kSearchVisits); }
  void Improve(Assignment* best) {
    best_ = best;
    bool better = true;
    while (better && left_ > 0) {
      better = MoveOne();
      if (!better) better = movable_.size() <= kFewGroups ? MoveTwo() : MoveAlongEdges();
    }
  }

 private:
  const std::vector<int>& DevicesOf(size_t group) const { return problem_.sets.devices(problem_.groups.sets[group]); }

  bool Try() {
    if (!CheckAllowance().ok()) left_ = 0;
    if (left_ <= 0) return false;
    left_ -= static_cast<int64_t>(problem_.size());
    const double seconds = Simulate(problem_, sequence_, best_->device_of_group, schedule_, best_->seconds);
    if (!(seconds < best_->seconds * (1 - 1e-9))) return false;
    best_->seconds = seconds;
    return true;
  }
  // Tries a group on every other device; what is better stays.
  template <typename Then>
  bool Each(size_t group, const Then& then) {
    int& device = best_->device_of_group[group];
    const int before = device;
    for (int other : DevicesOf(group)) {
      if (other == before) continue;
      device = other;
      if (then()) return true;
    }
    device = before;
    return false;
  }
  bool MoveOne() {
    bool better = false;
    for (size_t group : movable_) better = Each(group, [this] { return Try(); }) || better;
    return better;
  }
  bool MoveTwo() {
    for (size_t i = 0; i < movable_.size(); ++i)
      for (size_t k = i + 1; k < movable_.size(); ++k)
        if (Each(movable_[i], [&] { return Each(movable_[k], [this] { return Try(); }); })) return true;
    return false;
  }
  // A producer and a reader, both to one device.
  bool MoveAlongEdges() {
    bool better = false;
    for (size_t p = 0; p < problem_.size() && left_ > 0; ++p)
      for (int32_t v : problem_.inputs_of(p)) {
        const int32_t from = problem_.values[v].producer;
        if (from >= 0) better = MoveTogether(problem_.groups.group_of[from], problem_.groups.group_of[p]) || better;
      }
    return better;
  }
  bool MoveTogether(int32_t a, int32_t b) {
    int &first = best_->device_of_group[a], &second = best_->device_of_group[b];
    if (a == b || first == second) return false;
    const int before_first = first, before_second = second;
    for (int device : DevicesOf(static_cast<size_t>(a))) {
      if (!problem_.sets.Contains(problem_.groups.sets[b], device)) continue;
      first = second = device;
      if (Try()) return true;
    }
    first = before_first;
    second = before_second;
    return false;
  }

  const Problem& problem_;
  const std::vector<int32_t>& sequence_;
  Schedule* schedule_;
  Assignment* best_ = nullptr;
  std::vector<size_t> movable_;
  int64_t left_;
};

class Chooser {
 public:
  Chooser(const Problem& problem, const std::vector<int32_t>& sequence) : problem_(problem), sequence_(sequence), schedule_(&problem) {}

  Result<Assignment> Run(double* greedy_seconds) {
    Propose();
    TENON_RETURN_IF_ERROR(CheckAllowance());
    if (found_.empty()) ProposeBySpace();
    if (found_.empty()) return DoesNotFit();
    std::stable_sort(found_.begin(), found_.end(), [](const Assignment& a, const Assignment& b) { return a.seconds < b.seconds; });
    if (greedy_seconds != nullptr) *greedy_seconds = found_[0].seconds;
    // Small graphs are searched from every proposal.
    if (problem_.groups.size() > kFewGroups) found_.resize(1);
    Search search(problem_, sequence_, &schedule_);
    if (search.worthwhile())
      for (Assignment& assignment : found_) search.Improve(&assignment);
    TENON_RETURN_IF_ERROR(CheckAllowance());
    return *std::min_element(found_.begin(), found_.end(), [](const Assignment& a, const Assignment& b) { return a.seconds < b.seconds; });
  }

 private:
  void Try(Policy policy) {
    if (!CheckAllowance().ok()) return;
    std::vector<int> devices = Greedy(problem_, sequence_, &schedule_, std::move(policy)).Run(&stuck_);
    if (devices.empty() && problem_.size() > 0) return;
    const double seconds = Simulate(problem_, sequence_, devices, &schedule_, kNever);
    if (seconds < kNever) found_.push_back({std::move(devices), seconds});
  }

  void Propose() {
    Try({});
    Try({.generators_wait = false});
    if (problem_.device_count() < kManyDevices) {
      const LookAhead look_ahead(problem_);
      Try({.look_ahead = &look_ahead});
      Try({.look_ahead = &look_ahead, .generators_wait = false});
    }
    // Equal devices give equal steps.
    std::vector<bool> seen(problem_.class_count);
    for (size_t d = 0; d < problem_.device_count(); ++d) {
      const size_t of_class = static_cast<size_t>(problem_.device_class[d]);
      if (!seen[of_class]) Try({.fixed = AllOn(static_cast<int>(d))});
      seen[of_class] = true;
    }
  }
  std::vector<int> AllOn(int device) const {
    std::vector<int> fixed(problem_.groups.size(), -1);
    for (size_t g = 0; g < fixed.size(); ++g)
      if (problem_.sets.Contains(problem_.groups.sets[g], device)) fixed[g] = device;
    return fixed;
  }

  // What stays for the whole step first, the largest first, each where most room is left in proportion.
  void ProposeBySpace() {
    std::vector<std::pair<double, size_t>> large;
    for (size_t g = 0; g < problem_.groups.size(); ++g) {
      double bytes = 0;
      for (int32_t member : problem_.groups.of(static_cast<int32_t>(g))) bytes += problem_.resident_bytes[member];
      if (bytes > 0) large.emplace_back(-bytes, g);
    }
    std::sort(large.begin(), large.end());
    std::vector<int> fixed(problem_.groups.size(), -1);
    std::vector<double> used(problem_.device_count(), 0);
    for (const auto& [bytes, group] : large) {
      int& device = fixed[group];
      for (int other : problem_.sets.devices(problem_.groups.sets[group]))
        if (device < 0 || Share(used, other, -bytes) < Share(used, device, -bytes)) device = other;
      used[device] -= bytes;
    }
    Try({.fixed = fixed});
    Try({.most_memory = true, .fixed = std::move(fixed)});
    Try({.most_memory = true});
  }
  double Share(const std::vector<double>& used, int device, double more) const {
    const double limit = (*problem_.devices)[device].memory_bytes;
    return limit > 0 ? (used[device] + more) / limit : 0;
  }

  Status DoesNotFit() {
    const graph::Node& node = problem_.node(stuck_);
    std::string text = StrCat("the step does not fit in the memory of its devices: ", node.Describe(), " found no room; ");
    for (size_t d = 0; d < problem_.device_count(); ++d) {
      const DeviceInfo& device = (*problem_.devices)[d];
      text += StrCat(d == 0 ? "" : ", ", device.name, " had ", static_cast<int64_t>(schedule_.used_bytes()[d]), " bytes in use");
      if (device.memory_bytes > 0) text += StrCat(" of ", static_cast<int64_t>(device.memory_bytes));
    }
    return ResourceExhausted(text + "; a smaller batch, another device or another placement may help");
  }

  const Problem& problem_;
  const std::vector<int32_t>& sequence_;
  Schedule schedule_;
  std::vector<Assignment> found_;
  size_t stuck_ = 0;
};

}  // namespace

Result<Assignment> Choose(const Problem& problem, const std::vector<int32_t>& sequence, double* greedy_seconds) {
  return Chooser(problem, sequence).Run(greedy_seconds);
}

}  // namespace tenon::place
