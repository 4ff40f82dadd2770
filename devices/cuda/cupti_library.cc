// SPDX-License-Identifier: Apache-2.0
#include "cupti_library.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "library.h"
#include "runtime.h"

namespace tenon::gpu {
namespace {

// Calls of the driver are recorded for the numbers that they carry: CUPTI tells of a number with a call alone.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET};
constexpr CUpti_ExternalCorrelationKind kNumbers = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
constexpr int kPieceBits = 40;
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kMostCalls = size_t{1} << 18, kMostRecords = size_t{1} << 18;  // that are kept for those who ask

// Whom CUPTI's callbacks, which carry no argument, mean; NULL: nobody traces.
std::atomic<Cupti*> tracing{nullptr};

uint64_t CUPTIAPI Now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

void CUPTIAPI HearNothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

std::string Readable(const char* name) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &failed), &std::free);
  return text == nullptr ? name : text.get();
}

const char* WayOf(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return ", host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return ", device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return ", within the device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return ", from another device";
    default: return "";
  }
}

// The layouts of 12.8: later ones add fields behind.
using Kernel = CUpti_ActivityKernel9;
using CopyWithin = CUpti_ActivityMemcpy5;
using CopyFromPeer = CUpti_ActivityMemcpyPtoP4;
using Fill = CUpti_ActivityMemset4;

template <size_t kSize>
void Describe(const Kernel& kernel, char (&out)[kSize]) {
  const std::string name = kernel.name == nullptr ? "" : Readable(kernel.name);
  const int length = std::snprintf(out, kSize, "%s, grid %dx%dx%d, block %dx%dx%d", name.c_str(), kernel.gridX,
                                   kernel.gridY, kernel.gridZ, kernel.blockX, kernel.blockY, kernel.blockZ);
  if (length >= static_cast<int>(kSize)) std::snprintf(out, kSize, "%s", name.c_str());
}

}  // namespace

// ---- The library ----

Cupti& Cupti::At(const Options& options) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, Cupti*>;  // NOLINT: CUPTI may call back until the process ends
  const std::lock_guard lock(mutex);
  Cupti*& one = (*all)[options.libraries];
  if (one == nullptr) one = new Cupti(options);  // NOLINT: the same
  return *one;
}

Cupti::Cupti(const Options& options) {
  const std::string file = sdk::Concat("libcupti.so.", CUDA_VERSION / 1000);
  std::vector<std::string> places = PlacesOf(options, file, "/usr/local/cuda/lib64");
  if (options.libraries == "auto") places.push_back("/usr/local/cuda/extras/CUPTI/lib64/" + file);
  NamedLibrary library(places);
  TENON_CUPTI_FUNCTIONS(TENON_GPU_FIND)
  problem_ = library.problem();
  library.Find("cuptiActivityRegisterTimestampCallback", &f_.register_clock);
}

uint64_t Cupti::AddOwner() {
  const std::lock_guard lock(mutex_);
  told_[++owners_];
  return owners_;
}
void Cupti::RemoveOwner(uint64_t owner) {
  const std::lock_guard lock(mutex_);
  told_.erase(owner);
}

void Cupti::Say(const std::string& text) {
  if (text == said_) return;
  said_ = text;
  tenon_plugin_host->log(TENON_LOG_INFO, sdk::ToSpan(text));
}

// ---- Starting and stopping ----

bool Cupti::Start() {
  const std::lock_guard lock(start_mutex_);
  if (users_ == 0) {
    const std::string why = Begin();
    uint32_t version = 0;
    if (why.empty()) (void)f_.cuptiGetVersion(&version);
    Say(why.empty() ? sdk::Concat("traced steps are measured by CUPTI, API ", version)
                    : sdk::Concat("traced steps are measured by events: ", why));
    if (!why.empty()) return false;
  }
  ++users_;
  return true;
}

void Cupti::Stop() {
  const std::lock_guard lock(start_mutex_);
  if (--users_ == 0) End();
}

std::string Cupti::Begin() {
  if (!problem_.empty()) return sdk::Concat("CUPTI: ", problem_, kLibraryHelp);
  Cupti* nobody = nullptr;
  if (!tracing.compare_exchange_strong(nobody, this)) return "CUPTI: another one traces in this process";
  const char* what = "cuptiSubscribe";
  CUptiResult result = f_.cuptiSubscribe(&subscriber_, &HearNothing, nullptr);
  if (result != CUPTI_SUCCESS) subscriber_ = nullptr;
  const auto then = [&](const char* name, auto call) {
    if (result != CUPTI_SUCCESS) return;
    what = name;
    result = call();
  };
  then("the clock", [&] { return TakeClock(); });
  // Whoever traced in between has put theirs in our place.
  then("cuptiActivityRegisterCallbacks", [&] { return f_.cuptiActivityRegisterCallbacks(&GiveBuffer, &TakeBuffer); });
  for (CUpti_ActivityKind kind : kKinds) {
    then("cuptiActivityEnable", [&] {
      const CUptiResult enabled = f_.cuptiActivityEnable(kind);
      if (enabled == CUPTI_SUCCESS) enabled_.push_back(kind);
      return enabled;
    });
  }
  if (result == CUPTI_SUCCESS) return "";
  const char* text = nullptr;
  (void)f_.cuptiGetResultString(result, &text);
  End();
  return sdk::Concat("CUPTI: ", what, ": ", text == nullptr ? std::to_string(static_cast<int>(result)) : text);
}

