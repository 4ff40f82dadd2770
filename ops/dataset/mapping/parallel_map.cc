// SPDX-License-Identifier: Apache-2.0
// ParallelMapDataset: calls of a function beside one another, whose results come in the order of the elements.
//
// Workers take an element of the input each, one after the other, and a place in the row with it; then they call the
// function beside one another. The consumer takes from the front of the row, in which there are places for twice as
// many as work: so workers need not wait for the consumer each time, nor wake it for what it cannot take yet. A wake-up
// costs as much as a small function.
#include "mapping/parallel_map.h"

#include <deque>

#include "base/op.h"
#include "base/over_one.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr int64_t kMostCalls = 128;  // at once: of the threads that a session has for what may wait

class ParallelMapper final : public Iterator {
 public:
  ParallelMapper(const Pass& pass, const Captured& function, const Dataset& input, int64_t calls)
      : pass_(pass),
        function_(function),
        input_(input),
        from_(input.NewIterator(pass)),
        calls_(std::clamp<int64_t>(calls, 1, kMostCalls)),
        tasks_(pass) {}
  ~ParallelMapper() override { tasks_.Join(); }

  bool Next(Element* out) override {
    std::unique_lock lock(tasks_.mutex());
    for (;;) {
      Wake();
      tasks_.WaitUntil(lock, [this] { return FrontDone() || AtEnd() || tasks_.running() == 0; });
      if (FrontDone()) return Take(lock, out);
      if (AtEnd()) return false;
      lock.unlock();  // nobody works: here then
      One();
      lock.lock();
    }
  }
  Poll TryNext(Element* out) override {
    std::unique_lock lock(tasks_.mutex());
    if (FrontDone()) return Take(lock, out) ? Poll::kElement : Poll::kEnd;
    return AtEnd() ? Poll::kEnd : Poll::kLater;
  }
  // With the results that have come; what is under way comes first.
  void State(Archive& archive) override {
    std::unique_lock lock(tasks_.mutex());
    const auto idle = [this] {
      return taking_ == 0 && std::all_of(row_.begin(), row_.end(), [](const auto& place) { return place->done; });
    };
    tasks_.Paused(lock, idle, [&] {
      archive.There(input_, from_);
      archive.ListOf(row_, INT64_MAX, [&archive](std::unique_ptr<Place>& place) {
        if (archive.reading()) place = std::make_unique<Place>();
        archive.Failure(place->failure);
        archive.Values(place->result);
        place->done = true;
      });
      archive.Flag(ended_);
    });
  }

 private:
  struct Place {
    Element result;
    Outcome failure;
    bool done = false;
  };

  // Under the mutex.
  bool FrontDone() const { return !row_.empty() && row_.front()->done; }
  bool AtEnd() const { return ended_ && row_.empty() && taking_ == 0; }
  int64_t Places() const { return 2 * calls_ - static_cast<int64_t>(row_.size()) - taking_; }
  bool Room() const { return !tasks_.paused() && Places() > 0; }
  void Wake() {
    while (!ended_ && workers_ < calls_ && workers_ < Places() && tasks_.Start([this] { Work(); })) ++workers_;
  }
  bool Take(std::unique_lock<std::mutex>& lock, Element* out) {
    const std::unique_ptr<Place> place = std::move(row_.front());
    row_.pop_front();
    const bool wakes = idle_ > 0 && Places() >= calls_;
    lock.unlock();
    if (wakes) tasks_.Changed();
    if (!place->failure.ok()) Fail(place->failure.code, place->failure.message);
    *out = std::move(place->result);
    return true;
  }

  void Work() {
    std::unique_lock lock(tasks_.mutex());
    while (!ended_ && !tasks_.stopped()) {
      if (!Room()) {
        ++idle_;
        const bool came = tasks_.Linger(lock, [this] { return Room() || ended_; });
        --idle_;
        if (!came) break;
      }
      lock.unlock();
      One();
      lock.lock();
    }
    --workers_;
  }

