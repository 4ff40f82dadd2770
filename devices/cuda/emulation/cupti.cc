// SPDX-License-Identifier: Apache-2.0
// A library with CUPTI's functions that records what the emulated GPUs do (devices/gpu/emulation/observer.h), as far as
// devices/cuda/cupti_library.h asks it: real records in the buffers that it is given, of the kinds that are enabled. As
// of the real one, a number that was pushed is told with calls of the driver alone, a graph's work carries the call
// that launched it, and its clock is not the host's. For tests, which hold its controls.
#include <cupti.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <vector>

#include "emulation/cupti_controls.h"
#include "emulation/observer.h"

namespace {

using tenon::gpu::EmulatedActivity;

EmulatedCuptiControls controls;
thread_local std::vector<uint64_t> numbers;  // that this thread has pushed

uint64_t HostClock() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
uint64_t OwnClock() { return HostClock() + UINT64_C(86'400'000'000'000); }  // a day ahead

// Of a record; 0: none that is written here.
size_t BytesOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    default: return 0;
  }
}

class Recorder final : public tenon::gpu::EmulatedObserver {
 public:
  void Register(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
    const std::lock_guard lock(mutex_);
    request_ = request;
    complete_ = complete;
  }
  void Register(CUpti_TimestampCallbackFunc clock) { clock_ = clock; }

  CUptiResult Enable(CUpti_ActivityKind kind, bool on) {
    if (on && controls.refused_kind == static_cast<int>(kind)) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    const std::lock_guard lock(mutex_);
    on ? static_cast<void>(kinds_.insert(kind)) : static_cast<void>(kinds_.erase(kind));
    controls.kinds = static_cast<int>(kinds_.size());
    tenon::gpu::SetObserver(kinds_.empty() ? nullptr : this);
    return CUPTI_SUCCESS;
  }

  uint32_t Call() override {
    const uint32_t call = ++calls_;
    if (!numbers.empty() && IsEnabled(CUPTI_ACTIVITY_KIND_DRIVER)) {
      CUpti_ActivityExternalCorrelation number = {};
      number.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      number.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
      number.externalId = numbers.back();
      number.correlationId = call;
      Write(number);
    }
    CUpti_ActivityAPI api = {};
    api.kind = CUPTI_ACTIVITY_KIND_DRIVER;
    api.correlationId = call;
    Write(api);
    return call;
  }

  uint64_t Now() override {
    const CUpti_TimestampCallbackFunc clock = clock_;
    return clock == nullptr ? OwnClock() : clock();
  }

