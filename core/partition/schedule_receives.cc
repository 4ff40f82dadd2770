// SPDX-License-Identifier: Apache-2.0
#include "core/partition/schedule_receives.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tenon::partition {
namespace {

using Task = ReceiveProblem::Task;
using Crossing = ReceiveProblem::Crossing;

constexpr double kNever = std::numeric_limits<double>::infinity();

class Scheduler {
 public:
  explicit Scheduler(const ReceiveProblem& problem)
      : problem_(problem), first_reader_(problem.crossings.size(), -1), last_reader_(first_reader_) {
    lane_tasks_.resize(problem.lanes);
    for (size_t i = 0; i < problem.tasks.size(); ++i) {
      const auto task = static_cast<int32_t>(i);
      lane_tasks_[problem.tasks[i].lane].push_back(task);
      for (int32_t c : problem.tasks[i].crossings) {
        if (first_reader_[c] < 0) first_reader_[c] = task;
        last_reader_[c] = task;
      }
    }
  }

  ReceiveSchedule Schedule() {
    ReceiveSchedule out;
    std::vector<int32_t> before(problem_.crossings.size());
    for (size_t c = 0; c < before.size(); ++c) before[c] = problem_.crossings[c].producer + 1;
    out.earliest_seconds = Simulate(before);
    out.earliest_bytes = Peaks(before);
    FindSlack(&out);
    PutOff();
    out.before = Issue(0);
    out.seconds = Simulate(out.before);
    // Where a link or a lane was not as free as the times said, a few tasks more of distance make up for it.
    for (size_t distance = 1; out.seconds > out.earliest_seconds * (1 + 1e-9); distance *= 2) {
      out.before = distance > problem_.tasks.size() ? before : Issue(distance);
      out.seconds = Simulate(out.before);
      if (distance > problem_.tasks.size()) break;
    }
    out.bytes = Peaks(out.before);
    return out;
  }

 private:
  // The step's length when crossing c is issued as task before[c] is about to start, on its lane's time. Fills in the
  // times.
  double Simulate(const std::vector<int32_t>& before) {
    const size_t tasks = problem_.tasks.size();
    std::vector<std::vector<int32_t>> issued(tasks + 1);
    for (size_t c = 0; c < before.size(); ++c) issued[before[c]].push_back(static_cast<int32_t>(c));
    std::vector<double> lane_free(problem_.lanes, 0), link_free(problem_.links, 0);
    start_.assign(tasks, 0);
    finish_.assign(tasks, 0);
    arrival_.assign(before.size(), 0);
    depart_.assign(before.size(), 0);
    double end = 0;
    for (size_t i = 0; i < tasks; ++i) {
      const Task& task = problem_.tasks[i];
      for (int32_t c : issued[i]) {
        const Crossing& crossing = problem_.crossings[c];
        const double ready = crossing.producer < 0 ? 0 : finish_[crossing.producer];
        // One that is issued right behind its producer waits for nothing else.
        const bool at_once = before[c] == crossing.producer + 1;
        double& link = link_free[crossing.link];
        depart_[c] = std::max({ready, link, at_once ? 0 : lane_free[crossing.lane]});
        link = arrival_[c] = depart_[c] + crossing.seconds;
      }
      double start = lane_free[task.lane];
      for (int32_t from : task.after) start = std::max(start, finish_[from]);
      for (int32_t c : task.crossings) start = std::max(start, arrival_[c]);
      start_[i] = start;
      lane_free[task.lane] = finish_[i] = start + task.seconds;
      end = std::max(end, finish_[i]);
    }
    return end;
  }

