// SPDX-License-Identifier: Apache-2.0
#include "core/place/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/place/look_ahead.h"
#include "core/tensor/allowance.h"

namespace tenon::place {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Nodes that may be simulated while searching; some tenths of a second.
constexpr int64_t kSearchVisits = 1500000;
constexpr double kTogetherVisits = 100000;  // of them, while so many groups are moved at once; some milliseconds
constexpr size_t kFewGroups = 24;    // all pairs are moved
constexpr size_t kManyDevices = 16;  // from here on no look ahead: its cost grows with their square

struct Policy {
  const LookAhead* look_ahead = nullptr;
  bool generators_wait = true;         // nodes without inputs go with their only reader
  bool most_memory = false;            // the device with most room, not the earliest finish
  GroupDevices fixed = {};             // of groups that are placed before; none: free
};

class Greedy {
 public:
  Greedy(const Problem& problem, const Sequence& sequence, Schedule* schedule, Policy policy)
      : problem_(problem),
        sequence_(sequence),
        schedule_(*schedule),
        policy_(std::move(policy)),
        device_(policy_.fixed) {
    device_.resize(problem.groups.size());
  }

  // Empty when a node fits nowhere; then `stuck` is its position.
  GroupDevices Run(Position* stuck) {
    schedule_.Reset();
    for (GroupId group : device_.ids())
      if (device_[group]) schedule_.AddResident(group, device_[group]);
    for (Position position : sequence_) {
      if (CanWait(position)) continue;
      if (!Place(position, {})) {
        *stuck = position;
        return {};
      }
    }
    for (Position position : sequence_)
      if (!schedule_.taken(position) && !Place(position, {})) {
        *stuck = position;
        return {};
      }
    return std::move(device_);
  }

 private:
  GroupId GroupOf(Position position) const { return problem_.groups.group_of[position]; }
  // Nodes without inputs and without time (constants) go where they are read first, and so may those with one reader.
  bool CanWait(Position position) const {
    if (!problem_.inputs_of(position).empty() || device_[GroupOf(position)]) return false;
    const Value& value = problem_.values[problem_.first_value[position]];
    return problem_.by_engine[position] || (policy_.generators_wait && value.edge.index >= 0 && value.readers == 1);
  }

  // `near`: the device of the first reader, for what waited.
  bool Place(Position position, DeviceId near) {
    if (schedule_.taken(position)) return true;
    DeviceId& device = device_[GroupOf(position)];
    if (!device) {
      const DeviceId best = Best(position, near);
      if (!best) return false;
      device = best;
      schedule_.AddResident(GroupOf(position), best);
    }
    const DeviceId here = device;
    for (ValueId v : problem_.inputs_of(position)) {
      const Position producer = problem_.values[v].producer;
      if (producer && !schedule_.taken(producer) && !Place(producer, here)) return false;
    }
    schedule_.Take(position, here);
    return true;
  }

  DeviceId Best(Position position, DeviceId near) {
    double resident = 0;
    for (Position member : problem_.groups.of(GroupOf(position))) resident += problem_.resident_bytes[member];
    DeviceId best;
    double least = kNever, most_near = 0;
    for (DeviceId device : problem_.devices_of(GroupOf(position))) {
      if (!schedule_.Fits(position, device, resident)) continue;
      const double score = device == near ? -1 : policy_.most_memory ? Fullness(device) : Score(position, device);
      const double bytes = BytesNear(position, device);
      const double slack = 1e-9 * std::abs(least);
      const bool ties = best && score <= least + slack;
      if (!best || score < least - slack || (ties && Prefers(device, bytes, best, most_near))) {
        best = device;
        least = score;
        most_near = bytes;
      }
    }
    return best;
  }
  bool Prefers(DeviceId device, double bytes, DeviceId other, double other_bytes) const {
    if (bytes != other_bytes) return bytes > other_bytes;
    const auto priority = [this](DeviceId d) { return (*problem_.devices)[d].priority; };
    return priority(device) > priority(other);
  }
  double BytesNear(Position position, DeviceId device) const {
    double bytes = 0;
    for (ValueId v : problem_.inputs_of(position)) {
      const Value& value = problem_.values[v];
      const DeviceId at = value.producer ? schedule_.device(value.producer) : value.home;
      if (at == device) bytes += value.bytes;
    }
    return bytes;
  }
  double Fullness(DeviceId device) const {
    const double limit = (*problem_.devices)[device].memory_bytes;
    return limit > 0 ? schedule_.used_bytes()[device] / limit : 0;
  }
  double Score(Position position, DeviceId device) {
    double score = schedule_.FinishOn(position, device), after = 0;
    for (Position member : problem_.groups.of(GroupOf(position))) {
      if (member != position) score += problem_.SecondsOf(member, device);
      if (policy_.look_ahead != nullptr) after = std::max(after, policy_.look_ahead->After(member, device));
    }
    return score + after;
  }

