// SPDX-License-Identifier: Apache-2.0
// Queue: elements that steps hand to one another, and the steps that wait for room or for elements.
//
// Nobody waits in a thread. What cannot be done at once is an attempt that stands in line; whoever changes the queue (another
// step's attempt, a close, a cancellation) finishes on its own thread what can now be done.
//
// Rules, which are TensorFlow's:
// - Attempts of a kind are served in the order in which they came. A dequeue of many takes elements as they come, and gives all
//   or puts them back; an enqueue of many puts elements in as there is room, and what is in stays in.
// - A closed queue takes nothing more: CANCELLED. A dequeue that it cannot fill any more is OUT_OF_RANGE; one of up to n
//   elements gets those that are left, if any.
// - A close waits behind the enqueues that wait, or cancels them. Closing again is CANCELLED, unless it cancels.
// - min_after_dequeue elements stay until the queue is closed.
//
// Invariants. An attempt is in line or finished; who takes it out of the line, under the mutex, finishes it, without the mutex:
// it ends the subscription (which waits for a cancellation that runs), gives the outputs, and calls done once. An attempt
// holds the queue.
#ifndef TENON_OPS_DATA_FLOW_QUEUE_H_
#define TENON_OPS_DATA_FLOW_QUEUE_H_

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "element.h"
#include "tenon/sdk/kernel/random.h"
#include "tenon/sdk/kernel/shared_queue.h"
#include "tenon/sdk/shape.h"

namespace tenon::ops {

struct QueueOptions {
  std::string op;    // "FIFOQueue", for messages
  std::string name;
  std::vector<uint32_t> types;
  std::vector<sdk::Shape> shapes;  // of the components; empty: any
  int64_t capacity = -1;           // negative: no limit
  int64_t min_after_dequeue = 0;
  bool shuffle = false;
  bool padding = false;            // shapes may have unknown dims, and rows are padded
  uint64_t seed = 0, seed2 = 0;    // of the shuffle
};

class Queue : public std::enable_shared_from_this<Queue> {
 public:
  explicit Queue(QueueOptions options);
  ~Queue();

  const QueueOptions& options() const { return options_; }
  // INVALID_ARGUMENT when another node that shares the queue describes it otherwise.
  void CheckSame(const QueueOptions& other) const;

  // Each ends with done, at once or later, unless it throws.
  void Enqueue(sdk::RunContext c, sdk::Done done, std::vector<Element> elements);
  void DequeueOne(sdk::RunContext c, sdk::Done done);
  // The same for another kernel, which gets the element in place of its outputs.
  void TakeOne(sdk::RunContext c, sdk::SharedQueue::Taken taken, void* argument);
  // fewer: what is left of a closed queue will do.
  void DequeueRows(sdk::RunContext c, sdk::Done done, int64_t count, bool fewer);
  void Close(sdk::RunContext c, sdk::Done done);
  void CloseAndCancel() { End("it was closed"); }
  // Ends all that waits: the queue is taken away.
  void Abandon();

  int64_t Size() const;
  bool IsClosed() const;
  // INVALID_ARGUMENT unless a component of this shape may go in.
  void CheckShape(size_t component, const sdk::Shape& shape) const;
  std::string Describe() const { return sdk::Concat(options_.op, " '", options_.name, "'"); }

 private:
  enum class Kind { kEnqueue, kDequeue, kClose };
  struct Attempt;
  using Line = std::list<std::unique_ptr<Attempt>>;

  void Submit(std::unique_ptr<Attempt> attempt);
  // Below: under the mutex. What is finished moves to `finished`.
  void Advance(Line* finished);
  bool TryEnqueue(Attempt* attempt);
  bool TryDequeue(Attempt* attempt);
  Element Take();
  void PutBack(Attempt* attempt);
  // Without the mutex.
  static void Finish(Line finished);
  void GiveOutputs(Attempt* attempt);
  static void GiveTaken(Attempt* attempt, tenon_status* failure);
  void End(const char* why);
  static void OnCancelled(void* attempt, tenon_status* why);

  const QueueOptions options_;
  mutable std::mutex mutex_;  // guards all below
  std::deque<Element> elements_;
  Line enqueues_, dequeues_;  // closes wait among the enqueues
  bool closed_ = false;
  sdk::Philox random_;
  sdk::Philox::Block numbers_ = {};
  size_t numbers_used_ = 4;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_QUEUE_H_
