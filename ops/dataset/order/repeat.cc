// SPDX-License-Identifier: Apache-2.0
// Datasets of which of the elements of others: RepeatDataset, TakeDataset, SkipDataset, ShardDataset,
// ConcatenateDataset, ZipDataset, AssertCardinalityDataset, IgnoreErrorsDataset.
#include "order/repeat.h"

#include <exception>

#include "base/op.h"
#include "base/over_one.h"

namespace tenon::ops {
using namespace sdk;

namespace {

int64_t Times(int64_t cardinality, int64_t count) {
  if (count == 0 || cardinality == 0) return 0;
  if (cardinality < 0) return cardinality == kInfinite || count < 0 ? kInfinite : kUnknown;
  int64_t product = 0;
  return count < 0 ? kInfinite : __builtin_mul_overflow(cardinality, count, &product) ? kUnknown : product;
}

struct RepeatDataset final : OverOne {
  RepeatDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, IntOf(c, 1) > kFew), count(IntOf(c, 1)), empty(input->Cardinality() == 0) {}
  int64_t Cardinality() const override { return Times(input->Cardinality(), count); }
  const Dataset* WithoutNumbers() const override { return count < 0 ? this : input->WithoutNumbers(); }
  Element At(const Pass& pass, int64_t number) const override { return input->At(pass, number % input->Cardinality()); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Again final : OverIterator<RepeatDataset, true> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        while (from != nullptr) {
          pass.CheckCancelled();
          if (dataset.count != 0 && from->Next(out)) return some = true;
          ++done;
          // Over nothing there is nothing, however often.
          const bool more = dataset.count < 0 ? some : !dataset.empty && done < dataset.count;
          from.reset();
          if (more) from = dataset.input->NewIterator(pass);
          some = false;
        }
        return false;
      }
      bool NextInto(RowBatch& rows) override {
        if (from == nullptr || dataset.count == 0 || !from->NextInto(rows)) return false;
        return some = true;
      }
      void SaveOrLoad(Archive& archive) override {
        archive.Flag(some);
        archive.Number(done);
      }
      bool some = false;
      int64_t done = 0;
    };
    return std::make_unique<Again>(*this, pass);
  }
  const int64_t count;
  const bool empty;
};

struct TakeDataset final : OverOne {
  TakeDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c, false), count(IntOf(c, 1)) {}
  int64_t Cardinality() const override {
    const int64_t all = input->Cardinality();
    if (all == kUnknown || count < 0) return all;
    return all == kInfinite ? count : std::min(all, count);
  }
  const Dataset* WithoutNumbers() const override { return input->WithoutNumbers(); }
  Element At(const Pass& pass, int64_t number) const override { return input->At(pass, number); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct First final : OverIterator<TakeDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        if (AtEnd() || !from->Next(out)) return false;
        ++taken;
        return true;
      }
      Poll TryNext(Element* out) override {
        if (AtEnd()) return Poll::kEnd;
        const Poll poll = from->TryNext(out);
        if (poll == Poll::kElement) ++taken;
        return poll;
      }
      void SaveOrLoad(Archive& archive) override { archive.Number(taken); }
      bool AtEnd() const { return dataset.count >= 0 && taken >= dataset.count; }
      int64_t taken = 0;
    };
    return std::make_unique<First>(*this, pass);
  }
  const int64_t count;
};

struct SkipDataset final : OverOne {
  SkipDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c, IntOf(c, 1) > kFew), count(IntOf(c, 1)) {}
  int64_t Cardinality() const override {
    const int64_t all = input->Cardinality();
    if (all == kUnknown || all == kInfinite) return all;
    return count < 0 ? 0 : std::max<int64_t>(0, all - count);
  }
  const Dataset* WithoutNumbers() const override { return input->WithoutNumbers(); }
  Element At(const Pass& pass, int64_t number) const override { return input->At(pass, number + count); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Behind final : OverIterator<SkipDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        if (dataset.count < 0) return false;
        for (; skipped < dataset.count; ++skipped) {
          pass.CheckCancelled();
          Element gone;
          if (!from->Next(&gone)) return false;
        }
        return from->Next(out);
      }
      Poll TryNext(Element* out) override {
        return skipped < dataset.count || dataset.count < 0 ? Poll::kLater : from->TryNext(out);
      }
      void SaveOrLoad(Archive& archive) override { archive.Number(skipped); }
      int64_t skipped = 0;
    };
    return std::make_unique<Behind>(*this, pass);
  }
  const int64_t count;
};

