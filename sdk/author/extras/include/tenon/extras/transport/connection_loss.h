// SPDX-License-Identifier: Apache-2.0
// ConnectionLoss: whether a connection is lost, and why.
#ifndef TENON_SDK_TRANSPORT_CONNECTION_LOSS_H_
#define TENON_SDK_TRANSPORT_CONNECTION_LOSS_H_

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "tenon/sdk/span.h"

namespace tenon::sdk {

// Any thread. It happens once: the first reason stays, and does not change any more, so that it is read without a lock.
// Who lists something that is open looks here under its own lock; who ends all that is open notes the loss before it
// takes that lock, so that nothing is listed that nobody ends.
class ConnectionLoss {
 public:
  bool happened() const { return code_.load(std::memory_order_acquire) != TENON_OK; }
  // False: it has happened before.
  bool Note(uint32_t code, std::string_view why) {
    const std::lock_guard guard(lock_);
    if (happened()) return false;
    why_ = why;
    code_.store(code, std::memory_order_release);
    return true;
  }

  // Once it has happened.
  const std::string& why() const { return why_; }
  tenon_status* Reason() const { return Failure(code_.load(std::memory_order_acquire), why_); }
  // What is open ends with UNAVAILABLE, whatever the reason, but where it is this side's own doing.
  uint32_t code_of_open() const { return code_ == TENON_CANCELLED ? TENON_CANCELLED : TENON_UNAVAILABLE; }
  tenon_status* ReasonOfOpen() const { return Failure(code_of_open(), why_); }

 private:
  std::mutex lock_;  // of those who note it
  std::atomic<uint32_t> code_{TENON_OK};
  std::string why_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_CONNECTION_LOSS_H_
