// SPDX-License-Identifier: Apache-2.0
#include "core/session/partial_run.h"

#include <algorithm>

#include "core/exec/device/step.h"

namespace tenon::session {

using graph::Edge;

Result<std::unique_ptr<PartialRun>> PartialRun::Setup(std::shared_ptr<Session> session,
                                                      const std::vector<std::string_view>& feeds,
                                                      const std::vector<std::string_view>& fetches,
                                                      const std::vector<std::string_view>& targets) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PartialRunPlan> plan,
                         session->PreparePartialRun(feeds, fetches, targets));
  return std::unique_ptr<PartialRun>(new PartialRun(std::move(session), std::move(plan)));
}

PartialRun::PartialRun(std::shared_ptr<Session> session, std::shared_ptr<const PartialRunPlan> plan)
    : session_(std::move(session)),
      plan_(std::move(plan)),
      channel_names_(static_cast<size_t>(plan_->channel_count)),
      rendezvous_(session_->pool(), &channel_names_),
      step_(std::make_unique<StepInGoes>(plan_->callable, &rendezvous_)),
      can_run_(plan_->graph.size(), false) {
  for (size_t i = 0; i < plan_->feeds.size(); ++i) channel_names_[i] = plan_->feeds[i].name;
  for (size_t i = 0; i < plan_->fetch_channels.size(); ++i)
    channel_names_[static_cast<size_t>(plan_->fetch_channels[i])] = plan_->graph.EdgeName(plan_->request.fetches[i]);
}

PartialRun::~PartialRun() { step_.reset(); }  // which still uses the rendezvous

Result<std::vector<int32_t>> PartialRun::FindFeeds(const std::vector<std::string_view>& names,
                                                   const tenon_tensor_view* const* feeds) const {
  std::vector<int32_t> channels;
  for (size_t i = 0; i < names.size(); ++i) {
    const int32_t channel = plan_->declared.FindFeed(names[i]);
    if (channel < 0 || fed_.contains(channel) || std::find(channels.begin(), channels.end(), channel) != channels.end())
      return InvalidArgument(
          StrCat("'", names[i], "' was not declared as a feed of this partial run, or was fed before"));
    TENON_RETURN_IF_ERROR(Callable::CheckFeed(plan_->feeds[static_cast<size_t>(channel)], feeds[i]));
    channels.push_back(channel);
  }
  return channels;
}

Result<std::vector<int32_t>> PartialRun::FindFetches(const std::vector<std::string_view>& names) const {
  std::vector<int32_t> numbers;
  for (const std::string_view name : names) {
    const int32_t number = plan_->declared.FindFetch(name);
    if (number < 0) return InvalidArgument(StrCat("'", name, "' was not declared as a fetch of this partial run"));
    if (given_.contains(number)) return InvalidArgument(StrCat("'", name, "' was fetched before in this partial run"));
    numbers.push_back(number);
  }
  return numbers;
}

Status PartialRun::CheckNeeds(const std::vector<int32_t>& fetches, const std::set<int32_t>& fed) {
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
    return FailedPrecondition(
        StrCat("'", graph.EdgeName(edge), "' must be fed before what was asked for can be computed"));
  };
  for (const int32_t fetch : fetches) TENON_RETURN_IF_ERROR(need(plan_->request.fetches[static_cast<size_t>(fetch)]));
  while (!stack.empty()) {
    const graph::Node& node = graph.node(stack.back());
    stack.pop_back();
    for (const Edge& edge : node.inputs) TENON_RETURN_IF_ERROR(need(edge));
    for (const graph::NodeId control : node.controls) {
      if (graph.node(control).has(TENON_OP_FEED | TENON_OP_ARGUMENT))
        TENON_RETURN_IF_ERROR(need({control, 0}));
      else
        want(control);
    }
  }
  for (const graph::NodeId id : found) can_run_[id] = true;
  return Status::Ok();
}