struct ShardDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), require_non_empty(c.Bool("require_non_empty")) {}
    bool require_non_empty;
  };
  ShardDataset(const Attrs& attrs, const RunContext& c)
      : ShardDataset(attrs, DatasetOf(c, 0), IntOf(c, 1), IntOf(c, 2), attrs.require_non_empty) {}
  ShardDataset(const Node& node, DatasetPtr from, int64_t count, int64_t which, bool non_empty)
      : OverOne(node, std::move(from), true), shards(count), index(which), require_non_empty(non_empty) {
    if (shards <= 0)
      Fail(TENON_INVALID_ARGUMENT, who(),
           ": Number of shards must be greater than zero (currently num_shards = ", shards, ").");
    if (index < 0 || index >= shards)
      Fail(TENON_INVALID_ARGUMENT, who(), ": Index must be between 0 and ", shards - 1, " (currently index = ", index,
           ", num_shards = ", shards, ").");
  }
  int64_t Cardinality() const override {
    const int64_t all = input->Cardinality();
    return all < 0 ? all : all / shards + (index < all % shards ? 1 : 0);
  }
  const Dataset* WithoutNumbers() const override { return input->WithoutNumbers(); }
  Element At(const Pass& pass, int64_t number) const override { return input->At(pass, number * shards + index); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct EachNth final : OverIterator<ShardDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        for (;;) {
          pass.CheckCancelled();
          if (!from->Next(out)) return false;
          if (at++ % dataset.shards != dataset.index) continue;
          if (dataset.require_non_empty && at <= dataset.shards) CheckOthers();
          return true;
        }
      }
      // That each of the other shards has an element too; they are not this one's.
      void CheckOthers() {
        Element other;
        for (; at < dataset.shards; ++at)
          if (!from->Next(&other))
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": the dataset has ", at,
                 " elements, which are not enough for ", dataset.shards, " shards that may not be empty");
      }
      void SaveOrLoad(Archive& archive) override { archive.Number(at); }
      int64_t at = 0;
    };
    return std::make_unique<EachNth>(*this, pass);
  }
  const int64_t shards, index;
  const bool require_non_empty;
};

struct ConcatenateDataset final : Dataset {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c) {}
  };
  ConcatenateDataset(const Attrs& attrs, const RunContext& c)
      : ConcatenateDataset(attrs, DatasetOf(c, 0), DatasetOf(c, 1)) {}
  ConcatenateDataset(const Attrs& attrs, DatasetPtr a, DatasetPtr b)
      : Dataset(attrs, {a, b}, false), first(std::move(a)), second(std::move(b)) {
    if (first->types() != second->types())
      Fail(TENON_INVALID_ARGUMENT, who(), ": both datasets must have the same types");
  }
  int64_t Cardinality() const override {
    const int64_t a = first->Cardinality(), b = second->Cardinality();
    if (a == kInfinite || b == kInfinite) return kInfinite;
    int64_t sum = 0;
    return a == kUnknown || b == kUnknown || __builtin_add_overflow(a, b, &sum) ? kUnknown : sum;
  }
  const Dataset* WithoutNumbers() const override {
    const Dataset* const without = first->WithoutNumbers();
    return without != nullptr ? without : second->WithoutNumbers();
  }
  Element At(const Pass& pass, int64_t number) const override {
    const int64_t of_first = first->Cardinality();
    return number < of_first || of_first < 0 ? first->At(pass, number) : second->At(pass, number - of_first);
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Both final : Iterator {
      Both(const ConcatenateDataset& of, const Pass& in) : dataset(of), pass(in), from(of.first->NewIterator(in)) {}
      bool Next(Element* out) override {
        if (from->Next(out)) return true;
        if (second) return false;
        second = true;
        from = dataset.second->NewIterator(pass);
        return from->Next(out);
      }
      Poll TryNext(Element* out) override {
        const Poll poll = from->TryNext(out);
        return poll == Poll::kEnd && !second ? Poll::kLater : poll;
      }
      void State(Archive& archive) override {
        archive.Flag(second);
        if (archive.reading()) from.reset();
        archive.There(second ? *dataset.second : *dataset.first, from);
      }
      const ConcatenateDataset& dataset;
      const Pass& pass;
      IteratorPtr from;
      bool second = false;
    };
    return std::make_unique<Both>(*this, pass);
  }
  const DatasetPtr first, second;
};

