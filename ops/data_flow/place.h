// SPDX-License-Identifier: Apache-2.0
// A place where steps meet: attempts to put something there or to take something, which stand in line until they can be
// done.
//
// Nobody waits in a thread. What cannot be done at once is an attempt in line; whoever changes the place (another
// step's attempt, a close, a cancellation) finishes on its own thread what can now be done.
//
// Invariants. An attempt is in line or finished; who takes it out of the line, under the mutex, finishes it, without
// the mutex: it ends the subscription (which waits for a cancellation that runs), gives the outputs, and calls done
// once. An attempt holds the place.
#ifndef TENON_OPS_DATA_FLOW_PLACE_H_
#define TENON_OPS_DATA_FLOW_PLACE_H_

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops {

class Place : public std::enable_shared_from_this<Place> {
 public:
  virtual ~Place() = default;
  // Ends all that waits: the place is taken away.
  void Abandon();

 protected:
  enum Side { kPut, kTake };
  // In order: only the first in line is tried. Else all are, in the order in which they came.
  enum class Order { kInOrder, kAny };
  enum class Progress { kNone, kSome, kEnd };  // of a try; kSome: it goes on waiting, and others may go on

  class Attempt;
  using Line = std::list<std::unique_ptr<Attempt>>;
  // Attempts that are finished; they are told when this goes. So it is declared before the lock.
  class Ended {
   public:
    Ended() = default;
    Ended(Ended&&) = default;
    ~Ended() { Finish(std::move(line)); }
    Line line;
  };

  Place(Order puts, Order takes) : orders_{puts, takes} {}

  // Ends with the attempt's end, at once or later, unless it throws.
  void Submit(std::unique_ptr<Attempt> attempt);
  // Below: under the mutex. Tries those in line until none gets on.
  void Advance(Ended* ended);
  // Ends those that wait on this side, with CANCELLED, but for those that a close pleases.
  void Cancel(Side side, std::string_view why, Ended* ended);
  // After Abandon() has cancelled all that waits.
  virtual void OnAbandoned() {}

  mutable std::mutex mutex_;  // guards the place, its lines and their attempts

 private:
  static void Finish(Line finished);
  static void OnCancelled(void* attempt, tenon_status* why);
  bool Serve(Side side, Ended* ended);

  const Order orders_[2];
  Line lines_[2];
};

class Place::Attempt {
 public:
  Attempt(Side side, sdk::RunContext c, sdk::Done done) : context_(c), done_(done), side_(side) {}
  virtual ~Attempt() = default;

  // Under the mutex. What it throws is how the attempt ends.
  virtual Progress Try() = 0;
  // Under the mutex, when it failed: what it has taken goes back. Does not throw.
  virtual void PutBack() noexcept {}
  // "waiting for an element of the FIFOQueue 'q'"
  virtual std::string Waiting() const = 0;
  // Whether a place that takes nothing more is what it wants.
  virtual bool EndsWell() const { return false; }
  // Without the mutex, when it was done.
  virtual void GiveOutputs() {}
  // Without the mutex, the last that is called. self: this.
  virtual void End(std::unique_ptr<Attempt> self, tenon_status* failure);

 protected:
  const sdk::RunContext context_;
  const sdk::Done done_;

 private:
  friend class Place;
  Progress Guarded();

  const Side side_;
  std::shared_ptr<Place> place_;
  uint64_t token_ = 0;
  tenon_status* failure_ = nullptr;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_PLACE_H_
