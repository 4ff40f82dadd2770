// SPDX-License-Identifier: Apache-2.0
// Datasets that come of tensors and numbers: TensorDataset, TensorSliceDataset, ListDataset, RangeDataset,
// RandomDataset.
#include <utility>

#include "base/archive.h"
#include "base/dataset.h"
#include "base/op.h"
#include "batching/row_batch.h"
#include "order/seeds.h"
#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// What never waits.
template <class Derived>
class QuickIterator : public Iterator {
 public:
  Poll TryNext(Element* out) final { return static_cast<Derived*>(this)->Next(out) ? Poll::kElement : Poll::kEnd; }
};

Element InputsOf(const RunContext& c) {
  Element inputs;
  for (int32_t i = 0; i < c.input_count(); ++i) inputs.push_back(KeptTensor::OfInput(c, i));
  return inputs;
}

// ---- One element ----

class TensorDataset final : public Dataset {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c, false, "Toutput_types") {}
  };
  TensorDataset(const Attrs& attrs, const RunContext& c) : Dataset(attrs, {}, false), element_(InputsOf(c)) {}
  int64_t Cardinality() const override { return 1; }
  const Dataset* WithoutNumbers() const override { return nullptr; }
  Element At(const Pass&, int64_t) const override { return Share(element_); }

  IteratorPtr NewIterator(const Pass&) const override {
    class Once final : public QuickIterator<Once> {
     public:
      explicit Once(const TensorDataset& dataset) : dataset_(dataset) {}
      bool Next(Element* out) override {
        if (std::exchange(done_, true)) return false;
        *out = Share(dataset_.element_);
        return true;
      }
      void State(Archive& archive) override { archive.Flag(done_); }

     private:
      const TensorDataset& dataset_;
      bool done_ = false;
    };
    return std::make_unique<Once>(*this);
  }

 private:
  const Element element_;
};

// ---- The rows of tensors ----

class TensorSliceDataset final : public Dataset {
 public:
  using Attrs = TensorDataset::Attrs;
  TensorSliceDataset(const Attrs& attrs, const RunContext& c) : Dataset(attrs, {}, false), tensors_(InputsOf(c)) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const tenon_tensor_view view = tensors_[i].view();
      if (view.dl.ndim == 0) Fail(TENON_INVALID_ARGUMENT, who(), ": component ", i, " is a scalar, which has no rows");
      if (i == 0) rows_ = view.dl.shape[0];
      if (view.dl.shape[0] != rows_)
        Fail(TENON_INVALID_ARGUMENT, who(), ": component ", i, " has ", view.dl.shape[0], " rows, component 0 has ",
             rows_);
    }
  }
  int64_t Cardinality() const override { return rows_; }
  const Dataset* WithoutNumbers() const override { return nullptr; }
  Element At(const Pass& pass, int64_t number) const override {
    Element element;
    for (const KeptTensor& tensor : tensors_) element.push_back(RowOf(pass.work(), tensor.view(), number));
    return element;
  }

  IteratorPtr NewIterator(const Pass& pass) const override {
    class Rows final : public QuickIterator<Rows> {
     public:
      Rows(const TensorSliceDataset& dataset, const Pass& pass) : dataset_(dataset), pass_(pass) {}
      bool Next(Element* out) override {
        if (row_ >= dataset_.rows_) return false;
        *out = dataset_.At(pass_, row_);
        ++row_;
        return true;
      }
      void State(Archive& archive) override { archive.Number(row_, 0, dataset_.rows_); }

     private:
      const TensorSliceDataset& dataset_;
      const Pass& pass_;
      int64_t row_ = 0;
    };
    return std::make_unique<Rows>(*this, pass);
  }

 private:
  const Element tensors_;
  int64_t rows_ = 0;
};

// ---- A list of tensors, so many for each element ----