struct ZipDataset final : Dataset {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c) {}
  };
  ZipDataset(const Attrs& attrs, const RunContext& c) : ZipDataset(attrs, DatasetsOf(c, 0, c.input_count())) {}
  ZipDataset(const Attrs& attrs, std::vector<DatasetPtr> all) : Dataset(attrs, all, false), inputs(std::move(all)) {}
  int64_t Cardinality() const override {
    int64_t least = kInfinite;
    for (const DatasetPtr& input : inputs) {
      const int64_t n = input->Cardinality();
      if (n == kUnknown) return kUnknown;
      if (n != kInfinite) least = least == kInfinite ? n : std::min(least, n);
    }
    return least;
  }
  const Dataset* WithoutNumbers() const override {
    for (const DatasetPtr& input : inputs)
      if (const Dataset* without = input->WithoutNumbers()) return without;
    return nullptr;
  }
  Element At(const Pass& pass, int64_t number) const override {
    Element element;
    for (const DatasetPtr& input : inputs)
      for (KeptTensor& tensor : input->At(pass, number)) element.push_back(std::move(tensor));
    return element;
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Together final : Iterator {
      Together(const ZipDataset& of, const Pass& pass) : dataset(of) {
        for (const DatasetPtr& input : of.inputs) from.push_back(input->NewIterator(pass));
      }
      // One that fails does not keep those behind it from going on: they stay in step with one another.
      bool Next(Element* out) override {
        out->clear();
        std::exception_ptr failure;
        for (size_t i = 0; i < from.size() && !ended; ++i) {
          Element part;
          try {
            ended = !from[i]->Next(&part);
          } catch (...) {
            if (failure == nullptr) failure = std::current_exception();
          }
          std::move(part.begin(), part.end(), std::back_inserter(*out));
        }
        if (failure != nullptr) std::rethrow_exception(failure);
        return !ended;
      }
      void State(Archive& archive) override {
        for (size_t i = 0; i < from.size(); ++i) archive.There(*dataset.inputs[i], from[i]);
        archive.Flag(ended);
      }
      const ZipDataset& dataset;
      std::vector<IteratorPtr> from;
      bool ended = false;
    };
    return std::make_unique<Together>(*this, pass);
  }
  const std::vector<DatasetPtr> inputs;
};

struct AssertCardinalityDataset final : OverOne {
  AssertCardinalityDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c, false), wanted(IntOf(c, 1)) {}
  int64_t Cardinality() const override { return wanted; }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Counted final : OverIterator<AssertCardinalityDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        const bool some = from->Next(out);
        count += some ? 1 : 0;
        const int64_t wanted = dataset.wanted;
        if (!some && (wanted == kInfinite ||
                      (wanted >= 0 && count != wanted)))  // asked again after there were too many, it is no end either
          Fail(TENON_FAILED_PRECONDITION, dataset.who(), ": Input dataset was expected to contain ", Name(wanted),
               " but contained only ", Name(count), ".");
        if (some && wanted >= 0 && count > wanted)
          Fail(TENON_FAILED_PRECONDITION, dataset.who(), ": Input dataset was expected to contain ", Name(wanted),
               " but contained at least ", Name(count), ".");
        return some;
      }
      static std::string Name(int64_t wanted) {
        return wanted == kInfinite ? "an infinite number of elements"
                                   : Concat(wanted, wanted == 1 ? " element" : " elements");
      }
      void SaveOrLoad(Archive& archive) override { archive.Number(count); }
      int64_t count = 0;
    };
    return std::make_unique<Counted>(*this, pass);
  }
  const int64_t wanted;
};

// Elements that fail are left out.
struct IgnoreErrorsDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), log(c.Bool("log_warning")) {}
    bool log;
  };
  IgnoreErrorsDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c), log(attrs.log) {}
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct WhatWorks final : OverIterator<IgnoreErrorsDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        for (;;) {
          pass.CheckCancelled();
          try {
            return from->Next(out);
          } catch (KernelError& error) {
            const Outcome why = TakeStatus(error.release());
            if (why.code == TENON_CANCELLED || pass.cancelled()) Fail(why.code, why.message);
            if (dataset.log)
              tenon_plugin_host->log(TENON_LOG_WARNING,
                                     ToSpan(Concat(dataset.who(), " leaves out an element: ", why.message)));
          }
        }
      }
      void SaveOrLoad(Archive&) override {}
    };
    return std::make_unique<WhatWorks>(*this, pass);
  }
  const bool log;
};

}  // namespace

