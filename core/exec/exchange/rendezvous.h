// SPDX-License-Identifier: Apache-2.0
// Rendezvous: where the parts (partitions) of one step meet. A value waits here for its receiver, or a receiver for its
// value.
//
// A key names a value: the channel (a number that was fixed when the graph was partitioned) and the turns (iterations)
// of the loops around it. The step and the plan are the rendezvous itself, which serves one step at a time. A value may
// be dead: it comes from a branch that was not taken, and travels as that one bit.
//
// Rules. Send never waits. What is received is given to one receiver; what never is, is released by Clear or the
// destructor. A second value or a second receiver for a key that is still open is an error. After Abort all receivers,
// waiting and to come, get its status. Any thread; receivers are called without any lock held, on the thread that
// sends, aborts or receives.
#ifndef TENON_CORE_EXEC_EXCHANGE_RENDEZVOUS_H_
#define TENON_CORE_EXEC_EXCHANGE_RENDEZVOUS_H_

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/exec/exchange/rendezvous_key.h"
#include "core/tensor/tensor.h"

namespace tenon::exec {

// A value in the host's memory on its way, or a dead one. Holds a reference to its buffer.
class Message {
 public:
  Message() = default;  // dead
  // Takes over one reference to the view's buffer, in which its dims stand too.
  explicit Message(const tenon_tensor_view& owned) : view_(owned), dead_(false) {}
  // What the view shows: the same memory where nobody will change it (it is read only, or its buffer has no other
  // owner), else a copy.
  static Result<Message> Of(const tenon_tensor_view& view, BufferPool* pool);
  Message(Message&& other) noexcept : view_(other.view_), dead_(other.dead_) { other.view_.buffer = nullptr; }
  Message& operator=(Message&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(dead_, other.dead_);
    return *this;
  }
  ~Message() {
    if (view_.buffer != nullptr) Release(view_.buffer);
  }

  bool dead() const { return dead_; }
  const tenon_tensor_view& view() const { return view_; }
  // Gives the reference away.
  tenon_tensor_view Take() {
    const tenon_tensor_view view = view_;
    view_.buffer = nullptr;
    return view;
  }

 private:
  tenon_tensor_view view_{};
  bool dead_ = true;
};

class Rendezvous {
 public:
  using Receiver = std::function<void(Result<Message> message)>;

  // names: of the channels, for errors; outlives it.
  Rendezvous(BufferPool* pool, const std::vector<std::string>* names) : pool_(pool), names_(names) {}
  virtual ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Of memory for what must be copied.
  BufferPool* pool() const { return pool_; }

  // Where parts stand in several processes, what leaves this one is not kept here.
  // ALREADY_EXISTS when the key has a value that nobody took; the status of Abort after it.
  virtual Status Send(const RendezvousKey& key, Message message);
  // Calls the receiver once: now, when the value is there, or later.
  virtual void Receive(const RendezvousKey& key, Receiver receiver);
  // Waits for the value. deadline_ns: of the monotonic clock; 0: none.
  Result<Message> Await(const RendezvousKey& key, uint64_t deadline_ns = 0);
  // Whether a receiver waited; it will not be called.
  bool Cancel(const RendezvousKey& key);

  // The first status counts.
  void Abort(Status status);
  // Ready for the next step. Nobody may wait.
  void Clear();

  // Of all steps: values sent, the dead ones among them, and the bytes of the others.
  struct Counts {
    int64_t messages = 0, dead = 0;
    uint64_t bytes = 0;
  };
  Counts counts() const;
  // Whether the value is there, and nobody has taken it.
  bool Has(const RendezvousKey& key) const;
  // Values that nobody has taken yet.
  size_t waiting() const;

  // "channel 3 ('edge_3_x'), turn 2/0", for errors.
  std::string Describe(const RendezvousKey& key) const;

 private:
  struct Hash {
    size_t operator()(const RendezvousKey& key) const;
  };
  struct Entry {
    Message message;
    Receiver receiver;  // empty: the value waits
  };
  using Table = std::unordered_map<RendezvousKey, Entry, Hash>;
  void Put(const RendezvousKey& key, Entry entry);
  Entry TakeOut(Table::iterator at);

  BufferPool* const pool_;
  const std::vector<std::string>* const names_;
  mutable std::mutex mutex_;
  Table table_;
  std::vector<Table::node_type> spare_;  // so that steady steps allocate nothing here
  Status aborted_;
  Counts counts_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_EXCHANGE_RENDEZVOUS_H_
