// SPDX-License-Identifier: Apache-2.0
// WeightedFlatMapDataset: of several datasets, one after the other, so many elements that their numbers are as the
// weights, and one dataset is used up.
#include "base/archive.h"
#include "base/dataset.h"
#include "base/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct WeightedFlatMapDataset final : Dataset {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c), inputs(static_cast<int32_t>(c.Int("N"))) {
      if (c.ok() && c.Int("M") != inputs)
        c.Invalid(who, ": `input_datasets` and `weights` of the WeightedFlatMap must have the same size. Got ", inputs,
                  " datasets and ", c.Int("M"), " weights.");
    }
    int32_t inputs;
  };
  WeightedFlatMapDataset(const Attrs& attrs, const RunContext& c)
      : WeightedFlatMapDataset(attrs, c, DatasetsOf(c, 0, attrs.inputs)) {}
  WeightedFlatMapDataset(const Attrs& attrs, const RunContext& c, std::vector<DatasetPtr> all)
      : Dataset(attrs, all, true), inputs(std::move(all)) {
    std::vector<double> weights;
    for (size_t i = 0; i < inputs.size(); ++i) {
      weights.push_back(*c.input<double>(attrs.inputs + static_cast<int32_t>(i)));
      if (!(weights[i] > 0))
        Fail(TENON_INVALID_ARGUMENT, who(), ": `weights` must be greater than 0.0. Input ", i, " has a weight of ",
             weights[i]);
      if (inputs[i]->Cardinality() < 0)
        Fail(TENON_INVALID_ARGUMENT, who(), ": input ", i, ", ", inputs[i]->who(),
             ", has no end, or none that is known; its number of elements is needed");
      if (inputs[i]->types() != types())
        Fail(TENON_INVALID_ARGUMENT, who(), ": input ", i, " has components of other types");
    }
    Share(weights);
  }
  int64_t Cardinality() const override {
    int64_t all = 0;
    for (const int64_t count : counts)
      if (__builtin_add_overflow(all, count, &all)) return kUnknown;
    return all;
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct InTurn final : Iterator {
      InTurn(const WeightedFlatMapDataset& of, const Pass& in) : dataset(of), pass(in) { Open(); }
      bool Next(Element* out) override {
        while (at < dataset.inputs.size()) {
          pass.CheckCancelled();
          if (taken < dataset.counts[at] && from->Next(out)) {
            ++taken;
            return true;
          }
          ++at;
          taken = 0;
          Open();
        }
        return false;
      }
      void Open() {
        from.reset();
        if (at < dataset.inputs.size()) from = dataset.inputs[at]->NewIterator(pass);
      }
      void State(Archive& archive) override {
        archive.Number(at, 0, static_cast<int64_t>(dataset.inputs.size()));
        archive.Number(taken);
        if (archive.reading()) from.reset();
        if (at < dataset.inputs.size()) archive.There(*dataset.inputs[at], from);
        else from.reset();
      }
      const WeightedFlatMapDataset& dataset;
      const Pass& pass;
      IteratorPtr from;
      size_t at = 0;
      int64_t taken = 0;
    };
    return std::make_unique<InTurn>(*this, pass);
  }

 private:
  // TensorFlow's rule, which for unlike datasets leaves more of them than it must: that of the least elements times
  // weight goes by what that product is of the largest weight.
  void Share(const std::vector<double>& weights) {
    const double largest = *std::max_element(weights.begin(), weights.end());
    double least = 0;
    size_t which = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double weighted = static_cast<double>(inputs[i]->Cardinality()) * weights[i] / largest;
      if (i > 0 && weighted >= least) continue;
      least = weighted;
      which = i;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double count = least * weights[i] / weights[which];
      const int64_t all = inputs[i]->Cardinality();
      if (!(count < static_cast<double>(all) + 1))
        Fail(TENON_INVALID_ARGUMENT, who(), ": Input ", i, " needs to have at least ", count, " elements. It only has ",
             all, " elements.");
      counts.push_back(static_cast<int64_t>(count));
    }
  }
  const std::vector<DatasetPtr> inputs;
  std::vector<int64_t> counts;  // of each
};

}  // namespace

TENON_KERNEL(kWeightedFlatMapDatasetKernel) =
    Registration<MakeDataset<WeightedFlatMapDataset>>("WeightedFlatMapDataset", kMakesDataset);

TENON_OP(kWeightedFlatMapDataset) = DefineDataset({
    .name = "WeightedFlatMapDataset",
    .inputs = "input_datasets: N * variant, weights: M * double",
    .attrs = "N: int >= 2; M: int >= 2; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(weights) == 0",
    .doc = "Of each dataset, one after the other, as many elements as its weight says.",
});

}  // namespace tenon::ops
