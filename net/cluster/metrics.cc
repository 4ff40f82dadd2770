// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/metrics.h"

#include <algorithm>

#include "core/base/json_escape.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

// A list of families as JSON.
class FamilyWriter {
 public:
  void Begin(std::string_view name, std::string_view type, std::string_view help) {
    text_ += StrCat(text_.empty() ? "[" : "]},", "\n{\"name\":\"", name, "\",\"type\":\"", type, "\",\"help\":\"", help,
                    "\",\"samples\":[");
    first_ = true;
  }
  template <typename Number>
  void Sample(const Labels& labels, Number value) {
    text_ += StrCat(std::exchange(first_, false) ? "" : ",", "\n {\"labels\":{");
    for (const auto& label : labels)
      text_ += StrCat(&label == labels.data() ? "" : ",", "\"", label.first, "\":\"", JsonEscape(label.second), "\"");
    text_ += StrCat("},\"value\":", value, "}");
  }
  template <typename Number>
  void Single(std::string_view name, std::string_view type, std::string_view help, Number value) {
    Begin(name, type, help);
    Sample({}, value);
  }
  std::string Finish() { return text_ + "]}\n]\n"; }

 private:
  std::string text_;
  bool first_ = true;
};

void WriteMemory(const std::vector<WorkerState::Memory>& memories, FamilyWriter* out) {
  const auto family = [&](std::string_view name, std::string_view help, uint64_t (MemoryBudget::*value)() const) {
    out->Begin(name, "gauge", help);
    for (const WorkerState::Memory& memory : memories)
      out->Sample({{"device", memory.device}}, ((*memory.budget).*value)());
  };
  family("tenon_worker_memory_bytes", "Memory of values, variables and steps, of all sessions.", &MemoryBudget::in_use);
  family("tenon_worker_memory_peak_bytes", "The most that this memory has been.", &MemoryBudget::peak);
  family("tenon_worker_memory_limit_bytes", "The most that this memory may be; 0: no limit.", &MemoryBudget::limit);
}

}  // namespace

WorkerMetrics::WorkerMetrics(std::string_view own_task, const std::vector<Task>& tasks) {
  for (std::string_view method : kMethods) methods_.emplace_back().name = method;
  methods_.emplace_back().name = "unknown";
  for (const Task& task : tasks)
    if (task.name() != own_task) peers_.emplace_back().name = task.name();
  peers_.emplace_back().name = "other";
}

Reply WorkerMetrics::Called(std::string_view method, uint64_t bytes, Reply reply) {
  const auto found =
      std::find_if(methods_.begin(), methods_.end(), [method](const BothWays& known) { return known.name == method; });
  BothWays& counted = found == methods_.end() ? methods_.back() : *found;
  counted.received.Add(bytes);
  reply.given = &counted.sent;
  reply.errors = &errors_;
  return reply;
}

size_t WorkerMetrics::PeerOf(std::string_view task) const {
  const auto at =
      std::find_if(peers_.begin(), peers_.end(), [task](const BothWays& peer) { return peer.name == task; });
  return std::min(static_cast<size_t>(at - peers_.begin()), peers_.size() - 1);
}

void WorkerMetrics::StepEnded(const Status& status) {
  ++(status.ok() ? steps_ok_ : status.code() == Code::kCancelled ? steps_cancelled_ : steps_failed_);
}

WorkerMetrics::Totals WorkerMetrics::totals() const {
  Totals out;
  out.steps = steps_ok_ + steps_failed_ + steps_cancelled_;
  ForEach([&out](std::string_view, std::string_view, const BothWays& counted) {
    out.bytes_sent += counted.sent.bytes;
    out.bytes_received += counted.received.bytes;
  });
  return out;
}

std::string WorkerMetrics::ToJson(const WorkerState& state) const {
  FamilyWriter out;
  out.Begin("tenon_worker_info", "gauge", "Which worker this is; the incarnation is another for each start.");
  out.Sample({{"task", state.task}, {"incarnation", StrCat(state.incarnation)}, {"version", state.version}}, 1);
  out.Single("tenon_worker_uptime_seconds", "gauge", "Since it was started.",
             static_cast<double>(state.uptime_ns) / 1e9);
  out.Single("tenon_worker_sessions", "gauge", "Sessions of masters that are open.", state.sessions);
  out.Single("tenon_worker_sessions_limit", "gauge", "How many may be.", state.max_sessions);
  out.Single("tenon_worker_sessions_opened_total", "counter", "Sessions that were opened.", sessions_opened_.load());
  out.Begin("tenon_worker_steps_total", "counter", "Steps of parts that ended here.");
  out.Sample({{"outcome", "ok"}}, steps_ok_.load());
  out.Sample({{"outcome", "failed"}}, steps_failed_.load());
  out.Sample({{"outcome", "cancelled"}}, steps_cancelled_.load());
  out.Begin("tenon_worker_steps", "gauge",
            "Steps that are open: expected (values have come), queued (for a thread), running.");
  out.Sample({{"state", "expected"}}, state.steps_expected);
  out.Sample({{"state", "queued"}}, state.steps_queued);
  out.Sample({{"state", "running"}}, state.steps_running);
  out.Single("tenon_worker_values_waiting", "gauge", "Values that no kernel has taken yet.", state.values_waiting);
  out.Single("tenon_worker_parts", "gauge", "Parts of steps that sessions have registered and not dropped.",
             state.parts);
  const auto traffic = [&](std::string_view name, std::string_view help, const auto& value) {
    out.Begin(name, "counter", help);
    ForEach([&](std::string_view peer, std::string_view method, const BothWays& counted) {
      out.Sample({{"peer", peer}, {"method", method}}, value(counted).load());
    });
  };
  traffic(
      "tenon_worker_received_messages_total", "Requests of masters, values of tasks.",
      [](const BothWays& all) -> auto& { return all.received.messages; });
  traffic(
      "tenon_worker_sent_messages_total", "Replies to masters, values for tasks.",
      [](const BothWays& all) -> auto& { return all.sent.messages; });
  traffic(
      "tenon_worker_received_bytes_total", "Bytes of these requests and values.",
      [](const BothWays& all) -> auto& { return all.received.bytes; });
  traffic(
      "tenon_worker_sent_bytes_total", "Bytes of these replies and values.",
      [](const BothWays& all) -> auto& { return all.sent.bytes; });
  out.Begin("tenon_worker_errors_total", "counter", "Calls that were answered with an error.");
  for (size_t code = 1; code < errors_.size(); ++code)
    out.Sample({{"code", CodeName(static_cast<Code>(code))}}, errors_[code].load());
  WriteMemory(state.memories, &out);
  return out.Finish();
}

}  // namespace tenon::cluster
