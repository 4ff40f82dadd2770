// SPDX-License-Identifier: Apache-2.0
// Root: one pass over a dataset, from which steps take elements, one each.
//
// Nobody waits in a thread of a step. Who asks gets an element at once where that is possible without waiting;
// otherwise it stands in line, and a task on a thread that may wait makes elements as long as somebody does. An element
// whose asker went away meanwhile is the next asker's.
//
// Invariants. `making_` says who calls the iterator: one at a time. An attempt is in line or finished; who takes it out
// of the line, under the mutex, finishes it without the mutex. An attempt holds the root.
#ifndef TENON_OPS_DATASET_ITERATORS_ROOT_H_
#define TENON_OPS_DATASET_ITERATORS_ROOT_H_

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "base/dataset.h"

namespace tenon::ops {

class Root : public std::enable_shared_from_this<Root> {
 public:
  // What is done in the asker's frame with an element, or at the end: nullptr. It may throw.
  using Give = std::function<void(const sdk::RunContext&, const Element*)>;

  Root(const sdk::RunContext& c, DatasetPtr dataset) : Root(c, std::move(dataset), false) {}
  // A pass that goes on where the one stood whose state this is, as AskState() gave it. INVALID_ARGUMENT, thrown: it is
  // of another pipeline, or damaged.
  Root(const sdk::RunContext& c, DatasetPtr dataset, std::vector<tenon_tensor_view> state);
  ~Root();

  const DatasetPtr& dataset() const { return dataset_; }
  // Ends with done, at once or later, unless it throws. False: nothing happened, since another pass has taken its
  // place.
  bool Ask(sdk::RunContext c, sdk::Done done, Give give);
  // The same, of where the pass stands: uint8 vectors, which go into as many pieces as is good. It comes when those
  // have elements who asked before.
  using GiveState = std::function<void(const sdk::RunContext&, const std::vector<sdk::KeptTensor>&)>;
  void AskState(sdk::RunContext c, sdk::Done done, GiveState give);
  // Another pass takes its place: it ends when those who have asked it have what they asked for, or went away.
  void Leave();

 private:
  Root(const sdk::RunContext& c, DatasetPtr dataset, bool resting);
  // An element, the end, or why there is none.
  struct Made {
    std::optional<Element> element;
    sdk::Outcome failure;
    std::vector<sdk::KeptTensor> state;  // or that
  };
  struct Attempt;
  using Line = std::list<std::unique_ptr<Attempt>>;

  // Without the mutex, by who is `making_`.
  Made Make() noexcept;
  std::optional<Made> MakeAtOnce() noexcept;  // none: it would have to wait
  Made MakeState() noexcept;
  void State(Archive& archive);
  void StandInLine(Attempt attempt, std::unique_lock<std::mutex>* lock);
  std::unique_ptr<Attempt> TakeFirst();
  void EndMaking();
  void GiveUpIfLeft();
  void HandOn(std::unique_lock<std::mutex>* lock);
  void MakeInTask();
  void Work(const sdk::Outcome& outcome);
  void FailLine(const sdk::Outcome& why);
  static void Finish(std::unique_ptr<Attempt> attempt, Made made) noexcept;
  static void OnCancelled(void* attempt, tenon_status* why);

  const sdk::Charge charge_;  // for this, and what the host keeps of its work
  const DatasetPtr dataset_;
  std::optional<sdk::Background> background_;
  Pass pass_;
  IteratorPtr iterator_;
  std::mutex mutex_;  // guards all below
  Line line_;
  std::deque<Made> ready_;  // whose askers went away
  bool making_ = false;
  bool at_once_ = false;  // by an asker that does not stand in line
  bool left_ = false;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_ITERATORS_ROOT_H_
