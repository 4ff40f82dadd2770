// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/replicas.h"

#include <algorithm>
#include <random>

namespace tenon::train {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A token's step when the chief has given up.
constexpr int64_t kGivenUp = -1;

Result<Tensor> WordsOf(const std::vector<int64_t>& words) {
  return Tensor::From(words, {static_cast<int64_t>(words.size())});
}

std::string Text(milliseconds time) { return std::to_string(time.count()) + " ms"; }

// Runs what may wait for others. Now and then `check` says whether they are there still; its failure ends the waiting.
Result<std::vector<Tensor>> Await(const host::Callable& callable, milliseconds period,
                                  const std::function<Status()>& check) {
  struct Waiting {
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<Result<std::vector<Tensor>>> values;
  };
  const auto waiting = std::make_shared<Waiting>();
  TENON_TRY_ASSIGN(host::Cancellation cancellation, host::Cancellation::Create());
  host::RunOptions options;
  options.cancellation = &cancellation;
  TENON_TRY(callable.RunAsync(
      {},
      [waiting](Result<std::vector<Tensor>> values) {
        const std::lock_guard lock(waiting->mutex);
        waiting->values.emplace(std::move(values));
        waiting->ended.notify_all();
      },
      options));
  Status gone;
  std::unique_lock lock(waiting->mutex);
  while (!waiting->ended.wait_for(lock, period, [&] { return waiting->values.has_value(); })) {
    lock.unlock();
    if (gone.ok()) gone = check();
    if (!gone.ok()) cancellation.Cancel();
    lock.lock();
  }
  if (!gone.ok() && !waiting->values->ok()) return gone;
  return std::move(*waiting->values);
}

// Listens to pulses: whose stands still.
class Hearing {
 public:
  Hearing(const Session& session, std::vector<Name> pulses, const ReplicaOptions& options)
      : session_(session), pulses_(std::move(pulses)), options_(options), heard_(pulses_.size(), {-1, Clock::now()}) {}
  // For each: whether it has not been heard of for as long as one has patience.
  Result<std::vector<bool>> Silent() {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, session_.Run({}, pulses_));
    std::vector<bool> silent;
    const Clock::time_point now = Clock::now();
    for (size_t i = 0; i < heard_.size(); ++i) {
      const auto beats = values[i].scalar<int64_t>();
      if (beats != heard_[i].beats && heard_[i].beats != -1) heard_[i].at = now;
      heard_[i].beats = beats;
      silent.push_back(now - heard_[i].at > (beats == 0 ? options_.first_patience : options_.patience));
    }
    return silent;
  }

 private:
  struct Heard {
    int64_t beats;
    Clock::time_point at;
  };
  const Session& session_;
  const std::vector<Name> pulses_;
  const ReplicaOptions& options_;
  std::vector<Heard> heard_;
};

milliseconds Period(const ReplicaOptions& options) { return std::max(options.patience / 5, milliseconds(1)); }

}  // namespace

// ---- Pulse ----

ReplicaPulse::ReplicaPulse(const Session& session, const Operation& beat, milliseconds period)
    : thread_([this, &session, name = Name(beat), period] {
        std::unique_lock lock(mutex_);
        // A beat that fails tells the others by its silence.
        do {
          lock.unlock();
          const bool beaten = session.RunTargets({name}).ok();
          lock.lock();
          if (!beaten) return;
        } while (!wake_.wait_for(lock, period, [this] { return stop_; }));
      }) {}

ReplicaPulse::~ReplicaPulse() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

// ---- Replica ----

Result<std::unique_ptr<ReplicaClient>> ReplicaClient::Begin(Session& session, const ReplicaGraph& graph,
                                                            const std::vector<Output>& feeds,
                                                            const std::vector<Output>& metrics) {
  TENON_TRY(session.Extend(graph.model_.graph()));
  std::unique_ptr<ReplicaClient> client(new ReplicaClient(session, graph));
  std::vector<Name> fed(feeds.begin(), feeds.end()), fetched = {graph.loss_};
  fetched.insert(fetched.end(), metrics.begin(), metrics.end());
  if (graph.options_.synchronous) fed.emplace_back(graph.message_);
  else fetched.emplace_back(graph.after_);
  TENON_TRY_ASSIGN(client->step_, session.Prepare(fed, fetched, {graph.update_}));
  TENON_TRY_ASSIGN(client->newest_, session.Prepare({}, {graph.newest_}));
  return client;
}