  const Problem& problem_;
  const Sequence& sequence_;
  Schedule& schedule_;
  Policy policy_;
  GroupDevices device_;
};

class Search {
 public:
  // look_ahead: may be null.
  Search(const Problem& problem, const Sequence& sequence, const LookAhead* look_ahead, Schedule* schedule)
      : problem_(problem),
        sequence_(sequence),
        look_ahead_(look_ahead),
        schedule_(schedule),
        left_(kSearchVisits) {
    for (GroupId group : problem.groups.ids())
      if (problem.devices_of(group).size() > 1) movable_.push_back(group);
  }

  // Whether the work allowed suffices to move a good part of the groups once.
  bool worthwhile() const { return movable_.size() * problem_.size() < 4 * size_t{kSearchVisits}; }
  void Improve(Assignment* best) {
    best_ = best;
    bool better = true;
    while (better && left_ > 0) {
      better = MoveOne();
      if (!better && movable_.size() > kFewGroups) better = MoveAlongEdges();
      for (size_t count = 2; !better && count <= AtOnce(); ++count) better = MoveTogether(count);
    }
  }

 private:
  bool Try() {
    if (!CheckAllowance().ok()) left_ = 0;
    if (left_ <= 0) return false;
    left_ -= static_cast<int64_t>(problem_.size());
    const double seconds =
        Simulate(problem_, sequence_, best_->device_of_group, schedule_, best_->seconds, look_ahead_);
    if (!(seconds < best_->seconds * (1 - 1e-9))) return false;
    best_->seconds = seconds;
    return true;
  }
  // Tries a group on every other device; what is better stays.
  template <typename Then>
  bool Each(GroupId group, const Then& then) {
    DeviceId& device = best_->device_of_group[group];
    const DeviceId before = device;
    for (DeviceId other : problem_.devices_of(group)) {
      if (other == before) continue;
      device = other;
      if (then()) return true;
    }
    device = before;
    return false;
  }
  // How many groups are moved at once: of few groups two, and three and four where that is little work.
  size_t AtOnce() const {
    if (movable_.size() > kFewGroups) return 1;
    const auto groups = static_cast<double>(movable_.size()), others = static_cast<double>(problem_.device_count()) - 1;
    double visits = static_cast<double>(problem_.size()) * groups * others * (groups - 1) / 2 * others;
    size_t count = 2;
    for (; count < 4; ++count) {
      const auto chosen = static_cast<double>(count);
      visits *= (groups - chosen) / (chosen + 1) * others;
      if (visits > kTogetherVisits) break;
    }
    return count;
  }
  bool MoveOne() {
    bool better = false;
    for (GroupId group : movable_) better = Each(group, [this] { return Try(); }) || better;
    return better;
  }
  // Tries so many groups, of those from this one on, each on every other device.
  bool MoveTogether(size_t count, size_t from = 0) {
    if (count == 0) return Try();
    for (size_t i = from; i + count <= movable_.size(); ++i)
      if (Each(movable_[i], [&] { return MoveTogether(count - 1, i + 1); })) return true;
    return false;
  }
  // A producer and a reader, both to one device.
  bool MoveAlongEdges() {
    bool better = false;
    for (Position p : problem_.positions()) {
      if (left_ <= 0) break;
      for (ValueId v : problem_.inputs_of(p)) {
        const Position from = problem_.values[v].producer;
        if (from) better = MoveBoth(problem_.groups.group_of[from], problem_.groups.group_of[p]) || better;
      }
    }
    return better;
  }
  bool MoveBoth(GroupId a, GroupId b) {
    DeviceId &first = best_->device_of_group[a], &second = best_->device_of_group[b];
    if (a == b || first == second) return false;
    const DeviceId before_first = first, before_second = second;
    for (DeviceId device : problem_.devices_of(a)) {
      if (!problem_.sets.Contains(problem_.groups.sets[b], device)) continue;
      first = second = device;
      if (Try()) return true;
    }
    first = before_first;
    second = before_second;
    return false;
  }

  const Problem& problem_;
  const Sequence& sequence_;
  const LookAhead* look_ahead_;
  Schedule* schedule_;
  Assignment* best_ = nullptr;
  std::vector<GroupId> movable_;
  int64_t left_;
};

class Chooser {
 public:
  Chooser(const Problem& problem, const Sequence& sequence)
      : problem_(problem), sequence_(sequence), schedule_(&problem) {}

