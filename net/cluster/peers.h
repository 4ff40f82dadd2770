// SPDX-License-Identifier: Apache-2.0
// Peers: the other tasks that this one's steps exchange values with, and whether they still answer.
//
// The master asks each task whether it lives; that two tasks reach each other it cannot know. So a task makes sure,
// when a part is registered, that each peer is the start of the task that the master means, and while a step lasts long
// it asks the step's peers. A connection over which nothing comes back for as long as the step's session has patience
// is given up, so that the next one is made anew: after a machine has been replaced, nobody else says that the old one
// will never answer. Threads: any.
#ifndef TENON_NET_CLUSTER_PEERS_H_
#define TENON_NET_CLUSTER_PEERS_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "net/cluster/network.h"
#include "net/cluster/packet.h"

namespace tenon::cluster {

class Peers {
 public:
  // A peer of steps that last, and the patience of the most patient of their sessions.
  struct Busy {
    Task peer;
    uint64_t patience_ns = 0;
  };
  // Of a session whose master waits so long for a silent task (0: it did not say): shorter, so that who is cut off from
  // a peer alone names it before the step is given up for another reason.
  static uint64_t PatienceOf(uint64_t silence_ns);

  // Runs it soon on another thread, which may wait.
  using Later = std::function<void(std::function<void()> work)>;
  // A peer of a step that lasts does not answer.
  using Silent = std::function<void(const std::string& address, std::string_view why)>;

  Peers(Network* network, Later later, Silent silent)
      : network_(network), later_(std::move(later)), silent_(std::move(silent)) {}

  // Waits until the peer has answered, and is the start of the task that has `peer.incarnation()`. A connection that
  // was made to an earlier start is given up. The error names the peer.
  Status Verify(const Task& peer, uint64_t patience_ns);
  // Asks those who have not been asked, and tells of those who do not answer. To be called every quarter of a second.
  void Look(const std::map<std::string, Busy>& busy, uint64_t now_ns);

 private:
  // The incarnation of whoever answers at this connection.
  Result<uint64_t> Incarnation(Connection& connection, uint64_t deadline_ns) const;
  void Ask(const Busy& one);
  void Answered(const Task& peer, const Status& status);

  Network* const network_;
  const Later later_;
  const Silent silent_;
  std::mutex mutex_;
  std::map<std::string, uint64_t> asked_ns_;  // by address; 0: no question is open
  uint64_t looked_ns_ = 0;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_PEERS_H_
