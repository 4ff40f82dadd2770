// SPDX-License-Identifier: Apache-2.0
// HostCalls: functions of the host that streams call when they get there (Card::CallHost), by numbers in the place of
// addresses.
//
// A driver need not call what it took: of a lost GPU it does not, or late, when nobody knows of it any more. So it has
// a number, which is never used again; the function is its owner's, and goes with the owner at the latest.
//
//   HostCalls calls;                                   // the owner's
//   const uint64_t number = calls.Add([...] { ... });
//   if (!card.CallHost(number, stream).ok()) calls.Drop(number);
//
// Thread-safe.
#ifndef TENON_DEVICES_GPU_HOST_CALLS_H_
#define TENON_DEVICES_GPU_HOST_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace tenon::gpu {

class HostCalls {
 public:
  HostCalls();
  ~HostCalls() { Close(); }
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  // Not after Close(). One runs at a time.
  uint64_t Add(std::function<void()> function);
  // What was not given to a stream.
  void Drop(uint64_t number);
  // No function begins any more, and none is under way when this returns.
  void Close();

  // By the driver's thread, of any number that Add() gave, at most once: runs the function if it is still there.
  static void Run(uint64_t number);

 private:
  struct Owner;
  const std::shared_ptr<Owner> owner_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_HOST_CALLS_H_
