// SPDX-License-Identifier: Apache-2.0
#include "core/session/partial_run_goes.h"

#include <algorithm>

#include "core/exec/device/step.h"

namespace tenon::session {

using graph::Edge;

Result<std::unique_ptr<PartialRun>> PartialRunGoes::Setup(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                          const std::vector<std::string_view>& fetches,
                                                          const std::vector<std::string_view>& targets) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PartialRunPlan> plan, session->PreparePartialRun(feeds, fetches, targets));
  return std::unique_ptr<PartialRun>(new PartialRunGoes(std::move(session), std::move(plan)));
}

PartialRunGoes::PartialRunGoes(std::shared_ptr<Session> session, std::shared_ptr<const PartialRunPlan> plan)
    : session_(std::move(session)), plan_(std::move(plan)), channel_names_(static_cast<size_t>(plan_->channel_count)), rendezvous_(session_->pool(), &channel_names_),
      step_(std::make_unique<StepInGoes>(plan_->callable, &rendezvous_)), can_run_(plan_->graph.size(), false) {
  for (size_t i = 0; i < plan_->feeds.size(); ++i) channel_names_[i] = plan_->feeds[i].name;
  for (size_t i = 0; i < plan_->fetch_channels.size(); ++i)
    channel_names_[static_cast<size_t>(plan_->fetch_channels[i])] = plan_->graph.EdgeName(plan_->request.fetches[i]);
}

PartialRunGoes::~PartialRunGoes() { step_.reset(); }  // which still uses the rendezvous

Result<std::vector<int32_t>> PartialRunGoes::FindFeeds(const std::vector<std::string_view>& names, const tenon_tensor_view* const* feeds) const {
  std::vector<int32_t> channels;
  for (size_t i = 0; i < names.size(); ++i) {
    const int32_t channel = plan_->declared.FindFeed(names[i]);
    if (channel < 0 || fed_.contains(channel) || std::find(channels.begin(), channels.end(), channel) != channels.end())
      return InvalidArgument(StrCat("'", names[i], "' was not declared as a feed of this partial run, or was fed before"));
    TENON_RETURN_IF_ERROR(Callable::CheckFeed(plan_->feeds[static_cast<size_t>(channel)], feeds[i]));
    channels.push_back(channel);
  }
  return channels;
}

Result<std::vector<int32_t>> PartialRunGoes::FindFetches(const std::vector<std::string_view>& names) const {
  std::vector<int32_t> numbers;
  for (const std::string_view name : names) {
    const int32_t number = plan_->declared.FindFetch(name);
    if (number < 0) return InvalidArgument(StrCat("'", name, "' was not declared as a fetch of this partial run"));
    if (given_.contains(number)) return InvalidArgument(StrCat("'", name, "' was fetched before in this partial run"));
    numbers.push_back(number);
  }
  return numbers;
}

Status PartialRunGoes::CheckNeeds(const std::vector<int32_t>& fetches, const std::set<int32_t>& fed) {
  const graph::Graph& graph = plan_->graph;
  const std::vector<Edge>& feeds = plan_->request.feeds;
  graph::NodeMap<bool> seen(graph.size(), false);
  std::vector<graph::NodeId> stack, found;
  const auto want = [&](graph::NodeId id) {
    if (can_run_[id] || seen[id]) return;
    seen[id] = true;
    stack.push_back(id);
    found.push_back(id);
  };
  const auto need = [&](const Edge& edge) -> Status {
    const auto feed = std::find(feeds.begin(), feeds.end(), edge);
    if (feed == feeds.end()) {
      if (edge.node) want(edge.node);
      return Status::Ok();
    }
    if (fed.contains(static_cast<int32_t>(feed - feeds.begin()))) return Status::Ok();
    return FailedPrecondition(StrCat("'", graph.EdgeName(edge), "' must be fed before what was asked for can be computed"));
  };
  for (const int32_t fetch : fetches) TENON_RETURN_IF_ERROR(need(plan_->request.fetches[static_cast<size_t>(fetch)]));
  while (!stack.empty()) {
    const graph::Node& node = graph.node(stack.back());
    stack.pop_back();
    for (const Edge& edge : node.inputs) TENON_RETURN_IF_ERROR(need(edge));
    for (const graph::NodeId control : node.controls) {
      if (graph.node(control).has(TENON_OP_FEED | TENON_OP_ARGUMENT)) TENON_RETURN_IF_ERROR(need({control, 0}));
      else want(control);
    }
  }
  for (const graph::NodeId id : found) can_run_[id] = true;
  return Status::Ok();
}

