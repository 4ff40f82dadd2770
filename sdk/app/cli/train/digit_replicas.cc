// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/train/digit_replicas.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/app/cli/train/job_flags.h"
#include "tenon/train/recovery.h"

namespace tenon::cli {

using host::Code;
using host::Result;
using host::Status;
using host::Tensor;
using train::ReplicaChief;
using train::ReplicaClient;
using train::StepReport;

namespace {

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

struct DigitReplicas::Client {
  Client(const host::Runtime& runtime, const train::DigitData& data, const train::DigitOptions& digits)
      : graph(runtime), network(graph, data, digits) {}
  host::Graph graph;
  train::DigitNetwork network;
  std::optional<train::Saver> saver;  // the chief's
  std::optional<host::Session> session;
  int64_t number = 0;
};

DigitReplicas::DigitReplicas(const host::Runtime& runtime, const train::DigitData& data,
                             const train::DigitOptions& digits, const host::SessionOptions& session,
                             const DigitReplicaOptions& options)
    : runtime_(runtime), data_(data), digits_(digits), session_(session), options_(options) {
  train::ReplicaOptions between;
  between.synchronous = options.mode == "sync";
  between.replicas = std::max<int64_t>(digits.replicas, 1);
  between.backups = options.backups;
  between.name = "digits";
  if (!digits.variable_devices.empty()) between.device = digits.variable_devices[0];
  digits_.between = between;
  digits_.replicas = 1;
}
DigitReplicas::~DigitReplicas() = default;

host::Graph& DigitReplicas::graph() { return chief_->graph; }
host::Session& DigitReplicas::session() { return *chief_->session; }

Result<std::unique_ptr<DigitReplicas::Client>> DigitReplicas::Open(int64_t number, bool is_chief) const {
  train::DigitOptions own = digits_;
  own.number = number;
  auto client = std::make_unique<Client>(runtime_, data_, own);
  client->number = number;
  const train::TrainingOptions& training = options_.training;
  if (is_chief && !training.checkpoint_folder.empty()) {
    train::SaverOptions saver;
    saver.keep = training.keep;
    if (!digits_.between->synchronous) saver.step_variable = "";  // others count on while it saves
    client->saver.emplace(client->network.model(), training.checkpoint_folder, std::move(saver));
  }
  TENON_TRY(client->graph.status());
  host::SessionOptions options = session_;
  if (options.device_filters.empty()) options.device_filters = TasksOf(number);
  options.owner = options_.owner + (is_chief ? " chief" : " replica " + std::to_string(number));
  TENON_TRY_ASSIGN(host::Session session, host::Session::Create(runtime_, options));
  client->session.emplace(std::move(session));
  return client;
}

// Those that hold the variables, and its own: what becomes of the others' is nothing to it.
std::string DigitReplicas::TasksOf(int64_t number) const {
  std::string filters;
  if (digits_.variable_devices.empty() || digits_.replica_devices.empty()) return filters;
  for (const std::string& device : digits_.variable_devices) filters += device + ",";
  return filters + digits_.replica_devices[static_cast<size_t>(number) % digits_.replica_devices.size()];
}

// One replica tells of the steps and keeps checkpoints; when it is lost, another that still trains does.
class DigitReplicas::Turns {
 public:
  Turns(int64_t first, int64_t end) : running_(static_cast<size_t>(end - first), true), first_(first), turn_(first) {}
  bool IsOf(int64_t number) const { return turn_ == number; }
  void Leave(int64_t number) {
    const std::lock_guard lock(mutex_);
    running_[static_cast<size_t>(number - first_)] = false;
    const auto next = std::find(running_.begin(), running_.end(), true);
    if (turn_ == number && next != running_.end()) turn_ = first_ + (next - running_.begin());
  }

