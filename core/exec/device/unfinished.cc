// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/unfinished.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/base/plugin_call.h"

namespace tenon::exec {

bool Unfinished::Add(UnfinishedWork* work) noexcept {
  return Guarded([&] {
           std::lock_guard lock(mutex_);
           works_.push_back(work);
           return Status::Ok();
         })
      .ok();
}

bool Unfinished::Remove(UnfinishedWork* work) {
  std::lock_guard lock(mutex_);
  return std::erase(works_, work) != 0;
}

void Unfinished::LookAhead() {
  std::erase_if(works_, [this](UnfinishedWork* work) {
    if (Status status = work->LookAhead(); !status.ok() && failure_.ok()) failure_ = std::move(status);
    return !work->goes_on();
  });
}

Status Unfinished::TakeFailure() {
  std::lock_guard lock(mutex_);
  LookAhead();
  return OfStepBefore(std::exchange(failure_, Status::Ok()));
}

void Unfinished::Told(const Status& failure) {
  std::lock_guard lock(mutex_);
  LookAhead();
  if (!failure_.ok() && failure.message().find(failure_.message()) != std::string_view::npos) failure_ = Status::Ok();
}

Status Unfinished::OfStepBefore(Status failure) {
  return failure.ok() ? failure
                      : std::move(failure).Annotate("a step that had returned before its device was done with it");
}

void Unfinished::Tell(Status failure) {
  std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = std::move(failure);
}

bool Unfinished::End() {
  std::lock_guard lock(mutex_);
  bool all_ended = true;
  for (UnfinishedWork* work : works_) {
    if (Status status = work->AwaitAhead(); !status.ok() && failure_.ok()) failure_ = std::move(status);
    all_ended = all_ended && !work->abandoned();
  }
  works_.clear();
  if (!failure_.ok())
    Log(TENON_LOG_ERROR,
        StrCat("at the end of the session: ", OfStepBefore(std::exchange(failure_, Status::Ok())).message()));
  return all_ended;
}

}  // namespace tenon::exec
