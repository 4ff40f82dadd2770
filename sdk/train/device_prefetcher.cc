// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/device_prefetcher.h"

#include <string>
#include <system_error>
#include <utility>

namespace tenon::train {

Result<std::unique_ptr<DevicePrefetcher>> DevicePrefetcher::Create(const Session& session, const std::vector<Output>& values, const std::string& device, size_t depth) {
  if (depth == 0 || values.empty()) return Status(Code::kInvalidArgument, "a prefetcher holds the values of one step at least, and a step has one at least");
  std::vector<Name> names;
  std::vector<std::string> devices;
  for (const Output& value : values) {
    names.emplace_back(value);
    const DType dtype = value.dtype();
    devices.push_back(dtype == DType::kString || dtype == DType::kVariant || dtype == DType::kResource ? "" : device);
  }
  TENON_TRY_ASSIGN(host::Callable take, session.Prepare({}, names, {}, {}, devices));
  TENON_TRY_ASSIGN(host::Cancellation cancellation, host::Cancellation::Create());
  return std::unique_ptr<DevicePrefetcher>(new DevicePrefetcher(std::move(take), std::move(cancellation), std::move(devices), depth));
}

DevicePrefetcher::DevicePrefetcher(host::Callable take, host::Cancellation cancellation, std::vector<std::string> devices, size_t depth)
    : take_(std::move(take)), cancellation_(std::move(cancellation)), devices_(std::move(devices)), depth_(depth) {}

DevicePrefetcher::~DevicePrefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  cancellation_.Cancel();
  if (thread_.joinable()) thread_.join();
}

// Under the mutex: the thread takes values, if it does not yet, or had failed.
Status DevicePrefetcher::Ask() {
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, std::string("the system gives no thread to prefetch with: ") + error.what());
  }
  if (std::exchange(pauses_, false)) changed_.notify_all();
  return Status();
}

bool DevicePrefetcher::Wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return !Ask().ok() || changed_.wait_for(lock, timeout, [this] { return !ready_.empty(); });
}

Result<std::vector<Tensor>> DevicePrefetcher::Next(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  TENON_TRY(Ask());
  ++asked_;
  const auto come = [this] { return !ready_.empty(); };
  const bool in_time = timeout.count() == 0 ? (changed_.wait(lock, come), true) : changed_.wait_for(lock, timeout, come);
  --asked_;
  if (!in_time) return Status(Code::kDeadlineExceeded, "the input gave nothing within " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()) + " ms");
  Result<std::vector<Tensor>> values = std::move(ready_.front());
  ready_.pop_front();
  // Others who wait have asked again.
  if (!values.ok()) pauses_ = asked_ == 0;
  lock.unlock();
  changed_.notify_all();
  return values;
}

void DevicePrefetcher::Work() {
  host::RunOptions options;
  options.cancellation = &cancellation_;
  std::unique_lock lock(mutex_);
  const auto wanted = [this] { return !pauses_ && (ready_.empty() || ready_.back().ok()) && ready_.size() < depth_; };
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || wanted(); });
    if (stops_) return;
    lock.unlock();
    Result<std::vector<Tensor>> values = take_.Run({}, options);
    lock.lock();
    ready_.push_back(std::move(values));
    changed_.notify_all();
  }
}

}  // namespace tenon::train