class ListDataset final : public Dataset {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c) {}
  };
  ListDataset(const Attrs& attrs, const RunContext& c) : Dataset(attrs, {}, false), tensors_(InputsOf(c)) {}
  // What is too little for an element at the end does not count.
  int64_t Cardinality() const override { return static_cast<int64_t>(tensors_.size() / types().size()); }
  const Dataset* WithoutNumbers() const override { return nullptr; }
  Element At(const Pass&, int64_t number) const override {
    Element element;
    for (size_t i = 0; i < types().size(); ++i) {
      const size_t place = static_cast<size_t>(number) * types().size() + i;
      const tenon_tensor_view view = tensors_[place].view();
      if (view.dtype != types()[i] || !Fits(ShapeOf(view), shapes()[i]))
        Fail(TENON_INVALID_ARGUMENT, who(), ": tensor ", place, " is ", TypeName(view.dtype), " ", ShapeOf(view),
             "; component ", i, " is ", TypeName(types()[i]), " ", shapes()[i]);
      element.push_back(tensors_[place].Share());
    }
    return element;
  }

  IteratorPtr NewIterator(const Pass& pass) const override {
    class Each final : public QuickIterator<Each> {
     public:
      Each(const ListDataset& dataset, const Pass& pass) : dataset_(dataset), pass_(pass) {}
      bool Next(Element* out) override {
        if (at_ >= dataset_.Cardinality()) return false;
        *out = dataset_.At(pass_, at_++);
        return true;
      }
      void State(Archive& archive) override { archive.Number(at_, 0, dataset_.Cardinality()); }

     private:
      const ListDataset& dataset_;
      const Pass& pass_;
      int64_t at_ = 0;
    };
    return std::make_unique<Each>(*this, pass);
  }

 private:
  const Element tensors_;
};

// ---- Numbers in a row ----

template <class T>
T NumberAs(int64_t value) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(value);
  else return T(static_cast<float>(value));
}

class RangeDataset final : public Dataset {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c) {
      if (c.ok() && types.size() != 1)
        c.Invalid(who, " has ", types.size(), " output_types; numbers are one component");
    }
  };
  RangeDataset(const Attrs& attrs, const RunContext& c)
      : Dataset(attrs, {}, false), start_(IntOf(c, 0)), step_(IntOf(c, 2)) {
    const int64_t stop = IntOf(c, 1);
    if (step_ == 0) Fail(TENON_INVALID_ARGUMENT, who(), ": step must be a non-zero integer.");
    const auto far = step_ > 0 ? static_cast<unsigned __int128>(static_cast<__int128>(stop) - start_)
                               : static_cast<unsigned __int128>(static_cast<__int128>(start_) - stop);
    const bool none = step_ > 0 ? start_ >= stop : start_ <= stop;
    const auto size = step_ > 0 ? static_cast<unsigned __int128>(step_)
                                : static_cast<unsigned __int128>(-static_cast<__int128>(step_));
    const unsigned __int128 count = none ? 0 : (far + size - 1) / size;
    count_ = count > INT64_MAX ? INT64_MAX : static_cast<int64_t>(count);
    Numbers::Dispatch(types()[0], [](auto) {});  // or says that there is no such number
  }
  int64_t Cardinality() const override { return count_; }
  const Dataset* WithoutNumbers() const override { return nullptr; }
  Element At(const Pass& pass, int64_t number) const override {
    Element element;
    Numbers::Dispatch(types()[0], [&](auto tag) {
      using T = typename decltype(tag)::type;
      element.push_back(NewScalar<T>(pass.work(), types()[0], NumberAs<T>(Value(number))));
    });
    return element;
  }

  IteratorPtr NewIterator(const Pass& pass) const override {
    class Count final : public QuickIterator<Count> {
     public:
      Count(const RangeDataset& dataset, const Pass& pass) : dataset_(dataset), pass_(pass) {}
      bool Next(Element* out) override {
        if (at_ >= dataset_.count_) return false;
        *out = dataset_.At(pass_, at_++);
        return true;
      }
      bool NextInto(RowBatch& rows) override {
        const int64_t end = std::min(dataset_.count_, at_ + kFew);
        if (at_ >= end) return false;
        Numbers::Dispatch(dataset_.types()[0], [&](auto tag) {
          using T = typename decltype(tag)::type;
          for (; at_ < end && !rows.full(); ++at_)
            rows.AddNumber<T>(dataset_.types()[0], NumberAs<T>(dataset_.Value(at_)));
        });
        return true;
      }
      void State(Archive& archive) override { archive.Number(at_, 0, dataset_.count_); }

     private:
      const RangeDataset& dataset_;
      const Pass& pass_;
      int64_t at_ = 0;
    };
    return std::make_unique<Count>(*this, pass);
  }

 private:
  int64_t Value(int64_t number) const { return start_ + number * step_; }
  const int64_t start_, step_;
  int64_t count_ = 0;
};

// ---- Random numbers ----