Result<int64_t> ReplicaClient::Token() {
  const ReplicaOptions& options = graph_.options_;
  const Clock::time_point since = Clock::now();
  Hearing hearing(session_, {graph_.pulses_.back().value}, options);
  const auto check = [&]() -> Status {
    const auto lost = [&](const std::string& what) {
      return Status(Code::kUnavailable, "replica " + std::to_string(graph_.number_) + " of '" + options.name +
                                            "' waits for a step: its chief " + what);
    };
    // Before the first token there may be no pulse to hear.
    if (!began_)
      return Clock::now() - since < options.first_patience
                 ? Status()
                 : lost("has not begun within " + Text(options.first_patience));
    TENON_TRY_ASSIGN(const std::vector<bool> silent, hearing.Silent());
    return silent[0] ? lost("has not been heard of for " + Text(options.patience)) : Status();
  };
  for (;;) {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, Await(*newest_, Period(options), check));
    const auto words = values[0].data<int64_t>().last(2);
    if (words[1] != kGivenUp) {
      run_ = words[0];
      return words[1];
    }
    // An earlier run's end says nothing.
    if (began_ && words[0] == run_)
      return Status(Code::kAborted, "the chief of '" + options.name + "' has given up after step " +
                                        std::to_string(number_) + "; its client says why");
  }
}

Result<int64_t> ReplicaClient::Next() {
  if (!began_ || graph_.options_.synchronous) {
    TENON_TRY_ASSIGN(number_, Token());
  }
  if (!began_)
    pulse_ = std::make_unique<ReplicaPulse>(session_, graph_.beats_[static_cast<size_t>(graph_.number_)],
                                            Period(graph_.options_));
  began_ = true;
  if (on_event) on_event({ReplicaEvent::Kind::kBegan, graph_.number_, number_});
  return number_;
}

Result<std::vector<Tensor>> ReplicaClient::Step(const std::vector<View>& feeds) {
  if (!began_) return Status(Code::kFailedPrecondition, "ReplicaClient::Next was not called");
  if (!graph_.options_.synchronous) {
    TENON_TRY_ASSIGN(std::vector<Tensor> values, step_->Run(feeds));
    number_ = values.back().scalar<int64_t>();
    values.pop_back();
    if (on_event) on_event({ReplicaEvent::Kind::kApplied, graph_.number_, number_});
    return values;
  }
  std::vector<View> fed = feeds;
  TENON_TRY_ASSIGN(Tensor message, WordsOf({run_, graph_.number_, number_}));
  fed.emplace_back(std::move(message));
  return step_->Run(fed);
}

// ---- Chief ----

Result<std::unique_ptr<ReplicaChief>> ReplicaChief::Begin(Session& session, const ReplicaGraph& graph,
                                                          const ReplicaKeeping& keeping) {
  TENON_TRY(session.Extend(graph.model_.graph()));
  std::unique_ptr<ReplicaChief> chief(new ReplicaChief(session, graph, keeping));
  std::random_device random;
  chief->run_ = static_cast<int64_t>((uint64_t{random()} << 31 ^ random()) >> 1 | 1);
  if (graph.options_.synchronous) {
    std::vector<Name> fed = {graph.token_, graph.share_};
    fed.insert(fed.end(), graph.uses_.begin(), graph.uses_.end());
    TENON_TRY_ASSIGN(chief->apply_, session.Prepare(fed, {}, {graph.applied_}));
    TENON_TRY_ASSIGN(chief->arrival_, session.Prepare({}, {graph.arrival_}));
  }
  TENON_TRY(session.RunTargets({graph.initialize_}));
  TENON_TRY(chief->Restore());
  chief->pulse_ = std::make_unique<ReplicaPulse>(session, graph.beats_.back(), Period(graph.options_));
  TENON_TRY_ASSIGN(Tensor token, WordsOf({chief->run_, chief->step_}));
  TENON_TRY(session.RunTargets({graph.first_tokens_}, {{graph.token_, std::move(token)}}));
  chief->done_ = !graph.options_.synchronous;
  return chief;
}

Status ReplicaChief::Restore() {
  if (keeping_.saver == nullptr) return Status();
  TENON_TRY_ASSIGN(Restored restored, keeping_.saver->RestoreNewest(session_));
  warnings_ = std::move(restored.warnings);
  if (restored.prefix.empty()) return Status();
  TENON_TRY_ASSIGN(const std::vector<Tensor> values, session_.Run({}, {graph_.step_value_}));
  step_ = values[0].scalar<int64_t>();
  kept_ = restored.step;
  return Status();
}

Status ReplicaChief::Keep(int64_t step, bool now) {
  if (keeping_.saver == nullptr || step == kept_) return Status();
  const bool many = keeping_.steps > 0 && step / keeping_.steps > kept_ / keeping_.steps;
  const bool long_ago =
      keeping_.seconds > 0 && std::chrono::duration<double>(Clock::now() - kept_at_).count() >= keeping_.seconds;
  if (!now && !many && !long_ago) return Status();
  TENON_TRY(keeping_.saver->Save(session_, step).status());
  kept_ = step;
  kept_at_ = Clock::now();
  return Status();
}

ReplicaChief::~ReplicaChief() {
  if (done_) return;
  // Those who wait need not wait for its silence; where this fails, they do.
  if (const Result<Tensor> token = WordsOf({run_, kGivenUp}); token.ok())
    (void)session_.RunTargets({graph_.first_tokens_}, {{graph_.token_, *token}}).ok();
}

