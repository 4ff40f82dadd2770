// SPDX-License-Identifier: Apache-2.0
// Queue: elements that steps hand to one another, and the steps that wait for room or for elements (place.h).
//
// Rules, which are TensorFlow's:
// - Attempts of a kind are served in the order in which they came. A dequeue of many takes elements as they come, and
// gives all
//   or puts them back; an enqueue of many puts elements in as there is room, and what is in stays in.
// - A closed queue takes nothing more: CANCELLED. A dequeue that it cannot fill any more is OUT_OF_RANGE; one of up to
// n
//   elements gets those that are left, if any.
// - A close waits behind the enqueues that wait, or cancels them. Closing again is CANCELLED, unless it cancels.
// - min_after_dequeue elements stay until the queue is closed.
// - A priority queue gives the element of the smallest first component first; equal ones come in the order of a binary
// heap. What differs: TensorFlow's priority queue loses what is left of it to a dequeue of up to n, when it is closed
// and has fewer.
#ifndef TENON_OPS_DATA_FLOW_QUEUE_H_
#define TENON_OPS_DATA_FLOW_QUEUE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "element.h"
#include "place.h"
#include "tenon/extras/kernel/random.h"
#include "tenon/extras/kernel/shared_queue.h"
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
  bool priority = false;           // the first component is a scalar of int64
  bool padding = false;            // shapes may have unknown dims, and rows are padded
  uint64_t seed = 0, seed2 = 0;    // of the shuffle
};

class Queue final : public Place {
 public:
  explicit Queue(QueueOptions options);

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
  void CloseAndCancel() { (void)ClosedNow(); }

  // For a place that has a queue in it, and calls this under its own mutex: whom it frees is told when the result goes,
  // which is after that. Elements for which there is room.
  [[nodiscard]] Ended PutNow(std::vector<Element> elements);
  [[nodiscard]] Ended ClosedNow();

  int64_t Size() const;
  bool IsClosed() const;
  // INVALID_ARGUMENT unless a component of this shape may go in.
  void CheckShape(size_t component, const sdk::Shape& shape) const;
  std::string Describe() const { return sdk::Concat(options_.op, " '", options_.name, "'"); }
  using Place::Ended;

 private:
  class Putting;
  class Closing;
  class Taking;
  class TakingForAnother;

  void OnAbandoned() override { closed_ = true; }
  // Below: under the mutex.
  bool HasRoom() const { return options_.capacity < 0 || static_cast<int64_t>(elements_.size()) < options_.capacity; }
  void Add(Element element);
  Element Take();
  void PutBack(std::vector<Element>* elements) noexcept;

  const QueueOptions options_;
  // The mutex guards all below.
  std::deque<Element> elements_;  // of a priority queue: a heap
  bool closed_ = false;
  sdk::Philox random_;
  sdk::Philox::Block numbers_ = {};
  size_t numbers_used_ = 4;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_QUEUE_H_
