// SPDX-License-Identifier: Apache-2.0
#include "place.h"

#include <algorithm>

namespace tenon::ops {
using namespace sdk;

void Place::Submit(std::unique_ptr<Attempt> attempt) {
  Line own;
  own.push_back(std::move(attempt));
  Ended ended;
  const std::lock_guard lock(mutex_);
  Attempt& added = *own.front();
  added.place_ = shared_from_this();
  const RunContext& c = added.context_;
  added.token_ = c.services().cancel_subscribe(c.frame(), &OnCancelled, &added);
  if (added.token_ == 0) Fail(TENON_CANCELLED, "the step was cancelled before ", added.Waiting());
  // From here on nothing is thrown: a cancellation knows the attempt.
  lines_[added.side_].splice(lines_[added.side_].end(), own);
  Advance(&ended);
}

Place::Progress Place::Attempt::Guarded() {
  try {
    return Try();
  } catch (...) {
    failure_ = CurrentFailure();
    PutBack();
    return Progress::kEnd;
  }
}

bool Place::Serve(Side side, Ended* ended) {
  Line& line = lines_[side];
  bool moved = false;
  for (auto at = line.begin(); at != line.end();) {
    const auto tried = at++;
    const Progress progress = (*tried)->Guarded();
    moved |= progress != Progress::kNone;
    if (progress == Progress::kEnd) ended->line.splice(ended->line.end(), line, tried);
    else if (orders_[side] == Order::kInOrder) break;
  }
  return moved;
}

void Place::Advance(Ended* ended) {
  // Room lets a put go on, and what it brings a take.
  for (bool moved = true; moved;) {
    moved = Serve(kPut, ended);
    moved |= Serve(kTake, ended);
  }
}

void Place::Cancel(Side side, std::string_view why, Ended* ended) {
  for (const auto& attempt : lines_[side]) {
    if (attempt->EndsWell()) continue;
    attempt->failure_ = Failure(TENON_CANCELLED, attempt->Waiting(), ": ", why);
    attempt->PutBack();
  }
  ended->line.splice(ended->line.end(), lines_[side]);
}

void Place::Abandon() {
  Ended ended;
  const std::lock_guard lock(mutex_);
  for (const Side side : {kTake, kPut}) Cancel(side, "it was taken away", &ended);
  OnAbandoned();
}

// ---- Ends ----

void Place::OnCancelled(void* argument, tenon_status* why) {
  auto* const cancelled = static_cast<Attempt*>(argument);  // lives: who finishes it waits for this to return
  const std::shared_ptr<Place> place = cancelled->place_;
  Ended ended;
  const std::lock_guard lock(place->mutex_);
  Line& line = place->lines_[cancelled->side_];
  const auto at =
      std::find_if(line.begin(), line.end(), [cancelled](const auto& each) { return each.get() == cancelled; });
  if (at == line.end()) return tenon_plugin_host->status_release(why);  // it ends just now
  cancelled->PutBack();
  cancelled->failure_ = why;
  ended.line.splice(ended.line.end(), line, at);
  place->Advance(&ended);
}

void Place::Attempt::End(std::unique_ptr<Attempt> self, tenon_status* failure) {
  const Done done = done_;
  self.reset();  // the frame ends with done
  done(failure);
}

void Place::Finish(Line finished) {
  while (!finished.empty()) {
    std::unique_ptr<Attempt> attempt = std::move(finished.front());
    finished.pop_front();
    const RunContext& c = attempt->context_;
    (void)c.services().cancel_unsubscribe(c.frame(), attempt->token_);
    Attempt& ending = *attempt;
    tenon_status* failure = ending.failure_;
    Ended freed;
    if (failure == nullptr) {
      try {
        ending.GiveOutputs();
      } catch (...) {
        failure = CurrentFailure();
        // Somebody else may have memory for what it has taken.
        const std::lock_guard lock(ending.place_->mutex_);
        ending.PutBack();
        ending.place_->Advance(&freed);
      }
    }
    ending.End(std::move(attempt), failure);
  }
}

}  // namespace tenon::ops
