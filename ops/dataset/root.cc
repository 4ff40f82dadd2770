// SPDX-License-Identifier: Apache-2.0
#include "root.h"

#include <algorithm>
#include <utility>

namespace tenon::ops {
using namespace sdk;

struct Root::Attempt {
  RunContext context;
  Done done;
  Give give;
  std::shared_ptr<Root> root;
  uint64_t token = 0;
};

Root::Root(const RunContext& c, DatasetPtr dataset)
    : dataset_(std::move(dataset)), background_(std::in_place, c, dataset_->who()), pass_(background_->work()), iterator_(dataset_->NewIterator(pass_)) {}

Root::~Root() {
  background_.reset();  // what is under way ends first
  iterator_.reset();
}

void Root::Ask(RunContext c, Done done, Give give) {
  std::unique_lock lock(mutex_);
  const bool first = line_.empty() && !making_;
  std::optional<Made> made;
  if (first && !ready_.empty()) {
    made = std::move(ready_.front());
    ready_.pop_front();
  } else if (first) {
    making_ = true;
    lock.unlock();
    made = MakeAtOnce();
    lock.lock();
    HandOn(&lock);  // to those who have come meanwhile
  }
  if (made.has_value()) {
    lock.unlock();
    return Finish(std::make_unique<Attempt>(Attempt{c, done, std::move(give), nullptr}), std::move(*made));
  }
  auto attempt = std::make_unique<Attempt>(Attempt{c, done, std::move(give), shared_from_this()});
  attempt->token = c.services().cancel_subscribe(c.frame(), &OnCancelled, attempt.get());
  if (attempt->token == 0) Fail(TENON_CANCELLED, "the step was cancelled before it came to the iterator");
  line_.push_back(std::move(attempt));  // from here on nothing is thrown: a cancellation knows it
  if (!making_) HandOn(&lock);
}

// Whoever is in line gets a task that makes elements.
void Root::HandOn(std::unique_lock<std::mutex>* lock) {
  making_ = !line_.empty();
  if (!making_) return;
  lock->unlock();
  MakeInTask();
  lock->lock();
}

std::optional<Root::Made> Root::MakeAtOnce() noexcept {
  if (!dataset_->waits()) return Make();
  Made made;
  try {
    Element element;
    const Iterator::Poll poll = iterator_->TryNext(&element);
    if (poll == Iterator::Poll::kLater) return std::nullopt;
    if (poll == Iterator::Poll::kElement) made.element = std::move(element);
  } catch (...) {
    made.failure = TakeStatus(CurrentFailure());
  }
  return made;
}

Root::Made Root::Make() noexcept {
  Made made;
  try {
    Element element;
    if (iterator_->Next(&element)) made.element = std::move(element);
  } catch (...) {
    made.failure = TakeStatus(CurrentFailure());
  }
  return made;
}

void Root::MakeInTask() {
  try {
    pass_.work().Schedule(0, [root = shared_from_this()](const Outcome& outcome) { root->Work(outcome); }, TENON_WORK_MAY_WAIT);
  } catch (...) {
    FailLine(TakeStatus(CurrentFailure()));
  }
}

void Root::Work(const Outcome& outcome) {
  if (!outcome.ok()) return FailLine(outcome);
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (line_.empty()) {
        making_ = false;
        return;
      }
    }
    Made made = Make();
    std::unique_ptr<Attempt> attempt;
    {
      const std::lock_guard lock(mutex_);
      if (line_.empty()) {
        ready_.push_back(std::move(made));
        making_ = false;
        return;
      }
      attempt = std::move(line_.front());
      line_.pop_front();
    }
    Finish(std::move(attempt), std::move(made));
  }
}

void Root::FailLine(const Outcome& why) {
  Line failed;
  {
    const std::lock_guard lock(mutex_);
    failed.swap(line_);
    making_ = false;
  }
  for (std::unique_ptr<Attempt>& attempt : failed) Finish(std::move(attempt), {std::nullopt, why});
}

void Root::OnCancelled(void* argument, tenon_status* why) {
  auto* const cancelled = static_cast<Attempt*>(argument);  // lives: who finishes it waits for this to return
  const std::shared_ptr<Root> root = cancelled->root;
  const Outcome outcome = TakeStatus(why);
  std::unique_ptr<Attempt> own;
  {
    const std::lock_guard lock(root->mutex_);
    const auto at = std::find_if(root->line_.begin(), root->line_.end(), [cancelled](const auto& each) { return each.get() == cancelled; });
    if (at == root->line_.end()) return;  // it ends just now
    own = std::move(*at);
    root->line_.erase(at);
  }
  Finish(std::move(own), {std::nullopt, outcome});
}

void Root::Finish(std::unique_ptr<Attempt> attempt, Made made) noexcept {
  const RunContext& c = attempt->context;
  if (attempt->token != 0) (void)c.services().cancel_unsubscribe(c.frame(), attempt->token);
  tenon_status* status = nullptr;
  try {
    if (!made.failure.ok()) Fail(made.failure.code, made.failure.message);
    attempt->give(c, made.element ? &*made.element : nullptr);
  } catch (...) {
    status = CurrentFailure();
  }
  const Done done = attempt->done;
  attempt.reset();
  done(status);
}

}  // namespace tenon::ops
