// SPDX-License-Identifier: Apache-2.0
// Replicas: training by several clients, each with a graph and a session of its own, over variables that they share by
// name.
//
// Every replica builds the same graph. The variables stand where the model puts them (parameter servers), and outlive a
// client.
// - Asynchronous: each replica applies its own gradients to the shared variables, without a barrier.
// - Synchronous: each replica puts its gradients (of an Embedding the rows that have one) into its own box beside each
//   variable, and says so in the queue of arrivals. The chief, a thread beside replica 0 with a session of its own,
//   waits for the first m = replicas - backups of them, applies the mean of these boxes once, and gives every replica a
//   token that names the next step. A replica waits for its token, and takes the newest. With m = replicas the result
//   is that of one graph with all replicas in it.
//
// Rules. What counts for step s was computed from the variables of step s: a box whose arrival counts is not written
// again before the chief has applied it, and a gradient that comes after its step was applied is dropped, so that
// nobody learns from mixed versions and no replica takes two places. Boxes are added in the order of the replicas, so
// the same contributors give the same bits; the chief records them, and a recorded list can be given to force them.
// Names meet: two jobs at one cluster need two names. A token carries a number that the chief drew, so what an earlier
// run of the same name left behind is dropped.
// Everybody writes a pulse. Who waits in vain for `patience` looks at the pulses: a chief, or more replicas than the
// backups, that has stopped is UNAVAILABLE and named; a lost backup is not missed. A lost server ends the sessions that
// use it, by its name. A chief may keep checkpoints, and begins from the newest one: after a loss everybody begins
// again, with new sessions, and the chief's first tokens say at which step. Synchronous replicas then end with the very
// variables of an undisturbed run, if they feed by the number of the step.
#ifndef TENON_TRAIN_REPLICAS_H_
#define TENON_TRAIN_REPLICAS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/saver.h"

namespace tenon::train {

struct ReplicaOptions {
  bool synchronous = true;
  int64_t replicas = 1;
  int64_t backups = 0;             // of them, whose gradients a step does not need
  std::string name = "replicas";   // jobs of one name meet
  std::string device;              // where queues and counters stand: "/job:ps/task:0"
  std::chrono::milliseconds patience{10000};
  std::chrono::milliseconds first_patience{60000};  // with those who have not begun
};

// What happened, in the order in which it was seen by who tells it.
struct ReplicaEvent {
  enum class Kind {
    kBegan,    // a replica has its token, and computes
    kArrived,  // the chief counts the replica's gradients for the step
    kLate,     // they came after the step, and are dropped
    kApplied,  // the chief (replica -1), or an asynchronous replica, has changed the variables
  };
  Kind kind;
  int64_t replica;
  int64_t step;
};
using ReplicaObserver = std::function<void(const ReplicaEvent&)>;

// What replicas share in a model's graph. Make it last; every replica and the chief make it alike, but for `number`.
class ReplicaGraph {
 public:
  // number: of the replica, from 0.
  ReplicaGraph(Model& model, Output loss, Output learning_rate, const OptimizerOptions& optimizer,
               const ReplicaOptions& options, int64_t number);

  const ReplicaOptions& options() const { return options_; }

 private:
  friend class ReplicaChief;
  friend class ReplicaClient;

  struct Shared {
    Output handle, value;
  };
  // Where a replica's gradient of a variable stands; rows: of one that is changed by rows.
  struct Box {
    Shared value;
    std::optional<Shared> rows;
  };
  Shared Share(const std::string& name, DType dtype, const Shape& shape, const std::string& device,
               std::vector<Operation>* initial);
  Output MakeQueue(const std::string& name, int64_t words);
  Operation Count(const Operation& after);
  using Boxes = std::vector<std::vector<Box>>;  // by variable and replica
  Box MakeBox(const Variable& variable, const VariableGradient& gradient, int64_t replica,
              std::vector<Operation>* initial);
  void Deliver(const std::vector<VariableGradient>& gradients, const Boxes& boxes);
  void Apply(const Boxes& boxes, Output learning_rate, const OptimizerOptions& optimizer);
  VariableGradient MeanOf(const std::vector<Box>& boxes);
  Operation GiveTokens(const std::vector<Operation>& after);

