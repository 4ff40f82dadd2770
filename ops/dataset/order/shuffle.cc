// SPDX-License-Identifier: Apache-2.0
// ShuffleDataset and ShuffleAndRepeatDataset: elements in an order of random numbers, which is TensorFlow's for the
// same seeds.
//
// A buffer of buffer_size elements is filled; each step gives one of those of the oldest pass over the input that has
// some left, at random, and puts the first of that pass in its place. So elements of two passes never mix their order,
// though both lie in the buffer.
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/op.h"
#include "base/over_one.h"
#include "order/seeds.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Where the seeds come from.
enum class From { kInputs, kHandle, kInputsAndHandle };

template <From kFrom, bool kRepeats>
struct ShuffleDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), own(c) {
      if constexpr (kFrom != From::kHandle) again = c.Bool("reshuffle_each_iteration");
    }
    OwnSeeds own;
    bool again = true;
  };
  static constexpr int32_t kSeed = 2, kCount = 4;  // inputs
  static constexpr int32_t kHandle = kFrom == From::kHandle ? 2 : kRepeats ? 5 : 4;

  ShuffleDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, IntOf(c, 1) > kFew || IntOf(c, 1) < 0),
        size(SizeOf(IntOf(c, 1))),
        count(kRepeats ? IntOf(c, kCount) : 1),
        seeds(SeedsFor(attrs, c)) {}
  int64_t Cardinality() const override {
    const int64_t all = input->Cardinality();
    if (count == 1 || all == 0) return all;
    if (count < 0) return kInfinite;
    int64_t product = 0;
    return all < 0 || __builtin_mul_overflow(all, count, &product) ? all : product;
  }

  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Shuffled final : OverIterator<ShuffleDataset, true> {
      Shuffled(const ShuffleDataset& of, const Pass& in)
          : OverIterator<ShuffleDataset, true>(of, in), random(Seeded()), slices{{0, 0}} {}

      bool Next(Element* out) override {
        Fill();
        if (held == 0) return false;
        while (!slices.empty() && slices.front().first == slices.front().end) {
          slices.pop_front();
          random = Seeded();
        }
        Slice& slice = slices.front();
        const int64_t at =
            Place(slice.first + static_cast<int64_t>(random.Next() % static_cast<uint64_t>(slice.end - slice.first)));
        const int64_t first = Place(slice.first);
        Take(at, out);
        for (size_t i = 0; at != first && i < width; ++i) Slot(at, i).swap(Slot(first, i));
        ++slice.first;
        --held;
        return true;
      }
      // The elements in the order of their numbers, which begin at 0 again.
      void SaveOrLoad(Archive& archive) override {
        this->dataset.seeds->State(archive);
        random.State(archive);
        archive.Number(passes);
        archive.Flag(some);
        int64_t first = slices.front().first, end = 0;
        archive.ListOf(slices, INT64_MAX, [&](Slice& slice) {
          int64_t length = slice.end - slice.first;
          archive.Number(length, 0, this->dataset.size - end);
          if (archive.reading()) slice = {end, end + length};
          end += length;
        });
        if (slices.empty()) archive.Refuse("a shuffle without a pass");
        if (!archive.reading()) {
          for (; first < slices.back().end; ++first) {
            Element element;
            for (size_t i = 0; i < width; ++i) element.push_back(Slot(Place(first), i)->Share());
            archive.Values(element);
          }
          return;
        }
        buffer.clear();
        for (held = 0; held < end; ++held) {
          Element element;
          archive.Values(element);
          if (element.size() != width) archive.Refuse("an element of a shuffle has another number of components");
          Put(held, element);
        }
      }

     private:
      struct Slice {
        int64_t first, end;  // of the elements of a pass, counted from the first one ever
      };
      OneByOne Seeded() const {
        const auto [seed, seed2] = this->dataset.seeds->Next();
        return {seed, seed2};
      }
      std::optional<KeptTensor>& Slot(int64_t place, size_t component) {
        return buffer[static_cast<size_t>(place) * width + component];
      }
      void Put(int64_t place, Element& from) {
        const size_t end = (static_cast<size_t>(place) + 1) * width;
        if (end > buffer.size()) buffer.resize(end);
        for (size_t i = 0; i < width; ++i) Slot(place, i).emplace(std::move(from[i]));
        from.clear();
      }
      void Take(int64_t place, Element* out) {
        out->clear();
        for (size_t i = 0; i < width; ++i) {
          out->push_back(std::move(*Slot(place, i)));
          Slot(place, i).reset();
        }
      }
      int64_t Place(int64_t number) const {
        return this->dataset.size == INT64_MAX ? number : number % this->dataset.size;
      }

      void Fill() {
        while (this->from != nullptr && held < this->dataset.size) {
          this->pass.CheckCancelled();
          if (!this->from->Next(&element)) {
            NextPass();
            continue;
          }
          some = true;
          if (element.size() != width)
            Fail(TENON_INVALID_ARGUMENT, this->dataset.who(), ": its input gives elements of ", element.size(),
                 " components; it has ", width);
          Put(Place(slices.back().end), element);
          ++slices.back().end;
          ++held;
        }
      }
      void NextPass() {
        ++passes;
        this->from.reset();
        const int64_t count = this->dataset.count;
        if (count < 0 ? !some : passes >= count) return;
        some = false;
        this->from = this->dataset.input->NewIterator(this->pass);
        slices.push_back({slices.back().end, slices.back().end});
      }

      OneByOne random;
      std::deque<Slice> slices;
      const size_t width = this->dataset.types().size();  // components
      std::vector<std::optional<KeptTensor>> buffer;  // those of element number n from place n % size times so many on:
                                                      // memory of each element's own would be most of the work
      Element element;                                    // between calls nobody's
      int64_t held = 0;
      int64_t passes = 0;
      bool some = false;  // of this pass
    };
    return std::make_unique<Shuffled>(*this, pass);
  }

  int64_t SizeOf(int64_t given) const {
    if (given == kUnknown && !kRepeats) return INT64_MAX;  // all of them
    if (given <= 0)
      Fail(TENON_INVALID_ARGUMENT, who(), ": buffer_size must be greater than zero",
           kRepeats ? "." : " or UNKNOWN_CARDINALITY");
    return given;
  }
  static SeedsPtr SeedsFor(const Attrs& attrs, const RunContext& c) {
    if constexpr (kFrom == From::kHandle) {
      return SeedsOf(c, kHandle, attrs.own, 0, 0, true);
    } else if constexpr (kFrom == From::kInputs) {
      return NewSeeds(attrs.own, IntOf(c, kSeed), IntOf(c, kSeed + 1), attrs.again);
    } else {
      return SeedsOf(c, kHandle, attrs.own, IntOf(c, kSeed), IntOf(c, kSeed + 1), attrs.again);
    }
  }

  const int64_t size, count;
  const SeedsPtr seeds;
};

}  // namespace