  // Backwards from the end of the earliest times.
  void FindSlack(ReceiveSchedule* out) {
    const size_t tasks = problem_.tasks.size();
    std::vector<double> latest_finish(tasks, out->earliest_seconds), lane_next(problem_.lanes, out->earliest_seconds);
    std::vector<double> latest_arrival(problem_.crossings.size(), out->earliest_seconds),
        link_next(problem_.links, kNever);
    std::vector<std::vector<int32_t>> produced(tasks);
    for (size_t c = 0; c < problem_.crossings.size(); ++c)
      if (problem_.crossings[c].producer >= 0)
        produced[problem_.crossings[c].producer].push_back(static_cast<int32_t>(c));
    out->slack.resize(tasks);
    for (size_t i = tasks; i-- > 0;) {
      const Task& task = problem_.tasks[i];
      double finish = std::min(latest_finish[i], lane_next[task.lane]);
      for (auto c = produced[i].rbegin(); c != produced[i].rend(); ++c) {
        const Crossing& crossing = problem_.crossings[*c];
        double& next = link_next[crossing.link];
        next = std::min(latest_arrival[*c], next) - crossing.seconds;
        finish = std::min(finish, next);
      }
      const double start = finish - task.seconds;
      lane_next[task.lane] = start;
      for (int32_t from : task.after) latest_finish[from] = std::min(latest_finish[from], start);
      for (int32_t c : task.crossings) latest_arrival[c] = std::min(latest_arrival[c], start);
      out->slack[i] = std::max(0.0, start - start_[i]);
    }
  }

  // The latest departures with which no reader starts later than it does now, the last needed first on each link.
  void PutOff() {
    std::vector<int32_t> order(problem_.crossings.size());
    std::iota(order.begin(), order.end(), 0);
    const auto need = [this](int32_t c) { return start_[first_reader_[c]]; };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return need(a) > need(b); });
    std::vector<double> link_next(problem_.links, kNever);
    for (int32_t c : order) {
      const Crossing& crossing = problem_.crossings[c];
      double& next = link_next[crossing.link];
      const double wanted = std::min(need(c), next) - crossing.seconds;
      depart_[c] = std::max(depart_[c], wanted);
      next = std::min(next, depart_[c]);
    }
    planned_ = depart_;
    planned_finish_ = finish_;
  }

  // As tasks: with the one that the lane runs at the departure, or `distance` tasks of the lane before it.
  std::vector<int32_t> Issue(size_t distance) const {
    std::vector<int32_t> before(problem_.crossings.size());
    for (size_t c = 0; c < before.size(); ++c) {
      const Crossing& crossing = problem_.crossings[c];
      const std::vector<int32_t>& lane = lane_tasks_[crossing.lane];
      const auto running = std::upper_bound(lane.begin(), lane.end(), planned_[c],
                                            [this](double at, int32_t task) { return at < planned_finish_[task]; });
      const size_t index = running - lane.begin();
      const size_t shifted = index - std::min(index, distance);
      const int32_t task = shifted < lane.size() ? lane[shifted] : first_reader_[c];
      before[c] = std::clamp(task, crossing.producer + 1, first_reader_[c]);
    }
    return before;
  }

  std::vector<double> Peaks(const std::vector<int32_t>& before) const {
    std::vector<std::vector<int32_t>> begins(problem_.tasks.size()), ends(problem_.tasks.size());
    for (size_t c = 0; c < before.size(); ++c) {
      begins[before[c]].push_back(static_cast<int32_t>(c));
      ends[last_reader_[c]].push_back(static_cast<int32_t>(c));
    }
    std::vector<double> now(problem_.lanes, 0), peaks(now);
    for (size_t i = 0; i < problem_.tasks.size(); ++i) {
      for (int32_t c : begins[i]) {
        const Crossing& crossing = problem_.crossings[c];
        now[crossing.lane] += crossing.bytes;
        peaks[crossing.lane] = std::max(peaks[crossing.lane], now[crossing.lane]);
      }
      for (int32_t c : ends[i]) now[problem_.crossings[c].lane] -= problem_.crossings[c].bytes;
    }
    return peaks;
  }

  const ReceiveProblem& problem_;
  std::vector<int32_t> first_reader_, last_reader_;  // by crossing
  std::vector<std::vector<int32_t>> lane_tasks_;
  std::vector<double> start_, finish_;      // by task, of the last simulation
  std::vector<double> depart_, arrival_;    // by crossing
  std::vector<double> planned_, planned_finish_;
};

}  // namespace

ReceiveSchedule ScheduleReceives(const ReceiveProblem& problem) { return Scheduler(problem).Schedule(); }

}  // namespace tenon::partition