template <bool kHandle>
class RandomDataset final : public Dataset {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c), own(c) {
      if constexpr (kHandle) again = c.Bool("rerandomize_each_iteration");
      if (c.ok() && (types.size() != 1 || types[0] != TENON_DT_INT64)) c.Invalid(who, " gives one int64");
    }
    OwnSeeds own;
    bool again = false;
  };
  RandomDataset(const Attrs& attrs, const RunContext& c)
      : Dataset(attrs, {}, false),
        seeds_(kHandle ? SeedsOf(c, 2, attrs.own, IntOf(c, 0), IntOf(c, 1), attrs.again)
                       : NewSeeds(attrs.own, IntOf(c, 0), IntOf(c, 1), false)) {}
  int64_t Cardinality() const override { return kInfinite; }

  IteratorPtr NewIterator(const Pass& pass) const override {
    class Numbers final : public QuickIterator<Numbers> {
     public:
      Numbers(const RandomDataset& dataset, const Pass& pass, std::pair<uint64_t, uint64_t> seeds)
          : dataset_(dataset), pass_(pass), random_(seeds.first, seeds.second) {}
      bool Next(Element* out) override {
        out->clear();
        out->push_back(NewScalar<int64_t>(pass_.work(), TENON_DT_INT64, random_.Next()));
        return true;
      }
      void State(Archive& archive) override {
        dataset_.seeds_->State(archive);
        random_.State(archive);
      }

     private:
      const RandomDataset& dataset_;
      const Pass& pass_;
      OneByOne random_;
    };
    return std::make_unique<Numbers>(*this, pass, seeds_->Next());
  }

 private:
  const SeedsPtr seeds_;
};

}  // namespace

TENON_KERNEL(kTensorDatasetKernel) = Registration<MakeDataset<TensorDataset>>("TensorDataset", kMakesDataset);
TENON_KERNEL(kTensorSliceDatasetKernel) = Registration<MakeDataset<TensorSliceDataset>>("TensorSliceDataset",
                                                                                        kMakesDataset);
TENON_KERNEL(kListDatasetKernel) = Registration<MakeDataset<ListDataset>>("ListDataset", kMakesDataset);
TENON_KERNEL(kRangeDatasetKernel) = Registration<MakeDataset<RangeDataset>>("RangeDataset", kMakesDataset);
TENON_KERNEL(kRandomDatasetKernel) = Registration<MakeDataset<RandomDataset<false>>>("RandomDataset", kMakesDataset);
TENON_KERNEL(kExperimentalRandomDatasetKernel) =
    Registration<MakeDataset<RandomDataset<false>>>("ExperimentalRandomDataset", kMakesDataset);
TENON_KERNEL(kRandomDatasetV2Kernel) = Registration<MakeDataset<RandomDataset<true>>>("RandomDatasetV2", kMakesDataset);

TENON_OP(kTensorDataset) = DefineDataset({
    .name = "TensorDataset",
    .inputs = "components: Toutput_types",
    .attrs = "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1" TENON_DATASET_METADATA,
    .doc = "A dataset of one element: the components.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kTensorSliceDataset) = DefineDataset({
    .name = "TensorSliceDataset",
    .inputs = "components: Toutput_types",
    .attrs =
        "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; is_files: bool = false" TENON_DATASET_METADATA
        "; replicate_on_split: bool = false",
    .doc = "A dataset of the components' rows.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kListDataset) = DefineDataset({
    .name = "ListDataset",
    .inputs = "tensors: Tinput_types",
    .attrs = "Tinput_types: list(type) >= 1; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "The tensors, as many for each element as it has components.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kRangeDataset) = DefineDataset({
    .name = "RangeDataset",
    .inputs = "start: int64, stop: int64, step: int64",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA "; replicate_on_split: bool = false",
    .constraints = "rank(start) == 0; rank(stop) == 0; rank(step) == 0",
    .doc = "The numbers from start to, without, stop, in steps.",
    .traits = TENON_OP_STATEFUL,
});

static constexpr std::string_view kRandomDoc = "Random numbers without end: 32 bits each, of the seeds.";

TENON_OP(kRandomDataset) = DefineDataset({
    .name = "RandomDataset",
    .inputs = "seed: int64, seed2: int64",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(seed) == 0; rank(seed2) == 0",
    .doc = kRandomDoc,
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kExperimentalRandomDataset) = DefineDataset({
    .name = "ExperimentalRandomDataset",
    .inputs = "seed: int64, seed2: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(seed) == 0; rank(seed2) == 0",
    .doc = kRandomDoc,
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kRandomDatasetV2) = DefineDataset({
    .name = "RandomDatasetV2",
    .inputs = "seed: int64, seed2: int64, seed_generator: resource",
    .attrs = "rerandomize_each_iteration: bool = false; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(seed) == 0; rank(seed2) == 0",
    .doc = kRandomDoc,
    .traits = TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
