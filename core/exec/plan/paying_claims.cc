// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/paying_claims.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "core/exec/device/environment.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/plan.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/graph.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {
namespace {

using graph::Edge;
using graph::Node;

// Nodes that may be simulated while cuts are sought; some tenths of a second.
constexpr int64_t kVisits = 1000000;
// That one time is longer than another.
bool IsLonger(double a, double b) { return a > b * (1 + 1e-9); }

class Simulation {
 public:
  explicit Simulation(const Plan& plan) : plan_(plan), times_(*plan.options().times), items_(plan.order().size()) {
    graph::NodeMap<int32_t> position(plan.graph().size(), -1);
    int32_t lanes = 1;
    for (const SessionDevice& device : plan.env().devices) {
      first_lane_.push_back(lanes);
      if (device.queued()) lanes += device.compute_count() + 2;
    }
    lanes_ = static_cast<size_t>(lanes);
    for (size_t i = 0; i < items_.size(); ++i) {
      const Node& node = plan.graph().node(plan.order()[i]);
      position[node.id] = static_cast<int32_t>(i);
      const auto after = [&](graph::NodeId source) {
        if (source && position[source] >= 0) items_[i].after.push_back(position[source]);
      };
      for (const Edge& edge : node.inputs)
        if (plan.FeedOf(edge) < 0) after(edge.node);
      for (graph::NodeId control : node.controls) after(control);
      Describe(node, &items_[i]);
    }
    position_ = std::move(position);
  }

  // unit: by position, the first position of the piece that the node is in.
  double Seconds(const std::vector<int32_t>& unit) {
    visits_ += static_cast<int64_t>(items_.size());
    Join(unit);
    std::vector<double> free(lanes_, 0);
    finish_.assign(items_.size(), 0);
    lane_.assign(items_.size(), kNoLane);
    double host = 0, end = 0;
    size_t done = 0;
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>
        ready;  // near the plan's order, as the emitter has it
    for (size_t i = 0; i < items_.size(); ++i)
      if (unit[i] == static_cast<int32_t>(i) && pending_[i] == 0) ready.push(static_cast<int32_t>(i));
    while (!ready.empty()) {
      const int32_t at = ready.top();
      ready.pop();
      const double finish = Run(at, &free, &host);
      end = std::max(end, finish);
      for (int32_t member = at; member >= 0; member = next_member_[member], ++done)
        for (int32_t reader : readers_[member])
          if (unit[reader] != at && --pending_[unit[reader]] == 0) ready.push(unit[reader]);
    }
    return done == items_.size() ? end : std::numeric_limits<double>::infinity();  // sets that wait for each other
  }

  int32_t PositionOf(graph::NodeId id) const { return position_[id]; }
  size_t size() const { return items_.size(); }
  bool out_of_time() const { return visits_ > kVisits || !CheckAllowance().ok(); }
  // Whether a value comes here, or goes from here, by a transfer or to the host.
  bool Crosses(int32_t position) const {
    return items_[position].kind == Kind::kTransfer || items_[position].kind == Kind::kHost;
  }
  const std::vector<int32_t>& After(int32_t position) const { return items_[position].after; }
  bool IsKernel(int32_t position) const {
    return items_[position].kind == Kind::kQueued && items_[position].seconds > 0;
  }

 private:
  enum class Kind { kNothing, kQueued, kHost, kTransfer };
  struct Item {
    Kind kind = Kind::kNothing;
    int32_t lane = 0, lanes = 1;  // the first that it may take
    double seconds = 0, launch = 0;
    std::vector<int32_t> after;
  };
  static constexpr int32_t kNoLane = -1;
  static constexpr double kCrossingSeconds = 2e-6;  // as the choice of queues has it (lower/queue_chooser.h)

  void Describe(const Node& node, Item* item) {
    const NodeRunner* runner = plan_.runner(node.id).get();
    if (runner != nullptr && runner->queued_on() != nullptr) {
      const SessionDevice& device = *runner->queued_on();
      item->kind = Kind::kQueued;
      item->lane = first_lane_[device.index];
      item->lanes = runner->main_queue_only() || node.input_types.empty() ? 1 : device.compute_count();
      item->seconds = times_.SecondsOf(node.id);
      item->launch = device.device->properties.launch_seconds;
    } else if (runner != nullptr) {
      item->kind = Kind::kHost;
      item->seconds = times_.SecondsOf(node.id);
    } else if (const int32_t from = plan_.TransferFrom(node.id); from >= 0) {
      const int32_t to = plan_.env().devices[plan_.DeviceOf(node.id)].memory;
      const SessionDevice& device = plan_.env().devices[from == 0 ? to : from];
      item->kind = Kind::kTransfer;
      if (!device.queued()) return;
      item->lane = first_lane_[device.index] + (device.one_queue ? 0 : device.compute_count() + (from == 0 ? 0 : 1));
      item->seconds = times_.Find(plan_.ValueOf(node.id), to).seconds;
    }
  }

