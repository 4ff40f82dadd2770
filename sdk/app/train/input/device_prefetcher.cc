// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/device_prefetcher.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

namespace tenon::train {

namespace {

bool StaysOnHost(DType dtype) {
  return dtype == DType::kString || dtype == DType::kVariant || dtype == DType::kResource;
}

bool HasKnownBytes(const Output& value) {
  return !StaysOnHost(value.dtype()) && host::DTypeSize(value.dtype()) > 0 && value.shape().fully_known();
}

Result<Tensor> Copied(tenon_session* session, const Tensor& tensor, const std::string& device) {
  tenon_tensor* copy = nullptr;
  TENON_TRY(Status::Take(tenon_session_copy_tensor(session, tensor.get(), host::Span(device), &copy)));
  return Tensor::Take(copy);
}

// Pinned memory for each of the values. None: one is of no known size, the device computes in the host's memory, or
// there is no such memory for all.
std::vector<Tensor> PinnedFor(const Session& session, const std::vector<Output>& values, const std::string& device) {
  if (!std::all_of(values.begin(), values.end(), HasKnownBytes)) return {};
  const auto one = Tensor::Scalar(0.0f);
  const auto there = one.ok() ? session.CopyTensor(*one, device) : one;
  if (!there.ok() || there->on_host()) return {};
  std::vector<Tensor> pinned;
  for (const Output& value : values) {
    auto place = session.PinnedTensor(value.dtype(), value.shape(), device);
    if (!place.ok()) return {};
    pinned.push_back(*std::move(place));
  }
  return pinned;
}

}  // namespace

Result<std::unique_ptr<DevicePrefetcher>> DevicePrefetcher::Create(const Session& session,
                                                                   const std::vector<Output>& values,
                                                                   const std::string& device, size_t depth) {
  if (depth == 0 || values.empty())
    return Status(Code::kInvalidArgument,
                  "a prefetcher holds the values of one step at least, and a step has one at least");
  std::vector<Name> names;
  std::vector<std::string> devices;
  for (const Output& value : values) {
    names.emplace_back(value);
    devices.push_back(StaysOnHost(value.dtype()) ? "" : device);
  }
  // Which says, too, what is wrong with the device.
  TENON_TRY_ASSIGN(host::Callable take, session.Prepare({}, names, {}, {}, devices));
  std::vector<Tensor> pinned = PinnedFor(session, values, device);
  if (!pinned.empty()) {
    TENON_TRY_ASSIGN(take, session.Prepare({}, names));
  }
  TENON_TRY_ASSIGN(host::Cancellation cancellation, host::Cancellation::Create());
  return std::unique_ptr<DevicePrefetcher>(new DevicePrefetcher(session, std::move(take), std::move(pinned),
                                                                std::move(cancellation), std::move(devices), depth));
}

DevicePrefetcher::DevicePrefetcher(const Session& session, host::Callable take, std::vector<Tensor> pinned,
                                   host::Cancellation cancellation, std::vector<std::string> devices, size_t depth)
    : session_(session.get()),
      take_(std::move(take)),
      pinned_(std::move(pinned)),
      cancellation_(std::move(cancellation)),
      devices_(std::move(devices)),
      depth_(depth) {}

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
    return Status(Code::kResourceExhausted,
                  std::string("the system gives no thread to prefetch with: ") + error.what());
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
  const bool in_time =
      timeout.count() == 0 ? (changed_.wait(lock, come), true) : changed_.wait_for(lock, timeout, come);
  --asked_;
  if (!in_time)
    return Status(Code::kDeadlineExceeded,
                  "the input gave nothing within " +
                      std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()) + " ms");
  Result<std::vector<Tensor>> values = std::move(ready_.front());
  ready_.pop_front();
  // Others who wait have asked again.
  if (!values.ok()) pauses_ = asked_ == 0;
  lock.unlock();
  changed_.notify_all();
  return values;
}

// The copies have been made when it returns: the pinned memory is free again.
Result<std::vector<Tensor>> DevicePrefetcher::Take(const host::RunOptions& options) const {
  if (pinned_.empty()) return take_.Run({}, options);
  std::vector<tenon_tensor_view> places;
  for (const Tensor& each : pinned_) places.push_back(*each.view());
  TENON_TRY(take_.RunInto(nullptr, places.data(), options));
  std::vector<Tensor> values;
  for (size_t i = 0; i < pinned_.size(); ++i) {
    TENON_TRY_ASSIGN(Tensor there, Copied(session_, pinned_[i], devices_[i]));
    values.push_back(std::move(there));
  }
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
    Result<std::vector<Tensor>> values = Take(options);
    lock.lock();
    ready_.push_back(std::move(values));
    changed_.notify_all();
  }
}

}  // namespace tenon::train
