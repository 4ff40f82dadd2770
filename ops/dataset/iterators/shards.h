// SPDX-License-Identifier: Apache-2.0
// Shards: one pass over a dataset whose elements are dealt to shards in turn: element n to shard n % count, whoever
// asks first. What is dealt to a shard that nobody asks waits in its buffer, of up to `most` elements; a full buffer
// keeps the others waiting, so that the deal is the same whatever the threads.
//
// Nobody waits in a thread of a step: who asks stands in line at its shard, and a task on a thread that may wait makes
// elements as long as the shard whose turn it is has room for one, or somebody in line. It begins when somebody asks
// for the first time. An element whose asker went away is the next asker's of that shard.
//
// Invariants. `making_` says that there is a task; it alone calls the iterator. A shard has a line or elements, never
// both. An attempt is in line or finished: who takes it out of the line, under the mutex, finishes it without the
// mutex. An attempt holds the pass.
#ifndef TENON_OPS_DATASET_ITERATORS_SHARDS_H_
#define TENON_OPS_DATASET_ITERATORS_SHARDS_H_

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/dataset.h"

namespace tenon::ops {

class Shards : public std::enable_shared_from_this<Shards> {
 public:
  // What is done in the asker's frame with an element, or at the end: nullptr. It may throw.
  using Give = std::function<void(const sdk::RunContext&, const Element*)>;

  Shards(const sdk::RunContext& c, DatasetPtr dataset, size_t count, int64_t most, int64_t incarnation);
  ~Shards();

  int64_t incarnation() const { return incarnation_; }
  // The next element of a shard. Ends with done, at once or later, unless it throws: INVALID_ARGUMENT, there is no such
  // shard; CANCELLED, another pass has taken its place.
  void Ask(sdk::RunContext c, sdk::Done done, int64_t shard, Give give);
  // Nobody will have anything any more: those in line get CANCELLED.
  void Leave();

 private:
  // An element, the end, or why there is none.
  struct Made {
    std::optional<Element> element;
    sdk::Outcome failure;
  };
  struct Attempt;
  using Line = std::list<std::unique_ptr<Attempt>>;
  struct Shard {
    std::deque<Made> ready;
    Line line;
  };

  bool Wanted() const;
  void Wake(std::unique_lock<std::mutex>* lock);
  void Work(const sdk::Outcome& outcome);
  Made Make() noexcept;
  void EndAll(Made made);
  static void Finish(std::unique_ptr<Attempt> attempt, Made made) noexcept;
  static void OnCancelled(void* attempt, tenon_status* why);

  const sdk::Charge charge_;  // for this, and the shards
  const DatasetPtr dataset_;
  const int64_t most_, incarnation_;
  std::optional<sdk::Background> background_;
  Pass pass_;
  IteratorPtr iterator_;
  std::mutex mutex_;  // guards all below
  std::vector<Shard> shards_;
  size_t turn_ = 0;  // the shard that the next element is dealt to
  bool making_ = false, ended_ = false, left_ = false;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_ITERATORS_SHARDS_H_