// Undoes what Begin has done, as far as it got.
void Cupti::End() {
  if (!enabled_.empty()) (void)f_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  for (; !enabled_.empty(); enabled_.pop_back()) (void)f_.cuptiActivityDisable(enabled_.back());
  if (subscriber_ != nullptr) (void)f_.cuptiUnsubscribe(subscriber_);
  subscriber_ = nullptr;
  tracing.store(nullptr);
  const std::lock_guard lock(mutex_);
  calls_.clear();
  done_.clear();
  for (auto& [owner, records] : told_) records.clear();
}

CUptiResult Cupti::TakeClock() {
  uint64_t theirs = 0, ahead = 0;
  if (f_.register_clock == nullptr || f_.register_clock(&Now) != CUPTI_SUCCESS) {
    if (const CUptiResult result = f_.cuptiGetTimestamp(&theirs); result != CUPTI_SUCCESS) return result;
    ahead = Now() - theirs;  // modulo 2^64, as it is added
  }
  const std::lock_guard lock(mutex_);
  ahead_ns_ = ahead;
  return CUPTI_SUCCESS;
}

// ---- Pieces ----

bool Cupti::Push(uint64_t owner, uint64_t piece) const {
  return f_.cuptiActivityPushExternalCorrelationId(kNumbers, (owner << kPieceBits) | piece) == CUPTI_SUCCESS;
}
void Cupti::Pop() const {
  uint64_t number = 0;
  (void)f_.cuptiActivityPopExternalCorrelationId(kNumbers, &number);
}

void Cupti::Collect(uint64_t owner, std::vector<Tracer::Record>* out_records) {
  // Forced: else a buffer with anything that still runs would be kept back. What runs is told without times, and left
  // to events.
  (void)f_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(mutex_);
  for (Done& each : done_) {
    const auto call = calls_.find(each.call);
    if (call == calls_.end()) continue;
    const auto told = told_.find(call->second >> kPieceBits);
    if (told == told_.end() || told->second.size() >= kMostRecords) continue;
    each.record.piece = call->second & ((uint64_t{1} << kPieceBits) - 1);
    told->second.push_back(each.record);
  }
  done_.clear();
  std::vector<Tracer::Record>& own = told_.at(owner);
  out_records->insert(out_records->end(), own.begin(), own.end());
  own.clear();
}

// ---- What CUPTI calls, on any thread; no exception may get there ----

void CUPTIAPI Cupti::GiveBuffer(uint8_t** out_buffer, size_t* out_bytes, size_t* out_most_records) {
  *out_buffer = static_cast<uint8_t*>(std::malloc(kBufferBytes));  // NULL: records are lost
  *out_bytes = *out_buffer == nullptr ? 0 : kBufferBytes;
  *out_most_records = 0;  // as many as there is room for
}

void CUPTIAPI Cupti::TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  try {
    Cupti* const cupti = tracing.load();
    if (cupti != nullptr && buffer != nullptr) cupti->Take(buffer, used);
  } catch (...) {
    // No memory: these records are lost, and their pieces measured by events.
  }
  std::free(buffer);
}

void Cupti::Take(uint8_t* buffer, size_t used) {
  uint64_t ahead = 0;
  {
    const std::lock_guard lock(mutex_);
    ahead = ahead_ns_;
  }
  Batch batch;
  CUpti_Activity* record = nullptr;
  while (f_.cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) Read(*record, ahead, &batch);
  const std::lock_guard lock(mutex_);
  for (const auto& [call, number] : batch.calls) calls_[call] = number;
  while (calls_.size() > kMostCalls) calls_.erase(calls_.begin());
  const size_t room = kMostRecords - std::min(kMostRecords, done_.size());
  done_.insert(done_.end(), batch.done.begin(),
               batch.done.begin() + static_cast<std::ptrdiff_t>(std::min(room, batch.done.size())));
}

void Cupti::Read(const CUpti_Activity& record, uint64_t ahead_ns, Batch* out_batch) {
  // Without times (the driver had no room for them, or it still runs) it is not known.
  const auto add = [&](const auto& of, const char* kind) -> Tracer::Record* {
    if (of.start == 0 || of.end < of.start) return nullptr;
    Done& done = out_batch->done.emplace_back();
    done.call = of.correlationId;
    done.record.begin_ns = of.start + ahead_ns;
    done.record.end_ns = of.end + ahead_ns;
    done.record.kind = kind;
    return &done.record;
  };
  const auto add_bytes = [&](const auto& of, const char* kind, const char* way) {
    if (Tracer::Record* const to = add(of, kind))
      std::snprintf(to->detail, sizeof to->detail, "%llu bytes%s", static_cast<unsigned long long>(of.bytes), way);
  };
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& call = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      if (call.externalKind == kNumbers)
        out_batch->calls.emplace_back(uint32_t{call.correlationId}, uint64_t{call.externalId});
      break;
    }
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const Kernel&>(record);
      if (Tracer::Record* const to = add(kernel, "kernel")) Describe(kernel, to->detail);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CopyWithin&>(record);
      add_bytes(copy, "copy", WayOf(copy.copyKind));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = reinterpret_cast<const CopyFromPeer&>(record);
      add_bytes(copy, "copy", WayOf(copy.copyKind));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: add_bytes(reinterpret_cast<const Fill&>(record), "fill", ""); break;
    default: break;
  }
}

}  // namespace tenon::gpu