Status PartialRunGoes::Send(const std::vector<int32_t>& channels, const tenon_tensor_view* const* feeds) {
  std::vector<exec::Message> messages;  // the step runs on when the call has returned
  for (size_t i = 0; i < channels.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const Tensor copy, Tensor::CopyOf(session_->pool(), *feeds[i]));
    TENON_ASSIGN_OR_RETURN(exec::Message message, exec::Message::Of(copy.view(), session_->pool()));
    messages.push_back(std::move(message));
  }
  for (size_t i = 0; i < channels.size(); ++i) TENON_RETURN_IF_ERROR(rendezvous_.Send({channels[i], 0, {}}, std::move(messages[i])));
  return Status::Ok();
}

Result<Tensor> PartialRunGoes::Receive(int32_t channel) {
  const std::string& name = channel_names_[static_cast<size_t>(channel)];
  std::optional<Result<exec::Message>> answer;
  const exec::RendezvousKey key{channel, 0, {}};
  rendezvous_.Receive(key, [&answer](Result<exec::Message> message) { answer = std::move(message); });
  if (!answer.has_value()) {
    rendezvous_.Cancel(key);
    return Internal(StrCat("fetch '", name, "' was not made, though all that it needs has been fed"));
  }
  TENON_ASSIGN_OR_RETURN(const exec::Message message, *std::move(answer));
  if (message.dead()) return InvalidArgument(StrCat("fetch '", name, "' has no value: it lies in a branch that was not taken"));
  // The caller's own: it may outlive the session, and the runtime.
  return Tensor::CopyOf(GlobalPool(), message.view());
}

// What is asked for has been sent by now.
Status PartialRunGoes::Take(const std::vector<int32_t>& fetches, std::vector<Tensor>* out) {
  for (const int32_t fetch : fetches) {
    const int32_t channel = plan_->fetch_channels[static_cast<size_t>(fetch)];
    auto value = received_.find(channel);
    if (value == received_.end()) value = received_.emplace(channel, Receive(channel)).first;
    given_.insert(fetch);
    TENON_RETURN_IF_ERROR(value->second.status());
    out->push_back(*value->second);
    // Others of the same edge may come for it.
    const auto is_given = [&](int32_t other) { return plan_->fetch_channels[static_cast<size_t>(other)] == channel; };
    if (std::count_if(given_.begin(), given_.end(), is_given) == std::count(plan_->fetch_channels.begin(), plan_->fetch_channels.end(), channel)) received_.erase(value);
  }
  return Status::Ok();
}

Status PartialRunGoes::Call(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
                            const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches, bool* out_runs) {
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> channels, FindFeeds(feed_names, feeds));
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> fetches, FindFetches(fetch_names));
  std::set<int32_t> fed = fed_;
  fed.insert(channels.begin(), channels.end());
  TENON_RETURN_IF_ERROR(CheckNeeds(fetches, fed));
  *out_runs = true;
  TENON_RETURN_IF_ERROR(Send(channels, feeds));
  fed_ = std::move(fed);
  const auto are_made = [&] {
    return std::all_of(fetches.begin(), fetches.end(), [&](int32_t fetch) {
      const int32_t channel = plan_->fetch_channels[static_cast<size_t>(fetch)];
      return received_.contains(channel) || rendezvous_.Has({channel, 0, {}});
    });
  };
  const bool all_fed = fed_.size() == plan_->feeds.size();
  if (!step_->ended()) TENON_RETURN_IF_ERROR(step_->Go(options, all_fed ? exec::Step::Enough() : exec::Step::Enough(are_made)));
  out_fetches->clear();
  return Take(fetches, out_fetches);
}

}  // namespace tenon::session