  Result<Assignment> Run(double* greedy_seconds) {
    Propose();
    TENON_RETURN_IF_ERROR(CheckAllowance());
    if (found_.empty()) ProposeBySpace();
    if (found_.empty()) return DoesNotFit();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Assignment& a, const Assignment& b) { return a.seconds < b.seconds; });
    if (greedy_seconds != nullptr) *greedy_seconds = found_[0].seconds;
    // Small graphs are searched from every proposal.
    if (problem_.groups.size() > kFewGroups) found_.resize(1);
    Search search(problem_, sequence_, look_ahead_ ? &*look_ahead_ : nullptr, &schedule_);
    if (search.worthwhile())
      for (Assignment& assignment : found_) search.Improve(&assignment);
    TENON_RETURN_IF_ERROR(CheckAllowance());
    return *std::min_element(found_.begin(), found_.end(),
                             [](const Assignment& a, const Assignment& b) { return a.seconds < b.seconds; });
  }

 private:
  void Try(Policy policy) {
    if (!CheckAllowance().ok()) return;
    GroupDevices devices = Greedy(problem_, sequence_, &schedule_, std::move(policy)).Run(&stuck_);
    if (devices.empty() && problem_.size() > 0) return;
    const double seconds = Simulate(problem_, sequence_, devices, &schedule_, kNever);
    if (seconds < kNever) found_.push_back({std::move(devices), seconds});
  }

  void Propose() {
    Try({});
    Try({.generators_wait = false});
    if (problem_.device_count() < kManyDevices) {
      look_ahead_.emplace(problem_);
      Try({.look_ahead = &*look_ahead_});
      Try({.look_ahead = &*look_ahead_, .generators_wait = false});
    }
    // Equal devices give equal steps.
    IdVector<ClassId, bool> seen(problem_.class_count);
    for (DeviceId device : problem_.devices->ids()) {
      const ClassId of_class = problem_.device_class[device];
      if (!seen[of_class]) Try({.fixed = AllOn(device)});
      seen[of_class] = true;
    }
  }
  GroupDevices AllOn(DeviceId device) const {
    GroupDevices fixed(problem_.groups.size());
    for (GroupId g : fixed.ids())
      if (problem_.sets.Contains(problem_.groups.sets[g], device)) fixed[g] = device;
    return fixed;
  }

  // What stays for the whole step first, the largest first, each where most room is left in proportion.
  void ProposeBySpace() {
    std::vector<std::pair<double, GroupId>> large;
    for (GroupId g : problem_.groups.ids()) {
      double bytes = 0;
      for (Position member : problem_.groups.of(g)) bytes += problem_.resident_bytes[member];
      if (bytes > 0) large.emplace_back(-bytes, g);
    }
    std::sort(large.begin(), large.end());
    GroupDevices fixed(problem_.groups.size());
    IdVector<DeviceId, double> used(problem_.device_count(), 0);
    for (const auto& [bytes, group] : large) {
      DeviceId& device = fixed[group];
      for (DeviceId other : problem_.devices_of(group))
        if (!device || Share(used, other, -bytes) < Share(used, device, -bytes)) device = other;
      used[device] -= bytes;
    }
    Try({.fixed = fixed});
    Try({.most_memory = true, .fixed = std::move(fixed)});
    Try({.most_memory = true});
  }
  double Share(const IdVector<DeviceId, double>& used, DeviceId device, double more) const {
    const double limit = (*problem_.devices)[device].memory_bytes;
    return limit > 0 ? (used[device] + more) / limit : 0;
  }

  Status DoesNotFit() {
    const graph::Node& node = problem_.node(stuck_);
    std::string text =
        StrCat("the step does not fit in the memory of its devices: ", node.Describe(), " found no room; ");
    for (DeviceId d : problem_.devices->ids()) {
      const DeviceInfo& device = (*problem_.devices)[d];
      text += StrCat(d == DeviceId(0) ? "" : ", ", device.name, " had ",
                     static_cast<int64_t>(schedule_.used_bytes()[d]), " bytes in use");
      if (device.memory_bytes > 0) text += StrCat(" of ", static_cast<int64_t>(device.memory_bytes));
    }
    return ResourceExhausted(text + "; a smaller batch, another device or another placement may help");
  }

  const Problem& problem_;
  const Sequence& sequence_;
  Schedule schedule_;
  std::optional<LookAhead> look_ahead_;  // of few devices
  std::vector<Assignment> found_;
  Position stuck_;
};

}  // namespace

Result<Assignment> Choose(const Problem& problem, const Sequence& sequence, double* greedy_seconds) {
  return Chooser(problem, sequence).Run(greedy_seconds);
}

}  // namespace tenon::place
