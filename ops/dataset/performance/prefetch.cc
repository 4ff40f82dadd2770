// SPDX-License-Identifier: Apache-2.0
// PrefetchDataset: elements are made before they are asked for.
#include "performance/prefetch.h"

#include <sched.h>

#include <deque>

#include "base/op.h"
#include "base/over_one.h"

namespace tenon::ops {
using namespace sdk;

int64_t DefaultParallelism() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp<int64_t>(CPU_COUNT(&set), 1, 64);
}

bool Tasks::Start(std::function<void()> task) {
  if (stopped_) return false;
  ++running_;
  try {
    pass_.work().Schedule(
        0,
        [this, task = std::move(task)](const Outcome& outcome) {
          if (outcome.ok()) task();
          const std::lock_guard lock(mutex_);
          --running_;
          changed_.notify_all();
        },
        TENON_WORK_MAY_WAIT);
    return true;
  } catch (...) {  // for want of memory too: who counts a task that never was would wait for it
    (void)TakeStatus(CurrentFailure());
    --running_;
    return false;
  }
}

void Tasks::Join() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_ == 0; });
}

namespace {

// An element, or why there is none.
struct Made {
  Element element;
  Outcome failure;
};

class Prefetcher final : public Iterator {
 public:
  Prefetcher(const Pass& pass, const Dataset& input, int64_t size)
      : input_(input),
        from_(input.NewIterator(pass)),
        tunes_(size == kAutotune),
        size_(tunes_ ? kFirstSize : size),
        tasks_(pass) {
    if (pass.resting()) return;
    const std::lock_guard lock(tasks_.mutex());
    Wake();
  }
  ~Prefetcher() override { tasks_.Join(); }

  bool Next(Element* out) override {
    std::unique_lock lock(tasks_.mutex());
    if (made_.empty() && !ended_) {
      Grow();
      if (Wake()) tasks_.WaitUntil(lock, [this] { return !made_.empty() || ended_ || tasks_.running() == 0; });
    }
    if (!made_.empty()) return Take(lock, out);
    if (ended_) return false;
    lock.unlock();  // nobody makes any: here then
    return from_->Next(out);
  }

  Poll TryNext(Element* out) override {
    std::unique_lock lock(tasks_.mutex());
    if (made_.empty()) return ended_ ? Poll::kEnd : Poll::kLater;
    return Take(lock, out) ? Poll::kElement : Poll::kEnd;
  }
  void State(Archive& archive) override {
    std::unique_lock lock(tasks_.mutex());
    tasks_.Paused(lock, [this] { return !making_; }, [&] {
      archive.There(input_, from_);
      archive.ListOf(made_, INT64_MAX, [&archive](Made& made) {
        archive.Failure(made.failure);
        archive.Values(made.element);
      });
      archive.Flag(ended_);
      bytes_ = 0;
      for (const Made& made : made_) bytes_ += BytesOf(made.element);
    });
  }

 private:
  static constexpr int64_t kFirstSize = 2, kMostTuned = 32;
  static constexpr uint64_t kMostTunedBytes = uint64_t{256} << 20;

  bool Take(std::unique_lock<std::mutex>& lock, Element* out) {
    Made made = std::move(made_.front());
    made_.pop_front();
    bytes_ -= BytesOf(made.element);
    Wake();
    tasks_.Changed();
    lock.unlock();
    if (!made.failure.ok()) Fail(made.failure.code, made.failure.message);
    *out = std::move(made.element);
    return true;
  }
  // The consumer waits: more should have been ready.
  void Grow() {
    if (tunes_ && full_once_ && size_ < kMostTuned && bytes_ < kMostTunedBytes) size_ *= 2;
    full_once_ = false;
  }
  // Behind a failure nothing is made until the consumer has it: where memory is short, what is made meanwhile would be
  // lost too.
  bool Full() const {
    return static_cast<int64_t>(made_.size()) >= size_ || (!made_.empty() && !made_.back().failure.ok());
  }
  // Under the mutex. Whether a task is at it, or none is needed.
  bool Wake() {
    if (!filling_ && !Full() && !ended_) filling_ = tasks_.Start([this] { Fill(); });
    return filling_ || Full() || ended_;
  }

  void Fill() {
    std::unique_lock lock(tasks_.mutex());
    while (!ended_ && !tasks_.stopped()) {
      const auto may = [this] { return !Full() && !tasks_.paused(); };
      if (!may() && !tasks_.Linger(lock, may)) break;
      making_ = true;
      lock.unlock();
      Made made;
      bool some = true;
      try {
        some = from_->Next(&made.element);
      } catch (...) {
        made.failure = TakeStatus(CurrentFailure());
        made.element.clear();
      }
      lock.lock();
      making_ = false;
      if (some) {
        bytes_ += BytesOf(made.element);
        made_.push_back(std::move(made));
      } else {
        ended_ = true;
      }
      full_once_ = full_once_ || Full();
      tasks_.Changed();
    }
    filling_ = false;
  }

  const Dataset& input_;
  IteratorPtr from_;  // of the task while `filling_`
  const bool tunes_;
  int64_t size_;
  bool full_once_ = false;
  bool filling_ = false, making_ = false;
  std::deque<Made> made_;
  uint64_t bytes_ = 0;
  bool ended_ = false;
  Tasks tasks_;
};

struct PrefetchDataset final : OverOne {
  PrefetchDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c, true), size(IntOf(c, 1)) {
    if (size < 0 && size != kAutotune)
      Fail(TENON_INVALID_ARGUMENT, who(), ": buffer_size must be >= 0 or set to -1 for auto-tuning");
  }
  int64_t Cardinality() const override { return input->Cardinality(); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    return size == 0 ? input->NewIterator(pass) : NewPrefetcher(pass, *input, size);
  }
  const int64_t size;
};

}  // namespace

IteratorPtr NewPrefetcher(const Pass& pass, const Dataset& input, int64_t size) {
  return std::make_unique<Prefetcher>(pass, input, size);
}

TENON_KERNEL(kPrefetchDatasetKernel) = Registration<MakeDataset<PrefetchDataset>>("PrefetchDataset", kMakesDataset);

TENON_OP(kPrefetchDataset) = DefineDataset({
    .name = "PrefetchDataset",
    .inputs = "input_dataset: variant, buffer_size: int64",
    .attrs = TENON_DATASET_TYPES
    "; slack_period: int = 0; legacy_autotune: bool = true; buffer_size_min: int = 0" TENON_DATASET_METADATA,
    .constraints = "rank(buffer_size) == 0",
    .doc =
        "The elements, buffer_size of which are made before they are asked for; -1: as many as turn out to be needed.",
});

}  // namespace tenon::ops