Status PartialRun::Send(const std::vector<int32_t>& channels, const tenon_tensor_view* const* feeds) {
  std::vector<exec::Message> messages;  // the step runs on when the call has returned
  for (size_t i = 0; i < channels.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const Tensor copy, Tensor::CopyOf(session_->pool(), *feeds[i]));
    TENON_ASSIGN_OR_RETURN(exec::Message message, exec::Message::Of(copy.view(), session_->pool()));
    messages.push_back(std::move(message));
  }
  for (size_t i = 0; i < channels.size(); ++i)
    TENON_RETURN_IF_ERROR(rendezvous_.Send({channels[i], 0, {}}, std::move(messages[i])));
  rendezvous_.fed = channels;
  return Status::Ok();
}

// What is asked for has been sent by now.
Result<Tensor> PartialRun::Receive(int32_t channel) {
  const std::string& name = channel_names_[static_cast<size_t>(channel)];
  std::optional<Result<exec::Message>> answer;
  const exec::RendezvousKey key{channel, 0, {}};
  rendezvous_.Receive(key, [&answer](Result<exec::Message> message) { answer = std::move(message); });
  if (!answer.has_value()) {
    rendezvous_.Cancel(key);
    return Internal(StrCat("fetch '", name, "' was not made, though all that it needs has been fed"));
  }
  TENON_ASSIGN_OR_RETURN(const exec::Message message, *std::move(answer));
  if (message.dead())
    return InvalidArgument(StrCat("fetch '", name, "' has no value: it lies in a branch that was not taken"));
  // The caller's own: it may outlive the session, and the runtime.
  return Tensor::CopyOf(GlobalPool(), message.view());
}

Status PartialRun::Take(const std::vector<int32_t>& fetches, std::vector<Tensor>* out) {
  for (const int32_t fetch : fetches) {
    const int32_t channel = ChannelOf(fetch);
    if (!kept_.contains(channel)) {
      TENON_ASSIGN_OR_RETURN(kept_[channel], Receive(channel));
    }
    out->push_back(kept_[channel]);
  }
  given_.insert(fetches.begin(), fetches.end());
  std::erase_if(kept_, [this](const auto& each) {
    for (size_t i = 0; i < plan_->fetch_channels.size(); ++i)
      if (plan_->fetch_channels[i] == each.first && !given_.contains(static_cast<int32_t>(i))) return false;
    return true;
  });
  return Status::Ok();
}

Status PartialRun::Call(const RunOptions& options, const std::vector<std::string_view>& feed_names,
                        const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
                        std::vector<Tensor>* out_fetches, bool* out_runs) {
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> channels, FindFeeds(feed_names, feeds));
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> fetches, FindFetches(fetch_names));
  std::set<int32_t> fed = fed_;
  fed.insert(channels.begin(), channels.end());
  TENON_RETURN_IF_ERROR(CheckNeeds(fetches, fed));
  *out_runs = true;
  TENON_RETURN_IF_ERROR(Send(channels, feeds));
  fed_ = std::move(fed);
  rendezvous_.wanted.clear();
  for (const int32_t fetch : fetches)
    if (!kept_.contains(ChannelOf(fetch))) rendezvous_.wanted.push_back(ChannelOf(fetch));
  const std::vector<int32_t>& wanted = rendezvous_.wanted;
  const auto are_made = [&] {
    return std::all_of(wanted.begin(), wanted.end(), [&](int32_t channel) {
      return rendezvous_.Has({channel, 0, {}});
    });
  };
  const bool all_fed = fed_.size() == plan_->feeds.size();
  if (!step_->ended())
    TENON_RETURN_IF_ERROR(step_->Go(options, all_fed ? exec::Step::Enough() : exec::Step::Enough(are_made)));
  out_fetches->clear();
  return Take(fetches, out_fetches);
}

Status PartialRun::Step(const RunOptions& options, const std::vector<std::string_view>& feed_names,
                        const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
                        std::vector<Tensor>* out_fetches) {
  if (!ended_.ok())
    return FailedPrecondition(
        StrCat("the partial run has ended with an error, and is to be set up anew: ", ended_.message()));
  bool runs = false;
  Status status = Call(options, feed_names, feeds, fetch_names, out_fetches, &runs);
  if (!status.ok() && runs) ended_ = status;
  return status;
}

}  // namespace tenon::session