  // Members of units as lists, readers, and how many sources of others each unit has.
  void Join(const std::vector<int32_t>& unit) {
    next_member_.assign(items_.size(), -1);
    std::vector<int32_t> last(items_.size());
    std::iota(last.begin(), last.end(), 0);
    pending_.assign(items_.size(), 0);
    const bool first = readers_.empty();
    if (first) readers_.resize(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) {
      if (unit[i] != static_cast<int32_t>(i)) last[unit[i]] = next_member_[last[unit[i]]] = static_cast<int32_t>(i);
      for (int32_t source : items_[i].after) {
        if (first) readers_[source].push_back(static_cast<int32_t>(i));
        if (unit[source] != unit[i]) ++pending_[unit[i]];
      }
    }
  }

  double Run(int32_t at, std::vector<double>* free, double* host) {
    const Item& first = items_[at];
    double seconds = 0, saved = 0, inputs = 0;
    int32_t kernels = 0;
    for (int32_t member = at; member >= 0; member = next_member_[member]) {
      const Item& item = items_[member];
      seconds += item.seconds;
      if (item.kind == Kind::kQueued && item.seconds > 0 && kernels++ > 0) saved += std::min(item.launch, item.seconds);
      for (int32_t source : item.after) inputs = std::max(inputs, finish_[source]);
    }
    seconds -= saved;
    double finish = inputs;
    int32_t lane = kNoLane;
    if (first.kind == Kind::kHost) {
      finish = *host = std::max(*host, inputs) + seconds;
    } else if (first.kind == Kind::kQueued || first.kind == Kind::kTransfer) {
      lane = first.lane;
      if (first.lanes > 1) {
        double least = Begin(at, first.lane, *free);
        for (int32_t other = first.lane + 1; other < first.lane + first.lanes; ++other)
          if (const double begin = Begin(at, other, *free); begin < least) {
            least = begin;
            lane = other;
          }
      }
      finish = std::max({(*free)[lane], inputs, *host}) + seconds;
      (*free)[lane] = finish;
    }
    for (int32_t member = at; member >= 0; member = next_member_[member]) {
      finish_[member] = finish;
      lane_[member] = lane;
    }
    return finish;
  }
  double Begin(int32_t at, int32_t lane, const std::vector<double>& free) const {
    double begin = free[lane];
    for (int32_t member = at; member >= 0; member = next_member_[member])
      for (int32_t source : items_[member].after)
        if (lane_[source] != kNoLane)
          begin = std::max(begin, finish_[source] + (lane_[source] == lane ? 0 : kCrossingSeconds));
    return begin;
  }

  const Plan& plan_;
  const StepTimes& times_;
  std::vector<Item> items_;
  graph::NodeMap<int32_t> position_;
  std::vector<int32_t> first_lane_;  // by device
  size_t lanes_ = 1;
  int64_t visits_ = 0;
  std::vector<std::vector<int32_t>> readers_;
  std::vector<int32_t> next_member_, pending_, lane_;
  std::vector<double> finish_;
};

// Sets as lists of positions, with cuts between neighbours.
class Cutter {
 public:
  Cutter(Simulation* simulation, const Claims& claims) : simulation_(*simulation) {
    for (const Claims::Claim& claim : claims.claims()) {
      std::vector<int32_t> set;
      for (graph::NodeId id : claim.nodes) set.push_back(simulation_.PositionOf(id));
      std::sort(set.begin(), set.end());
      // A set of the host's has no launches to save, and nobody waits for it elsewhere.
      movable_.push_back(claim.device->queued());
      cuts_.emplace_back(set.size(), false);
      sets_.push_back(std::move(set));
    }
  }

