// SPDX-License-Identifier: Apache-2.0
// SamplingDataset, which gives each element with a probability; SleepDataset, which waits before each.
#include <chrono>
#include <thread>

#include "base/op.h"
#include "base/over_one.h"
#include "order/seeds.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct SamplingDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), own(c) {}
    OwnSeeds own;
  };
  SamplingDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c), rate(*c.input<float>(1)), seeds(NewSeeds(attrs.own, IntOf(c, 2), IntOf(c, 3), false)) {}
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Some final : OverIterator<SamplingDataset> {
      Some(const SamplingDataset& of, const Pass& in, std::pair<uint64_t, uint64_t> seed)
          : OverIterator<SamplingDataset>(of, in), random(seed.first, seed.second) {}
      bool Next(Element* out) override {
        do {
          pass.CheckCancelled();
          if (!from->Next(out)) return false;
        } while (!(UnitFloat(random.Next()) < dataset.rate));
        return true;
      }
      void SaveOrLoad(Archive& archive) override { random.State(archive); }
      OneByOne random;
    };
    return std::make_unique<Some>(*this, pass, seeds->Next());
  }
  const float rate;
  const SeedsPtr seeds;
};

constexpr std::chrono::microseconds kBetweenLooks{20'000};  // at whether the pass was cancelled

struct SleepDataset final : OverOne {
  SleepDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c, true), time(IntOf(c, 1)) {
    if (IntOf(c, 1) < 0) Fail(TENON_INVALID_ARGUMENT, who(), ": `sleep_microseconds` must be >= 0");
  }
  int64_t Cardinality() const override { return input->Cardinality(); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Late final : OverIterator<SleepDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        const auto begin = std::chrono::steady_clock::now();
        for (;;) {
          pass.CheckCancelled();
          const std::chrono::microseconds left = dataset.time - std::chrono::duration_cast<std::chrono::microseconds>(
                                                                    std::chrono::steady_clock::now() - begin);
          if (left.count() <= 0) return from->Next(out);
          std::this_thread::sleep_for(std::min(left, kBetweenLooks));
        }
      }
      void SaveOrLoad(Archive&) override {}
    };
    return std::make_unique<Late>(*this, pass);
  }
  const std::chrono::microseconds time;
};

}  // namespace

TENON_KERNEL(kSamplingDatasetKernel) = Registration<MakeDataset<SamplingDataset>>("SamplingDataset", kMakesDataset);
TENON_KERNEL(kSleepDatasetKernel) = Registration<MakeDataset<SleepDataset>>("SleepDataset", kMakesDataset);
TENON_KERNEL(kExperimentalSleepDatasetKernel) = Registration<MakeDataset<SleepDataset>>("ExperimentalSleepDataset",
                                                                                        kMakesDataset);

TENON_OP(kSamplingDataset) = DefineDataset({
    .name = "SamplingDataset",
    .inputs = "input_dataset: variant, rate: float, seed: int64, seed2: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(rate) == 0; rank(seed) == 0; rank(seed2) == 0",
    .doc = "Some of the elements: each with probability rate, and the same ones in each pass.",
});

static constexpr std::string_view kSleepDoc = "The elements, before each of which sleep_microseconds go by.";

TENON_OP(kSleepDataset) = DefineDataset({
    .name = "SleepDataset",
    .inputs = "input_dataset: variant, sleep_microseconds: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(sleep_microseconds) == 0",
    .doc = kSleepDoc,
});

TENON_OP(kExperimentalSleepDataset) = DefineDataset({
    .name = "ExperimentalSleepDataset",
    .inputs = "input_dataset: variant, sleep_microseconds: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(sleep_microseconds) == 0",
    .doc = kSleepDoc,
});

}  // namespace tenon::ops