  // Takes an element, if there is room and one is left, and does it.
  void One() noexcept {
    Element element;
    Place* place = nullptr;
    {
      const std::lock_guard pull(pull_);
      {
        const std::lock_guard lock(tasks_.mutex());
        if (ended_ || !Room()) return;
        ++taking_;
      }
      place = Pull(&element);
    }
    if (place == nullptr) return;
    Outcome failure = std::move(place->failure);
    Element result;
    if (failure.ok()) {
      try {
        result = function_.Call(pass_, element);
      } catch (...) {
        failure = TakeStatus(CurrentFailure());
      }
    }
    bool wakes = false;
    {
      const std::lock_guard lock(tasks_.mutex());
      place->result = std::move(result);
      place->failure = std::move(failure);
      place->done = true;
      wakes = place == row_.front().get() || tasks_.paused();
    }
    if (wakes) tasks_.Changed();
  }
  // Under pull_. nullptr at the end.
  Place* Pull(Element* element) {
    auto place = std::make_unique<Place>();
    bool some = true;
    try {
      some = from_->Next(element);
    } catch (...) {
      place->failure = TakeStatus(CurrentFailure());
    }
    const std::lock_guard lock(tasks_.mutex());
    --taking_;
    if (!some) {
      ended_ = true;
      tasks_.Changed();
      return nullptr;
    }
    row_.push_back(std::move(place));
    return row_.back().get();
  }

  const Pass& pass_;
  const Captured& function_;
  const Dataset& input_;
  IteratorPtr from_;  // under pull_, or while tasks_ are paused
  const int64_t calls_;
  std::mutex pull_;  // before the tasks' mutex
  // Under the tasks' mutex.
  std::deque<std::unique_ptr<Place>> row_;
  int64_t taking_ = 0, workers_ = 0, idle_ = 0;  // idle: workers that wait for room
  bool ended_ = false;
  Tasks tasks_;
};

struct ParallelMapDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), function(c, "f"), keeps(c.Bool("preserve_cardinality")) {
      if (c.ok() && function.result_dtypes().size() != types.size())
        c.Invalid(who, ": its function gives ", function.result_dtypes().size(), " values; ", types.size(),
                  " are asked for");
    }
    Function function;
    bool keeps;
  };
  ParallelMapDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true),
        function(attrs.function, who(), c, 1, c.input_count() - 2),
        calls(CallsOf(c, c.input_count() - 1, who())),
        keeps(attrs.keeps) {}
  int64_t Cardinality() const override { return keeps ? input->Cardinality() : kUnknown; }
  const Dataset* WithoutNumbers() const override { return input->WithoutNumbers(); }
  Element At(const Pass& pass, int64_t number) const override { return function.Call(pass, input->At(pass, number)); }
  IteratorPtr NewIterator(const Pass& pass) const override { return NewParallelMapper(pass, function, *input, calls); }
  const Captured function;
  const int64_t calls;
  const bool keeps;
};

}  // namespace

int64_t CallsOf(const RunContext& c, int32_t input, const std::string& who) {
  const tenon_tensor_view& view = c.input_view(input);
  const int64_t calls = view.dtype == TENON_DT_INT32 ? *c.input<int32_t>(input) : IntOf(c, input);
  if (calls == kAutotune) return DefaultParallelism();
  if (calls < 1) Fail(TENON_INVALID_ARGUMENT, who, ": num_parallel_calls must be greater than zero.");
  return calls;
}

IteratorPtr NewParallelMapper(const Pass& pass, const Captured& function, const Dataset& input, int64_t calls) {
  return std::make_unique<ParallelMapper>(pass, function, input, calls);
}

TENON_KERNEL(kParallelMapDatasetKernel) = Registration<MakeDataset<ParallelMapDataset>>("ParallelMapDataset",
                                                                                        kMakesDataset);
TENON_KERNEL(kParallelMapDatasetV2Kernel) = Registration<MakeDataset<ParallelMapDataset>>("ParallelMapDatasetV2",
                                                                                          kMakesDataset);

static constexpr std::string_view kParallelMapDoc =
    "f of each element, num_parallel_calls of them at once; the order is that of the elements.";

TENON_OP(kParallelMapDataset) = DefineDataset({
    .name = "ParallelMapDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int32",
    .attrs = "f: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
             "; use_inter_op_parallelism: bool = true; sloppy: bool = false; preserve_cardinality: bool = "
             "false" TENON_DATASET_METADATA,
    .constraints = "rank(num_parallel_calls) == 0",
    .doc = kParallelMapDoc,
});

TENON_OP(kParallelMapDatasetV2) = DefineDataset({
    .name = "ParallelMapDatasetV2",
    .inputs = "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int64",
    .attrs = "f: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
             "; use_inter_op_parallelism: bool = true; deterministic: string = 'default'; preserve_cardinality: bool = "
             "false; use_unbounded_threadpool: bool = false" TENON_DATASET_METADATA,
    .constraints = "rank(num_parallel_calls) == 0",
    .doc = kParallelMapDoc,
});

}  // namespace tenon::ops
