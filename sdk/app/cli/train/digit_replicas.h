// SPDX-License-Identifier: Apache-2.0
// `tenon train digits --mode async|sync`: one client a replica, all in this process, or one of them.
//
// Each replica has a thread, a graph and a session; the chief stands beside replica 0. Who is not replica 0 alone has
// nothing to evaluate. Each uses the tasks with the variables and its own: a worker that is lost ends its own replica,
// and the others go on while they can (asynchronous; synchronous with backups). The chief keeps checkpoints, and after
// a loss that they cannot go on from (a server, a worker that is no backup) all begin again from the newest one, here
// and in the other processes.
#ifndef TENON_CLI_TRAIN_DIGIT_REPLICAS_H_
#define TENON_CLI_TRAIN_DIGIT_REPLICAS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tenon/tenon.h"
#include "tenon/train/digits.h"
#include "tenon/train/trainer.h"

namespace tenon::cli {

struct DigitReplicaOptions {
  std::string mode = "in-graph";  // "async", "sync"
  int64_t backups = 0;
  int64_t replica = -1;           // that runs here; -1: all
  train::TrainingOptions training;  // the checkpoints
  std::string owner;                // whose sessions end those of an earlier attempt
  std::chrono::nanoseconds patience{0};  // with what is lost, since it last went on
  std::string recover;                   // the same in words
  bool wanted() const { return mode != "in-graph"; }
};

class DigitReplicas {
 public:
  // digits: with the devices of a cluster, and as many replicas as there are. All outlive this.
  DigitReplicas(const host::Runtime& runtime, const train::DigitData& data, const train::DigitOptions& digits,
                const host::SessionOptions& session, const DigitReplicaOptions& options);
  ~DigitReplicas();

  std::function<void(const train::StepReport&)> on_step;  // of the first replica here that has not been lost
  std::function<void(const std::string&)> on_message;
  const std::atomic<bool>* stop = nullptr;

  host::Result<train::TrainingReport> Run();
  // Replica 0's, after Run: for use. Whether there is one.
  bool leads() const { return options_.replica <= 0; }
  host::Graph& graph();
  host::Session& session();

 private:
  struct Client;
  class Turns;
  std::string TasksOf(int64_t number) const;
  host::Result<std::unique_ptr<Client>> Open(int64_t number, bool is_chief) const;
  // chief: whose checkpoints are kept by whose turn it is; nullptr: nobody here does.
  host::Status Train(Client& client, const Turns& turns, train::ReplicaChief* chief);
  host::Result<std::unique_ptr<train::ReplicaChief>> Lead();
  host::Result<train::TrainingReport> RunOnce();
  bool stopped() const { return stop != nullptr && stop->load(); }

  const host::Runtime& runtime_;
  const train::DigitData& data_;
  train::DigitOptions digits_;
  const host::SessionOptions session_;
  const DigitReplicaOptions options_;
  std::unique_ptr<Client> chief_;
  std::atomic<int64_t> examples_{0}, made_{0};
  bool cleared_ = false;  // the folder, of what --restart is not to find
  bool told_ = false;     // where it goes on
};

}  // namespace tenon::cli

#endif  // TENON_CLI_TRAIN_DIGIT_REPLICAS_H_
