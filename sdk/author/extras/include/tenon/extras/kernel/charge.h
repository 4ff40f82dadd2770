// SPDX-License-Identifier: Apache-2.0
// Memory that a plugin keeps beyond a call beside tensors (kept_tensor.h), charged to the session that it is for: a
// record, or what a container holds.
//
//   Charge charge_(c, sizeof(Thing));                                       // as long as the object that has it
//   std::map<int64_t, Thing, std::less<>, ChargingAllocator<...>> things_(ChargingAllocator<...>(Account(c)));
//
// RESOURCE_EXHAUSTED leaves as a KernelError, before the memory is taken. Any thread. In a host that charges nothing so
// (ext/draft/keeping.h) they hold memory as any other.
#ifndef TENON_SDK_KERNEL_CHARGE_H_
#define TENON_SDK_KERNEL_CHARGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/work.h"

namespace tenon::sdk {

// Whose memory it is: a session's, which it may outlive. Copies are the same one.
class Account {
 public:
  Account() = default;  // nobody's: nothing is charged
  explicit Account(const RunContext& c) : Account(NewTensor(c, TENON_DT_UINT8, {})) {}
  explicit Account(const Work& work) : Account(work.NewTensor(TENON_DT_UINT8, {})) {}
  // That the tensor, which is in a buffer, counts against.
  explicit Account(const KeptTensor& of)
      : account_(HostKeeping() == nullptr ? nullptr : HostKeeping()->account(of.view().buffer)) {}
  Account(const Account& other) noexcept : account_(other.account_) {
    if (account_ != nullptr) HostKeeping()->account_retain(account_);
  }
  Account(Account&& other) noexcept : account_(std::exchange(other.account_, nullptr)) {}
  Account& operator=(Account other) noexcept {
    std::swap(account_, other.account_);
    return *this;
  }
  ~Account() {
    if (account_ != nullptr) HostKeeping()->account_release(account_);
  }
  void Charge(uint64_t bytes) const {
    if (account_ != nullptr) Check(HostKeeping()->charge(account_, bytes));
  }
  void Refund(uint64_t bytes) const noexcept {
    if (account_ != nullptr) HostKeeping()->refund(account_, bytes);
  }
  bool operator==(const Account& other) const = default;

 private:
  tenon_account* account_ = nullptr;
};

// So many bytes, as long as it lives.
class Charge {
 public:
  Charge() = default;
  Charge(Account account, uint64_t bytes) : account_(std::move(account)) { Add(bytes); }
  Charge(const RunContext& c, uint64_t bytes) : Charge(Account(c), bytes) {}
  Charge(const Work& work, uint64_t bytes) : Charge(Account(work), bytes) {}
  Charge(Charge&& other) noexcept : account_(std::move(other.account_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() { account_.Refund(bytes_); }
  void Add(uint64_t bytes) {
    account_.Charge(bytes);
    bytes_ += bytes;
  }

 private:
  Account account_;
  uint64_t bytes_ = 0;
};

// For containers, each of whose pieces is charged with what malloc takes for it.
template <class T>
class ChargingAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  ChargingAllocator() = default;
  explicit ChargingAllocator(Account account) noexcept : account_(std::move(account)) {}
  template <class U>
  ChargingAllocator(const ChargingAllocator<U>& other) noexcept : account_(other.account()) {}

  T* allocate(size_t count) {
    const uint64_t bytes = Bytes(count);
    account_.Charge(bytes);
    try {
      return std::allocator<T>().allocate(count);
    } catch (...) {
      account_.Refund(bytes);
      throw;
    }
  }
  void deallocate(T* memory, size_t count) noexcept {
    std::allocator<T>().deallocate(memory, count);
    account_.Refund(Bytes(count));
  }
  const Account& account() const { return account_; }
  template <class U>
  bool operator==(const ChargingAllocator<U>& other) const {
    return account_ == other.account();
  }

 private:
  static constexpr uint64_t kHeader = 16;  // malloc's
  static uint64_t Bytes(size_t count) { return static_cast<uint64_t>(count) * sizeof(T) + kHeader; }
  Account account_;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_CHARGE_H_