 private:
  std::mutex mutex_;
  std::vector<bool> running_;
  const int64_t first_;
  std::atomic<int64_t> turn_;
};

Status DigitReplicas::Train(Client& client, const Turns& turns, ReplicaChief* chief) {
  const train::TrainingStep step = client.network.Step();
  std::vector<host::Output> metrics;
  for (const auto& [name, output] : step.metrics) metrics.push_back(output);
  TENON_TRY_ASSIGN(const std::unique_ptr<ReplicaClient> replica,
                   ReplicaClient::Begin(*client.session, client.network.replica_graph(), step.feeds, metrics));
  const double began = Seconds();
  int64_t reached = 0;
  for (int64_t made = 0; !stopped(); ++made) {
    TENON_TRY_ASSIGN(const int64_t number, replica->Next());
    if (number >= digits_.steps) break;
    TENON_TRY_ASSIGN(const std::vector<host::View> feeds, step.feed(digits_.between->synchronous ? number : made));
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, replica->Step(feeds));
    ++made_;
    reached = number + 1;
    const bool tells = turns.IsOf(client.number);
    if (chief != nullptr && tells) TENON_TRY(chief->Keep(reached));
    const int64_t examples = examples_ += step.examples;
    StepReport report;
    report.step = number + 1;
    report.steps = digits_.steps;
    report.loss = values[0].scalar<float>(NAN);
    for (size_t i = 1; i < values.size(); ++i) report.metrics.push_back(values[i].scalar<float>(NAN));
    const double seconds = std::max(Seconds() - began, 1e-9);
    report.examples_per_second = static_cast<double>(examples) / seconds;
    report.seconds_left = seconds / static_cast<double>(report.step) * static_cast<double>(report.steps - report.step);
    if (!std::isfinite(report.loss))
      return Status(Code::kInvalidArgument, "the loss is no number any more at step " + std::to_string(report.step) +
                                                ". A smaller learning rate usually helps");
    if (tells && on_step) on_step(report);
  }
  return chief != nullptr && turns.IsOf(client.number) && reached > 0 ? chief->Keep(reached, /*now=*/true) : Status();
}

Result<train::TrainingReport> DigitReplicas::Run() {
  return train::RunThroughLosses({options_.patience, options_.recover, [this] { return RunOnce(); },
                                  [this] { return made_.load(); },
                                  [this](const std::string& message) {
                                    if (on_message) on_message(message);
                                  },
                                  &stop_requested});
}

// The chief, with its variables at their beginning or at the newest checkpoint.
Result<std::unique_ptr<ReplicaChief>> DigitReplicas::Lead() {
  chief_.reset();  // whose saver has the folder
  TENON_TRY_ASSIGN(chief_, Open(0, /*is_chief=*/true));
  const train::TrainingOptions& training = options_.training;
  train::ReplicaKeeping keeping{nullptr, training.checkpoint_steps, training.checkpoint_seconds};
  if (chief_->saver) {
    keeping.saver = &*chief_->saver;
    TENON_TRY(keeping.saver->Claim());
    if (!training.resume && !cleared_) TENON_TRY(keeping.saver->Clear());
    cleared_ = true;
  }
  TENON_TRY_ASSIGN(std::unique_ptr<ReplicaChief> chief,
                   ReplicaChief::Begin(*chief_->session, chief_->network.replica_graph(), keeping));
  for (const std::string& warning : chief->warnings())
    if (on_message) on_message("warning: " + warning);
  if (chief->step() > 0 && on_message && !std::exchange(told_, true))
    on_message("going on after step " + std::to_string(chief->step()));
  return chief;
}

Result<train::TrainingReport> DigitReplicas::RunOnce() {
  const int64_t all = digits_.between->replicas;
  const int64_t first = std::max<int64_t>(options_.replica, 0), end = options_.replica < 0 ? all : options_.replica + 1;
  std::unique_ptr<ReplicaChief> chief;
  train::TrainingReport report;
  if (leads()) {
    TENON_TRY_ASSIGN(chief, Lead());
    report.first_step = chief->step();
  }
  ReplicaChief* const keeps = digits_.between->synchronous ? nullptr : chief.get();
  const double began = Seconds();
  std::mutex mutex;
  Status failed;
  int64_t ended_well = 0;
  Turns turns(first, end);
  std::vector<std::thread> threads;
  for (int64_t number = first; number < end; ++number) {
    threads.emplace_back([&, number] {
      Result<std::unique_ptr<Client>> client = Open(number, /*is_chief=*/false);
      const Status status = client.ok() ? Train(**client, turns, keeps) : client.status();
      turns.Leave(number);
      const std::lock_guard lock(mutex);
      ended_well += status.ok();
      if (!status.ok() && failed.ok()) failed = Status(status).Annotate("replica " + std::to_string(number));
    });
  }
  Status led;
  if (chief != nullptr) chief->stop = options_.training.stop;
  if (chief != nullptr && digits_.between->synchronous) led = chief->Run(digits_.steps);
  if (!led.ok()) chief.reset();  // so that the replicas are told
  for (std::thread& thread : threads) thread.join();
  // Whom the chief waited for in vain may have said why.
  if (!led.ok() && !failed.ok()) return Status(led.code(), led.message() + "; " + failed.message());
  TENON_TRY(led);
  if (ended_well == 0) return failed;
  if (!failed.ok() && on_message) on_message("warning: " + failed.message() + "; the others went on");
  if (keeps != nullptr && !stopped())
    TENON_TRY(keeps->Keep(digits_.steps, /*now=*/true));  // others may have counted the last
  report.last_step = chief != nullptr && digits_.between->synchronous ? chief->step() : digits_.steps;
  report.stopped = stopped();
  report.seconds = Seconds() - began;
  report.examples_per_second = static_cast<double>(examples_) / std::max(report.seconds, 1e-9);
  return report;
}

}  // namespace tenon::cli
