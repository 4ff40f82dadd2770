// SPDX-License-Identifier: Apache-2.0
#include "iterators/root.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/archive.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kFormat = "tenon pass 2";
constexpr uint64_t kBackgroundBytes = 1536;

}  // namespace

struct Root::Attempt {
  RunContext context;
  Done done;
  Give give;
  GiveState give_state;  // or that
  std::shared_ptr<Root> root;
  uint64_t token = 0;
};

Root::Root(const RunContext& c, DatasetPtr dataset, bool resting)
    : charge_(c, sizeof(Root) + kBackgroundBytes),
      dataset_(std::move(dataset)),
      background_(std::in_place, c, dataset_->who()),
      pass_(background_->work(), *dataset_, resting, &c.services()),
      iterator_(dataset_->NewIterator(pass_)) {}

Root::Root(const RunContext& c, DatasetPtr dataset, std::vector<tenon_tensor_view> state)
    : Root(c, std::move(dataset), true) {
  Archive archive(pass_, std::move(state));
  State(archive);
  archive.CheckEnd();
  pass_.Go();
}

Root::~Root() {
  background_.reset();  // what is under way ends first
  iterator_.reset();
}

bool Root::Ask(RunContext c, Done done, Give give) {
  std::unique_lock lock(mutex_);
  if (left_ && line_.empty()) return false;
  const bool first = line_.empty() && !making_;
  std::optional<Made> made;
  if (first && !ready_.empty()) {
    made = std::move(ready_.front());
    ready_.pop_front();
  } else if (first) {
    making_ = at_once_ = true;
    lock.unlock();
    made = MakeAtOnce();
    lock.lock();
    at_once_ = false;
    GiveUpIfLeft();
    HandOn(&lock);  // to those who have come meanwhile
  }
  if (made.has_value()) {
    lock.unlock();
    Finish(std::make_unique<Attempt>(Attempt{c, done, std::move(give), nullptr, nullptr}), std::move(*made));
    return true;
  }
  StandInLine({c, done, std::move(give), nullptr, shared_from_this()}, &lock);
  return true;
}

void Root::AskState(RunContext c, Done done, GiveState give) {
  std::unique_lock lock(mutex_);
  StandInLine({c, done, nullptr, std::move(give), shared_from_this()}, &lock);
}

void Root::StandInLine(Attempt attempt, std::unique_lock<std::mutex>* lock) {
  Line one;
  one.push_back(std::make_unique<Attempt>(std::move(attempt)));
  Attempt& its = *one.front();
  its.token = its.context.services().cancel_subscribe(its.context.frame(), &OnCancelled, &its);
  if (its.token == 0) Fail(TENON_CANCELLED, "the step was cancelled before it came to the iterator");
  line_.splice(line_.end(), one);  // from here on nothing is thrown: a cancellation knows it
  if (!making_) HandOn(lock);
}

void Root::Leave() {
  const std::lock_guard lock(mutex_);
  left_ = true;
  GiveUpIfLeft();
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

Root::Made Root::MakeState() noexcept {
  Made made;
  try {
    Archive archive(pass_);
    State(archive);
    made.state = archive.Take();
  } catch (...) {
    made.failure = TakeStatus(CurrentFailure());
  }
  return made;
}

void Root::State(Archive& archive) {
  std::string format(kFormat);
  archive.Text(format, kFormat.size());
  if (format != kFormat) archive.Refuse("it is of another version");
  {
    const std::lock_guard lock(mutex_);
    archive.ListOf(ready_, INT64_MAX, [&archive](Made& made) {
      archive.Failure(made.failure);
      bool some = made.element.has_value();
      archive.Flag(some);
      if (!some) return;
      if (archive.reading()) made.element.emplace();
      archive.Values(*made.element);
    });
  }
  archive.There(*dataset_, iterator_);
}

void Root::MakeInTask() {
  try {
    pass_.work().Schedule(
        0, [root = shared_from_this()](const Outcome& outcome) { root->Work(outcome); }, TENON_WORK_MAY_WAIT);
  } catch (...) {
    FailLine(TakeStatus(CurrentFailure()));
  }
}

void Root::Work(const Outcome& outcome) {
  if (!outcome.ok()) return FailLine(outcome);
  for (;;) {
    std::optional<Made> made;
    std::unique_ptr<Attempt> asks_state;
    {
      const std::lock_guard lock(mutex_);
      if (line_.empty()) {
        EndMaking();
        return;
      }
      if (line_.front()->give_state != nullptr) {
        asks_state = TakeFirst();
      } else if (!ready_.empty()) {
        made = std::move(ready_.front());
        ready_.pop_front();
      }
    }
    if (asks_state != nullptr) {
      Finish(std::move(asks_state), MakeState());
      continue;
    }
    if (!made.has_value()) made = Make();
    std::unique_ptr<Attempt> attempt;
    {
      const std::lock_guard lock(mutex_);
      if (line_.empty() || line_.front()->give_state != nullptr) {  // its asker went away
        ready_.push_front(std::move(*made));
        continue;
      }
      attempt = TakeFirst();
    }
    Finish(std::move(attempt), std::move(*made));
  }
}

// The three under the mutex.
std::unique_ptr<Root::Attempt> Root::TakeFirst() {
  std::unique_ptr<Attempt> attempt = std::move(line_.front());
  line_.pop_front();
  return attempt;
}
void Root::EndMaking() {
  making_ = false;
  GiveUpIfLeft();
}
void Root::GiveUpIfLeft() {
  if (left_ && line_.empty() && !at_once_) pass_.GiveUp();
}

void Root::FailLine(const Outcome& why) {
  Line failed;
  {
    const std::lock_guard lock(mutex_);
    failed.swap(line_);
    EndMaking();
  }
  for (std::unique_ptr<Attempt>& attempt : failed) Finish(std::move(attempt), {std::nullopt, why, {}});
}

void Root::OnCancelled(void* argument, tenon_status* why) {
  auto* const cancelled = static_cast<Attempt*>(argument);  // lives: who finishes it waits for this to return
  const std::shared_ptr<Root> root = cancelled->root;
  const Outcome outcome = TakeStatus(why);
  std::unique_ptr<Attempt> own;
  {
    const std::lock_guard lock(root->mutex_);
    const auto at = std::find_if(root->line_.begin(), root->line_.end(),
                                 [cancelled](const auto& each) { return each.get() == cancelled; });
    if (at == root->line_.end()) return;  // it ends just now
    own = std::move(*at);
    root->line_.erase(at);
    root->GiveUpIfLeft();
  }
  Finish(std::move(own), {std::nullopt, outcome, {}});
}

void Root::Finish(std::unique_ptr<Attempt> attempt, Made made) noexcept {
  const RunContext& c = attempt->context;
  if (attempt->token != 0) (void)c.services().cancel_unsubscribe(c.frame(), attempt->token);
  tenon_status* status = nullptr;
  try {
    if (!made.failure.ok()) Fail(made.failure.code, made.failure.message);
    if (attempt->give_state != nullptr) attempt->give_state(c, made.state);
    else attempt->give(c, made.element ? &*made.element : nullptr);
  } catch (...) {
    status = CurrentFailure();
  }
  const Done done = attempt->done;
  attempt.reset();
  done(status);
}

}  // namespace tenon::ops