  ClaimTimes Find() {
    ClaimTimes out;
    out.whole = Now();
    const auto whole = cuts_;
    for (size_t s = 0; s < sets_.size(); ++s)
      if (movable_[s]) cuts_[s].assign(sets_[s].size(), true);
    out.by_nodes = Now();
    double best = out.by_nodes;
    auto cut = std::exchange(cuts_, AtCrossings());
    if (const double seconds = Now(); IsLonger(seconds, best)) cuts_ = std::move(cut);
    else best = seconds;
    if (!IsLonger(out.whole, best)) {
      cuts_ = whole;
      best = out.whole;
    }
    while (!simulation_.out_of_time() && Improve(&best)) {
    }
    out.seconds = best;
    for (size_t s = 0; s < sets_.size(); ++s) AddPieces(s);
    return out;
  }
  const std::vector<std::vector<int32_t>>& pieces() const { return pieces_; }

 private:
  double Now() { return simulation_.Seconds(Units()); }
  std::vector<int32_t> Units() const {
    std::vector<int32_t> unit(simulation_.size());
    std::iota(unit.begin(), unit.end(), 0);
    for (size_t s = 0; s < sets_.size(); ++s)
      for (size_t i = 1; i < sets_[s].size(); ++i)
        unit[sets_[s][i]] = cuts_[s][i] ? sets_[s][i] : unit[sets_[s][i - 1]];
    return unit;
  }
  // Where something comes that others have to make, and behind what others wait for.
  std::vector<std::vector<bool>> AtCrossings() const {
    std::vector<std::vector<bool>> cuts;
    std::vector<bool> gives(simulation_.size(), false);
    for (size_t i = 0; i < simulation_.size(); ++i)
      if (simulation_.Crosses(static_cast<int32_t>(i)))
        for (int32_t source : simulation_.After(static_cast<int32_t>(i))) gives[source] = true;
    for (size_t s = 0; s < sets_.size(); ++s) {
      std::vector<bool>& of_set = cuts.emplace_back(sets_[s].size(), false);
      for (size_t i = 1; movable_[s] && i < sets_[s].size(); ++i) {
        const auto& after = simulation_.After(sets_[s][i]);
        of_set[i] = gives[sets_[s][i - 1]] || std::any_of(after.begin(), after.end(), [this](int32_t source) {
                      return simulation_.Crosses(source);
                    });
      }
    }
    return cuts;
  }
  // Each cut the other way round. Of steps that are as long, the one with fewer pieces stays.
  bool Improve(double* best) {
    bool better = false;
    for (size_t s = 0; s < sets_.size(); ++s)
      for (size_t i = 1; movable_[s] && i < sets_[s].size() && !simulation_.out_of_time(); ++i) {
        cuts_[s][i] = !cuts_[s][i];
        const double seconds = Now();
        if (cuts_[s][i] ? IsLonger(*best, seconds) : !IsLonger(seconds, *best)) {
          better = better || IsLonger(*best, seconds);
          *best = std::min(*best, seconds);
        } else {
          cuts_[s][i] = !cuts_[s][i];
        }
      }
    return better;
  }
  void AddPieces(size_t s) {
    for (size_t begin = 0, i = 1; i <= sets_[s].size(); ++i) {
      if (i < sets_[s].size() && !cuts_[s][i]) continue;
      const std::vector<int32_t> piece(sets_[s].begin() + static_cast<ptrdiff_t>(begin),
                                       sets_[s].begin() + static_cast<ptrdiff_t>(i));
      begin = i;
      if (!movable_[s] ||
          std::count_if(piece.begin(), piece.end(), [this](int32_t at) { return simulation_.IsKernel(at); }) > 1)
        pieces_.push_back(piece);
    }
  }

  Simulation& simulation_;
  std::vector<std::vector<int32_t>> sets_;
  std::vector<bool> movable_;
  std::vector<std::vector<bool>> cuts_;  // [i]: before the i-th of the set
  std::vector<std::vector<int32_t>> pieces_;
};

}  // namespace

std::optional<ClaimTimes> FindPayingClaims(const Plan& plan, const Claims& claims) {
  if (plan.options().times == nullptr || plan.options().times->node_starts.empty()) return std::nullopt;
  if (plan.HasControlFlow()) return std::nullopt;
  Simulation simulation(plan);
  Cutter cutter(&simulation, claims);
  ClaimTimes times = cutter.Find();
  for (const std::vector<int32_t>& piece : cutter.pieces()) {
    std::vector<graph::NodeId>& nodes = times.pieces.emplace_back();
    for (int32_t at : piece) nodes.push_back(plan.order()[at]);
  }
  return times;
}

}  // namespace tenon::exec