DatasetPtr NewShard(const Dataset::Node& node, DatasetPtr input, int64_t shards, int64_t index) {
  return std::make_shared<const ShardDataset>(node, std::move(input), shards, index, true);
}

TENON_KERNEL(kRepeatDatasetKernel) = Registration<MakeDataset<RepeatDataset>>("RepeatDataset", kMakesDataset);
TENON_KERNEL(kTakeDatasetKernel) = Registration<MakeDataset<TakeDataset>>("TakeDataset", kMakesDataset);
TENON_KERNEL(kSkipDatasetKernel) = Registration<MakeDataset<SkipDataset>>("SkipDataset", kMakesDataset);
TENON_KERNEL(kShardDatasetKernel) = Registration<MakeDataset<ShardDataset>>("ShardDataset", kMakesDataset);
TENON_KERNEL(kConcatenateDatasetKernel) = Registration<MakeDataset<ConcatenateDataset>>("ConcatenateDataset",
                                                                                        kMakesDataset);
TENON_KERNEL(kZipDatasetKernel) = Registration<MakeDataset<ZipDataset>>("ZipDataset", kMakesDataset);
TENON_KERNEL(kAssertCardinalityDatasetKernel) =
    Registration<MakeDataset<AssertCardinalityDataset>>("AssertCardinalityDataset", kMakesDataset);
TENON_KERNEL(kIgnoreErrorsDatasetKernel) = Registration<MakeDataset<IgnoreErrorsDataset>>("IgnoreErrorsDataset",
                                                                                          kMakesDataset);
TENON_KERNEL(kExperimentalIgnoreErrorsDatasetKernel) =
    Registration<MakeDataset<IgnoreErrorsDataset>>("ExperimentalIgnoreErrorsDataset", kMakesDataset);

TENON_OP(kRepeatDataset) = DefineDataset({
    .name = "RepeatDataset",
    .inputs = "input_dataset: variant, count: int64",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(count) == 0",
    .doc = "The elements count times, or without end where count is negative.",
});

TENON_OP(kTakeDataset) = DefineDataset({
    .name = "TakeDataset",
    .inputs = "input_dataset: variant, count: int64",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(count) == 0",
    .doc = "The first count elements, or all where count is negative.",
});

TENON_OP(kSkipDataset) = DefineDataset({
    .name = "SkipDataset",
    .inputs = "input_dataset: variant, count: int64",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(count) == 0",
    .doc = "What is behind the first count elements; nothing where count is negative.",
});

TENON_OP(kShardDataset) = DefineDataset({
    .name = "ShardDataset",
    .inputs = "input_dataset: variant, num_shards: int64, index: int64",
    .attrs = "require_non_empty: bool = false; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(num_shards) == 0; rank(index) == 0",
    .doc = "Each num_shards-th element, from element index on.",
});

TENON_OP(kConcatenateDataset) = DefineDataset({
    .name = "ConcatenateDataset",
    .inputs = "input_dataset: variant, another_dataset: variant",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "The elements of the one, then those of the other.",
});

TENON_OP(kZipDataset) = DefineDataset({
    .name = "ZipDataset",
    .inputs = "input_datasets: N * variant",
    .attrs = TENON_DATASET_TYPES "; N: int >= 1" TENON_DATASET_METADATA,
    .doc = "Elements of an element of each of the datasets, as long as all have some.",
});

TENON_OP(kAssertCardinalityDataset) = DefineDataset({
    .name = "AssertCardinalityDataset",
    .inputs = "input_dataset: variant, cardinality: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(cardinality) == 0",
    .doc = "The elements, of which there must be so many (-1: without end).",
});

TENON_OP(kIgnoreErrorsDataset) = DefineDataset({
    .name = "IgnoreErrorsDataset",
    .inputs = "input_dataset: variant",
    .attrs = TENON_DATASET_TYPES "; log_warning: bool = false",
    .doc = "The elements without those that fail.",
});

TENON_OP(kExperimentalIgnoreErrorsDataset) = DefineDataset({
    .name = "ExperimentalIgnoreErrorsDataset",
    .inputs = "input_dataset: variant",
    .attrs = TENON_DATASET_TYPES "; log_warning: bool = false",
    .doc = "The elements without those that fail.",
});

}  // namespace tenon::ops