  Model& model_;
  ReplicaOptions options_;
  int64_t number_;
  Output loss_, global_step_, step_value_;
  Operation initialize_, update_, first_tokens_, applied_;
  Output token_, message_, share_;  // fed
  std::vector<Output> uses_;        // fed: whether a replica's boxes count
  Output arrival_, newest_, after_;  // fetched
  std::vector<Output> tokens_;      // queues
  std::vector<Shared> pulses_;                 // of the replicas, and of the chief
  std::vector<Operation> beats_;
};

// Beats at the server as long as it lives.
class ReplicaPulse {
 public:
  ReplicaPulse(const Session& session, const Operation& beat, std::chrono::milliseconds period);
  ~ReplicaPulse();

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

// One replica. Used by one thread.
class ReplicaClient {
 public:
  // feeds, metrics: of the step. The session, which the graph extends, outlives it.
  static Result<std::unique_ptr<ReplicaClient>> Begin(Session& session, const ReplicaGraph& graph,
                                                      const std::vector<Output>& feeds,
                                                      const std::vector<Output>& metrics = {});

  ReplicaObserver on_event;

  // Waits for the step to compute next, and gives its number: how many were applied before it. ABORTED when the chief
  // has given up.
  Result<int64_t> Next();
  // Computes it, and delivers or applies the gradients. Gives the loss and the metrics.
  Result<std::vector<Tensor>> Step(const std::vector<View>& feeds);

 private:
  ReplicaClient(Session& session, const ReplicaGraph& graph) : session_(session), graph_(graph) {}
  Result<int64_t> Token();

  Session& session_;
  const ReplicaGraph& graph_;
  std::optional<host::Callable> step_, newest_;
  std::unique_ptr<ReplicaPulse> pulse_;
  int64_t run_ = 0;  // the chief's number
  int64_t number_ = -1;  // of the step
  bool began_ = false;
};

// What a chief keeps of the model's variables, between its steps; while asynchronous replicas go on, each variable
// whole, but perhaps of different steps.
struct ReplicaKeeping {
  Saver* saver = nullptr;  // made of the chief's graph after all else, outlives the chief; asynchronous: its
                           // step_variable is "". nullptr: nothing is kept
  int64_t steps = 0;       // a checkpoint after so many steps; 0: not by steps
  double seconds = 0;      // or so much time; 0: not by time
};

// The one that initialises, and in synchronous training applies. Used by one thread.
class ReplicaChief {
 public:
  // Gives the variables their first values, or those of the newest checkpoint, and every replica its first token.
  static Result<std::unique_ptr<ReplicaChief>> Begin(Session& session, const ReplicaGraph& graph,
                                                     const ReplicaKeeping& keeping = {});
  // Tells the replicas that there is no more, unless all steps were done.
  ~ReplicaChief();

  ReplicaObserver on_event;
  const std::atomic<bool>* stop = nullptr;  // becomes true: Run keeps what it has, and ends
  // The contributors of each step, to force: a recorded run's.
  std::vector<std::vector<int64_t>> forced;

  // Synchronous: applies steps until so many were applied (or `stop`: step() says how many), those of the checkpoint
  // that it began with among them. The last is kept too.
  Status Run(int64_t steps);
  // A checkpoint, where one is due (or now) and so many steps were applied. Run does it by itself; asynchronous:
  // whoever counts the steps calls it.
  Status Keep(int64_t step, bool now = false);
  // How many steps were applied, as far as the chief knows: asynchronous, when it began.
  int64_t step() const { return step_; }
  // What the beginning passed over, and why.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Whose gradients each step was made of, in their order.
  const std::vector<std::vector<int64_t>>& contributors() const { return contributors_; }

 private:
  ReplicaChief(Session& session, const ReplicaGraph& graph, const ReplicaKeeping& keeping)
      : session_(session), graph_(graph), keeping_(keeping) {}
  Status Restore();
  Status Gather(std::vector<bool>* arrived);
  Status Apply(const std::vector<bool>& arrived);
  bool Enough(const std::vector<bool>& arrived) const;
  bool stopped() const { return stop != nullptr && stop->load(); }
  void Tell(ReplicaEvent::Kind kind, int64_t replica, int64_t step) const;

  Session& session_;
  const ReplicaGraph& graph_;
  const ReplicaKeeping keeping_;
  int64_t kept_ = 0;  // the step of the last checkpoint
  std::chrono::steady_clock::time_point kept_at_ = std::chrono::steady_clock::now();
  std::vector<std::string> warnings_;
  std::optional<host::Callable> arrival_, apply_;
  std::unique_ptr<ReplicaPulse> pulse_;
  int64_t run_ = 0;
  int64_t step_ = 0;
  bool done_ = false;
  std::vector<std::vector<int64_t>> contributors_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_REPLICAS_H_