TENON_KERNEL(kShuffleDatasetKernel) = Registration<MakeDataset<ShuffleDataset<From::kInputs, false>>>("ShuffleDataset",
                                                                                                      kMakesDataset);
TENON_KERNEL(kShuffleDatasetV2Kernel) =
    Registration<MakeDataset<ShuffleDataset<From::kHandle, false>>>("ShuffleDatasetV2", kMakesDataset);
TENON_KERNEL(kShuffleDatasetV3Kernel) =
    Registration<MakeDataset<ShuffleDataset<From::kInputsAndHandle, false>>>("ShuffleDatasetV3", kMakesDataset);
TENON_KERNEL(kShuffleAndRepeatDatasetKernel) =
    Registration<MakeDataset<ShuffleDataset<From::kInputs, true>>>("ShuffleAndRepeatDataset", kMakesDataset);
TENON_KERNEL(kShuffleAndRepeatDatasetV2Kernel) =
    Registration<MakeDataset<ShuffleDataset<From::kInputsAndHandle, true>>>("ShuffleAndRepeatDatasetV2", kMakesDataset);

static constexpr std::string_view kShuffleDoc =
    "The elements in random order: each is one of the buffer_size next ones.";

TENON_OP(kShuffleDataset) = DefineDataset({
    .name = "ShuffleDataset",
    .inputs = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64",
    .attrs = "reshuffle_each_iteration: bool = true; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(buffer_size) == 0; rank(seed) == 0; rank(seed2) == 0",
    .doc = kShuffleDoc,
});

TENON_OP(kShuffleDatasetV2) = DefineDataset({
    .name = "ShuffleDatasetV2",
    .inputs = "input_dataset: variant, buffer_size: int64, seed_generator: resource",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(buffer_size) == 0",
    .doc = kShuffleDoc,
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kShuffleDatasetV3) = DefineDataset({
    .name = "ShuffleDatasetV3",
    .inputs = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, seed_generator: resource",
    .attrs = "reshuffle_each_iteration: bool = true; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(buffer_size) == 0; rank(seed) == 0; rank(seed2) == 0",
    .doc = kShuffleDoc,
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kShuffleAndRepeatDataset) = DefineDataset({
    .name = "ShuffleAndRepeatDataset",
    .inputs = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, count: int64",
    .attrs = TENON_DATASET_TYPES "; reshuffle_each_iteration: bool = true" TENON_DATASET_METADATA,
    .constraints = "rank(buffer_size) == 0; rank(seed) == 0; rank(seed2) == 0; rank(count) == 0",
    .doc = "As ShuffleDataset, count times, or without end; the buffer goes on from pass to pass.",
});

TENON_OP(kShuffleAndRepeatDatasetV2) = DefineDataset({
    .name = "ShuffleAndRepeatDatasetV2",
    .inputs =
        "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, count: int64, seed_generator: resource",
    .attrs = "reshuffle_each_iteration: bool = true; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(buffer_size) == 0; rank(seed) == 0; rank(seed2) == 0; rank(count) == 0",
    .doc = "As ShuffleDataset, count times, or without end; the buffer goes on from pass to pass.",
    .traits = TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
