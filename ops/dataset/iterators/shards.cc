// SPDX-License-Identifier: Apache-2.0
#include "iterators/shards.h"

#include <algorithm>
#include <utility>

namespace tenon::ops {
using namespace sdk;

namespace {
constexpr uint64_t kShardBackgroundBytes = 1536;  // what the host keeps of its work
constexpr uint64_t kShardBytes = 768;        // of one, with its empty lists
}  // namespace

struct Shards::Attempt {
  RunContext context;
  Done done;
  Give give;
  std::shared_ptr<Shards> pass;
  Line* line = nullptr;
  uint64_t token = 0;
};

Shards::Shards(const RunContext& c, DatasetPtr dataset, size_t count, int64_t most, int64_t incarnation)
    : charge_(c, sizeof(Shards) + kShardBackgroundBytes + count * kShardBytes),
      dataset_(std::move(dataset)),
      most_(most),
      incarnation_(incarnation),
      background_(std::in_place, c, dataset_->who()),
      pass_(background_->work(), *dataset_),
      iterator_(dataset_->NewIterator(pass_)),
      shards_(count) {}

Shards::~Shards() {
  background_.reset();  // what is under way ends first
  iterator_.reset();
}

void Shards::Ask(RunContext c, Done done, int64_t shard, Give give) {
  if (shard < 0 || shard >= static_cast<int64_t>(shards_.size()))
    Fail(TENON_INVALID_ARGUMENT, "shard_num is ", shard, "; there are ", shards_.size(), " shards, from 0 on");
  std::unique_lock lock(mutex_);
  if (left_)
    Fail(TENON_CANCELLED,
         "Cancelled Multidevice iterator: another pass has taken the place of this one, or it was deleted");
  Shard& its = shards_[static_cast<size_t>(shard)];
  if (!its.ready.empty() || ended_) {
    Made made;
    if (!its.ready.empty()) {
      made = std::move(its.ready.front());
      its.ready.pop_front();
    }
    Wake(&lock);
    lock.unlock();
    Finish(std::make_unique<Attempt>(Attempt{c, done, std::move(give), nullptr}), std::move(made));
    return;
  }
  Line one;
  one.push_back(std::make_unique<Attempt>(Attempt{c, done, std::move(give), shared_from_this(), &its.line}));
  Attempt& attempt = *one.front();
  attempt.token = c.services().cancel_subscribe(c.frame(), &OnCancelled, &attempt);
  if (attempt.token == 0) Fail(TENON_CANCELLED, "the step was cancelled before it came to the iterator");
  its.line.splice(its.line.end(), one);  // from here on nothing is thrown: a cancellation knows it
  Wake(&lock);
}

void Shards::Leave() {
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    pass_.GiveUp();
  }
  EndAll({std::nullopt,
          {TENON_CANCELLED,
           "Cancelled Multidevice iterator: another pass has taken the place of this one, or it was deleted"}});
}

// Both under the mutex. Behind a failure a buffer takes nothing until somebody has it: where memory is short, what is
// made meanwhile would be lost too.
bool Shards::Wanted() const {
  const Shard& next = shards_[turn_];
  const bool room =
      static_cast<int64_t>(next.ready.size()) < most_ && (next.ready.empty() || next.ready.back().failure.ok());
  return !ended_ && !left_ && (room || !next.line.empty());
}
void Shards::Wake(std::unique_lock<std::mutex>* lock) {
  if (making_ || !Wanted()) return;
  making_ = true;
  lock->unlock();
  Outcome failure;
  try {
    pass_.work().Schedule(
        0, [self = shared_from_this()](const Outcome& outcome) { self->Work(outcome); }, TENON_WORK_MAY_WAIT);
  } catch (...) {
    failure = TakeStatus(CurrentFailure());
  }
  if (!failure.ok()) Work(failure);
  lock->lock();
}

Shards::Made Shards::Make() noexcept {
  Made made;
  try {
    Element element;
    if (iterator_->Next(&element)) made.element = std::move(element);
  } catch (...) {
    made.failure = TakeStatus(CurrentFailure());
  }
  return made;
}

void Shards::Work(const Outcome& outcome) {
  std::unique_lock lock(mutex_);
  while (outcome.ok() && Wanted()) {
    lock.unlock();
    Made made = Make();
    lock.lock();
    if (left_) break;
    if (!made.element.has_value() && made.failure.ok()) {
      ended_ = true;
      break;
    }
    Shard& shard = shards_[turn_];
    turn_ = (turn_ + 1) % shards_.size();
    if (shard.line.empty()) {  // or its asker went away
      shard.ready.push_back(std::move(made));
      continue;
    }
    std::unique_ptr<Attempt> attempt = std::move(shard.line.front());
    shard.line.pop_front();
    lock.unlock();
    Finish(std::move(attempt), std::move(made));
    lock.lock();
  }
  making_ = false;
  const bool ended = ended_;
  lock.unlock();
  if (ended || !outcome.ok()) EndAll({std::nullopt, outcome});
}

// Whoever is in line gets this.
void Shards::EndAll(Made made) {
  Line all;
  {
    const std::lock_guard lock(mutex_);
    for (Shard& shard : shards_) all.splice(all.end(), shard.line);
  }
  for (std::unique_ptr<Attempt>& attempt : all) Finish(std::move(attempt), {std::nullopt, made.failure});
}

void Shards::OnCancelled(void* argument, tenon_status* why) {
  auto* const cancelled = static_cast<Attempt*>(argument);  // lives: who finishes it waits for this to return
  const std::shared_ptr<Shards> pass = cancelled->pass;
  const Outcome outcome = TakeStatus(why);
  std::unique_ptr<Attempt> own;
  {
    const std::lock_guard lock(pass->mutex_);
    Line& line = *cancelled->line;
    const auto at =
        std::find_if(line.begin(), line.end(), [cancelled](const auto& each) { return each.get() == cancelled; });
    if (at == line.end()) return;  // it ends just now
    own = std::move(*at);
    line.erase(at);
  }
  Finish(std::move(own), {std::nullopt, outcome});
}

void Shards::Finish(std::unique_ptr<Attempt> attempt, Made made) noexcept {
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