  void Ran(const EmulatedActivity& what, uint32_t call, uint64_t begin, uint64_t end) override {
    const auto write = [&](auto record, CUpti_ActivityKind kind) {
      record.kind = kind;
      record.start = begin;
      record.end = end;
      record.deviceId = static_cast<uint32_t>(what.device);
      record.correlationId = call;
      record.graphNodeId = what.from_graph ? 1 : 0;
      Write(record);
    };
    switch (what.kind) {
      case EmulatedActivity::Kind::kKernel: {
        CUpti_ActivityKernel9 kernel = {};
        kernel.name = what.name;
        kernel.gridX = static_cast<int32_t>(what.blocks[0]);
        kernel.gridY = static_cast<int32_t>(what.blocks[1]);
        kernel.gridZ = static_cast<int32_t>(what.blocks[2]);
        kernel.blockX = static_cast<int32_t>(what.threads);
        kernel.blockY = kernel.blockZ = 1;
        return write(kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
      }
      case EmulatedActivity::Kind::kCopy: {
        CUpti_ActivityMemcpy5 copy = {};
        copy.bytes = what.bytes;
        copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
        return write(copy, CUPTI_ACTIVITY_KIND_MEMCPY);
      }
      case EmulatedActivity::Kind::kPeerCopy: {
        CUpti_ActivityMemcpyPtoP4 copy = {};
        copy.bytes = what.bytes;
        copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
        return write(copy, CUPTI_ACTIVITY_KIND_MEMCPY2);
      }
      case EmulatedActivity::Kind::kFill: {
        CUpti_ActivityMemset4 fill = {};
        fill.bytes = what.bytes;
        return write(fill, CUPTI_ACTIVITY_KIND_MEMSET);
      }
      case EmulatedActivity::Kind::kUntold: return;
    }
  }

  CUptiResult Flush() {
    std::deque<Buffer> full;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
    {
      const std::lock_guard lock(mutex_);
      complete = complete_;
      if (current_.data != nullptr) full_.push_back(current_);
      current_ = {};
      full.swap(full_);
    }
    for (const Buffer& each : full) {
      ++controls.buffers;
      complete(nullptr, 0, each.data, each.bytes, each.used);
    }
    return complete == nullptr ? CUPTI_ERROR_INVALID_OPERATION : CUPTI_SUCCESS;
  }

 private:
  struct Buffer {
    uint8_t* data = nullptr;
    size_t bytes = 0, used = 0;
  };

  bool IsEnabled(CUpti_ActivityKind kind) {
    const std::lock_guard lock(mutex_);
    return kinds_.contains(kind);
  }
  template <class Native>
  void Write(const Native& record) {
    const std::lock_guard lock(mutex_);
    if (!kinds_.contains(record.kind) || request_ == nullptr || controls.loses) return;
    if (current_.data == nullptr ||
        current_.used + sizeof record > std::min(current_.bytes, controls.buffer_bytes.load())) {
      if (current_.data != nullptr) full_.push_back(current_);
      current_ = {};
      size_t most = 0;
      request_(&current_.data, &current_.bytes, &most);
      if (current_.data == nullptr) return;
    }
    std::memcpy(current_.data + current_.used, &record, sizeof record);
    current_.used += sizeof record;
  }

  std::mutex mutex_;
  std::set<CUpti_ActivityKind> kinds_;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::atomic<CUpti_TimestampCallbackFunc> clock_{nullptr};
  Buffer current_;
  std::deque<Buffer> full_;
  std::atomic<uint32_t> calls_{0};
};

Recorder& TheRecorder() {
  static auto* const recorder = new Recorder;  // NOLINT: streams may tell of work until the process ends
  return *recorder;
}

}  // namespace

extern "C" {

EmulatedCuptiControls* tenon_emulated_cupti() { return &controls; }

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                                                                   : "an error of the emulated CUPTI";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  *timestamp = TheRecorder().Now();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) {
  if (callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (controls.is_taken || controls.subscribers.exchange(1) != 0) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&controls);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  if (subscriber != reinterpret_cast<CUpti_SubscriberHandle>(&controls)) return CUPTI_ERROR_INVALID_PARAMETER;
  controls.subscribers = 0;
  return CUPTI_SUCCESS;
}
#if !defined(TENON_EMULATED_OWN_CLOCK)
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  TheRecorder().Register(clock);
  return CUPTI_SUCCESS;
}
#endif
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  TheRecorder().Register(request, complete);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { return TheRecorder().Enable(kind, true); }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) { return TheRecorder().Enable(kind, false); }
#if !defined(TENON_EMULATED_INCOMPLETE)
CUptiResult cuptiActivityFlushAll(uint32_t) { return TheRecorder().Flush(); }
#endif

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t used, CUpti_Activity** record) {
  uint8_t* const next = *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + BytesOf((*record)->kind);
  if (next >= buffer + used) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return BytesOf((*record)->kind) == 0 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) return CUPTI_ERROR_INVALID_PARAMETER;
  numbers.push_back(id);
  ++controls.open;
  ++controls.pushes;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* last) {
  if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) return CUPTI_ERROR_INVALID_PARAMETER;
  if (numbers.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = numbers.back();
  numbers.pop_back();
  --controls.open;
  return CUPTI_SUCCESS;
}

}  // extern "C"