void ReplicaChief::Tell(ReplicaEvent::Kind kind, int64_t replica, int64_t step) const {
  if (on_event) on_event({kind, replica, step});
}

bool ReplicaChief::Enough(const std::vector<bool>& arrived) const {
  if (static_cast<size_t>(step_) < forced.size()) {
    const std::vector<int64_t>& all = forced[static_cast<size_t>(step_)];
    return std::all_of(all.begin(), all.end(), [&](int64_t i) { return arrived[static_cast<size_t>(i)]; });
  }
  return std::count(arrived.begin(), arrived.end(), true) >= graph_.options_.replicas - graph_.options_.backups;
}

Status ReplicaChief::Gather(std::vector<bool>* arrived) {
  const ReplicaOptions& options = graph_.options_;
  while (!Enough(*arrived)) {
    std::vector<Name> pulses;
    for (int64_t i = 0; i < options.replicas; ++i) pulses.emplace_back(graph_.pulses_[static_cast<size_t>(i)].value);
    Hearing hearing(session_, std::move(pulses), options);
    const auto check = [&]() -> Status {
      if (stopped()) return Status(Code::kCancelled, "the chief of '" + options.name + "' was stopped");
      TENON_TRY_ASSIGN(const std::vector<bool> silent, hearing.Silent());
      std::vector<bool> possible = *arrived;
      std::string lost;
      for (size_t i = 0; i < silent.size(); ++i) {
        if (!silent[i]) possible[i] = true;
        if (!possible[i]) lost += (lost.empty() ? "" : ", ") + std::to_string(i);
      }
      if (Enough(possible)) return Status();
      return Status(Code::kUnavailable, "replicas " + lost + " of '" + options.name + "' have not been heard of for " +
                                            Text(options.patience) + ": step " + std::to_string(step_) +
                                            " cannot have enough gradients any more");
    };
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, Await(*arrival_, Period(options), check));
    const auto words = values[0].data<int64_t>();
    const int64_t replica = words[1];
    if (words[0] != run_ || replica < 0 || replica >= options.replicas) continue;  // of an earlier run
    if (words[2] != step_ || (*arrived)[static_cast<size_t>(replica)]) {
      Tell(ReplicaEvent::Kind::kLate, replica, words[2]);
      continue;
    }
    (*arrived)[static_cast<size_t>(replica)] = true;
    Tell(ReplicaEvent::Kind::kArrived, replica, step_);
  }
  return Status();
}

Status ReplicaChief::Apply(const std::vector<bool>& arrived) {
  std::vector<int64_t> used;
  if (static_cast<size_t>(step_) < forced.size()) used = forced[static_cast<size_t>(step_)];
  for (size_t i = 0; i < arrived.size() && static_cast<size_t>(step_) >= forced.size(); ++i)
    if (arrived[i]) used.push_back(static_cast<int64_t>(i));
  std::vector<View> feeds;
  TENON_TRY_ASSIGN(Tensor token, WordsOf({run_, step_ + 1}));
  TENON_TRY_ASSIGN(Tensor share, Tensor::Scalar(1.0f / static_cast<float>(used.size())));
  feeds.emplace_back(std::move(token));
  feeds.emplace_back(std::move(share));
  for (int64_t i = 0; i < graph_.options_.replicas; ++i) {
    const uint8_t uses = std::count(used.begin(), used.end(), i) != 0;
    TENON_TRY_ASSIGN(Tensor use, Tensor::FromBytes(DType::kBool, Shape(), &uses, 1));
    feeds.emplace_back(std::move(use));
  }
  // Told first: the tokens let replicas begin the next step before this run is back.
  Tell(ReplicaEvent::Kind::kApplied, -1, step_);
  TENON_TRY(apply_->Run(feeds).status());
  contributors_.push_back(std::move(used));
  return Status();
}

Status ReplicaChief::Run(int64_t steps) {
  if (!arrival_) return Status(Code::kFailedPrecondition, "only a synchronous chief applies steps");
  for (const std::vector<int64_t>& list : forced) {
    const bool known =
        std::all_of(list.begin(), list.end(), [&](int64_t i) { return i >= 0 && i < graph_.options_.replicas; });
    if (list.empty() || !known)
      return Status(Code::kInvalidArgument, "a forced step has no contributors, or one that is no replica");
  }
  for (; step_ < steps; ++step_) {
    std::vector<bool> arrived(static_cast<size_t>(graph_.options_.replicas));
    const Status gathered = Gather(&arrived);
    if (stopped()) return Keep(step_, /*now=*/true);
    TENON_TRY(gathered);
    TENON_TRY(Apply(arrived));
    TENON_TRY(Keep(step_ + 1));
  }
  done_ = true;
  return Keep(step_, /*now=*/true);
}

}  // namespace tenon::train
