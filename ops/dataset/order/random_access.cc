// SPDX-License-Identifier: Apache-2.0
// Datasets over others whose elements can be had by their numbers: GlobalShuffleDataset, which gives all of them in
// random order without a buffer, and IndexFlatMapDataset, whose elements are the rows of what a function gives and can
// be had so themselves.
#include <array>
#include <bit>
#include <utility>

#include "base/captured_function.h"
#include "base/op.h"
#include "base/over_one.h"
#include "order/seeds.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// A random order of the numbers up to `last`, which is TensorFlow's for the same seeds: number by number, by Simon's
// cipher ("The Simon and Speck families of lightweight block ciphers", 2013) in eight rounds over the smallest even
// number of bits that holds them, at least 16; what it makes larger than `last` goes through it again.
class RandomOrder {
 public:
  RandomOrder(const std::array<uint32_t, 3>& seeds, uint64_t last)
      : last_(last), bits_(std::max(8, (static_cast<int>(std::bit_width(last)) + 1) / 2)) {
    constexpr uint64_t kConstant = 0xfffffffc, kSequence = 0x7369f885192c0ef5;
    for (size_t i = 0; i < 3; ++i) keys_[i] = seeds[i] & Mask();
    for (size_t i = 3; i < keys_.size(); ++i)
      keys_[i] = (kConstant & Mask()) ^ (kSequence >> (i - 3) & 1) ^ keys_[i - 3] ^ Rotated(keys_[i - 1], bits_ - 3) ^
                 Rotated(keys_[i - 1], bits_ - 4);
  }
  // Of a number up to `last`.
  uint64_t At(uint64_t number) const {
    if (last_ == 0) return 0;
    do number = Encrypted(number);
    while (number > last_);
    return number;
  }

 private:
  uint64_t Mask() const { return (UINT64_C(1) << bits_) - 1; }  // of a word, half a block
  uint64_t Rotated(uint64_t word, int left) const { return (word << left | word >> (bits_ - left)) & Mask(); }
  uint64_t Encrypted(uint64_t number) const {
    uint64_t left = number >> bits_ & Mask(), right = number & Mask();
    for (const uint64_t key : keys_) {
      left ^= (Rotated(right, 1) & Rotated(right, 8)) ^ Rotated(right, 2) ^ key;
      std::swap(left, right);
    }
    return left << bits_ | right;
  }

  const uint64_t last_;
  const int bits_;
  std::array<uint64_t, 8> keys_ = {};
};

struct GlobalShuffleDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), own(c), again(c.Bool("reshuffle_each_iteration")) {}
    OwnSeeds own;
    bool again;
  };
  GlobalShuffleDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c), seeds(SeedsOf(c, 3, attrs.own, IntOf(c, 1), IntOf(c, 2), attrs.again)) {
    if (const Dataset* without = input->WithoutNumbers())
      Fail(TENON_FAILED_PRECONDITION, who(),
           ": `global_shuffle` requires all upstream transformations be compatible with random access. Got: ",
           without->who(), ", which does not support it.");
    if (input->Cardinality() <= 0)
      Fail(TENON_INVALID_ARGUMENT, who(),
           ": `global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality ",
           input->Cardinality(), " for ", input->who());
  }
  int64_t Cardinality() const override { return input->Cardinality(); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Shuffled final : Iterator {
      Shuffled(const GlobalShuffleDataset& of, const Pass& in) : dataset(of), pass(in), count(of.Cardinality()) {
        const auto [first, second] = of.seeds->Next();
        words = {first, second, of.seeds->Next().first};
      }
      bool Next(Element* out) override {
        if (at >= count) return false;
        pass.CheckCancelled();
        const auto number = static_cast<uint64_t>(at++);
        const auto word = [this](size_t i) { return static_cast<uint32_t>(words[i]); };
        *out = dataset.input->At(
            pass, static_cast<int64_t>(
                      RandomOrder({word(0), word(1), word(2)}, static_cast<uint64_t>(count) - 1).At(number)));
        return true;
      }
      void State(Archive& archive) override {
        dataset.seeds->State(archive);
        for (uint64_t& word : words) archive.Word(word);
        archive.Number(at, 0, count);
      }
      const GlobalShuffleDataset& dataset;
      const Pass& pass;
      const int64_t count;
      std::array<uint64_t, 3> words = {};
      int64_t at = 0;
    };
    return std::make_unique<Shuffled>(*this, pass);
  }
  const SeedsPtr seeds;
};

struct IndexFlatMapDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c)
        : OverOne::Attrs(c),
          map(c, "map_func"),
          index(c, "index_map_func"),
          map_count(static_cast<int32_t>(c.Types("Tmap_func_args").size())),
          index_count(static_cast<int32_t>(c.Types("Tindex_map_func_args").size())) {
      if (c.ok() && map.result_dtypes().size() != types.size())
        c.Invalid(who, ": map_func gives ", map.result_dtypes().size(), " values; ", types.size(), " are asked for");
      if (c.ok() && index.result_dtypes().size() != 2)
        c.Invalid(who, ": index_map_func gives ", index.result_dtypes().size(),
                  " values; an element's number and a row are asked for");
    }
    Function map, index;
    int32_t map_count, index_count;
  };
  IndexFlatMapDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c),
        map(attrs.map, who(), c, 1, attrs.map_count),
        index(attrs.index, who(), c, 1 + attrs.map_count, attrs.index_count),
        count(IntOf(c, c.input_count() - 1)) {}
  int64_t Cardinality() const override { return count; }
  const Dataset* WithoutNumbers() const override { return count < 0 ? this : input->WithoutNumbers(); }
  Element At(const Pass& pass, int64_t number) const override {
    Element argument;
    argument.push_back(NewScalar<int64_t>(pass.work(), TENON_DT_INT64, number));
    const Element where = index.Call(pass, argument);
    for (const KeptTensor& part : where) {
      const tenon_tensor_view view = part.view();
      if (view.dtype != TENON_DT_INT64 || view.dl.ndim != 0)
        Fail(TENON_INVALID_ARGUMENT, who(), ": index_map_func must give two int64, an element's number and a row");
    }
    const int64_t element = *Data<const int64_t>(where[0].view()), row = *Data<const int64_t>(where[1].view());
    const int64_t all = input->Cardinality();
    if (element < 0 || (all >= 0 && element >= all))
      Fail(TENON_OUT_OF_RANGE, who(), ": index_map_func gives element ", element, " for ", number, "; the input has ",
           all);
    const Element rows = map.Call(pass, input->At(pass, element));
    if (row < 0 || row >= RowCount(rows))
      Fail(TENON_INVALID_ARGUMENT, who(), ": index_map_func gives row ", row, " of element ", element, ", which has ",
           RowCount(rows));
    return Row(pass, rows, row);
  }
  // Without a shuffle: row after row, for which nobody needs to know where they are.
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Rows final : OverIterator<IndexFlatMapDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        while (row >= count) {
          pass.CheckCancelled();
          Element element;
          row = count = 0;
          if (!from->Next(&element)) return false;
          rows = dataset.map.Call(pass, element);
          count = dataset.RowCount(rows);
        }
        *out = dataset.Row(pass, rows, row++);
        return true;
      }
      void SaveOrLoad(Archive& archive) override {
        if (row >= count) {
          rows.clear();
          row = count = 0;
        }
        archive.Values(rows);
        count = rows.empty() ? 0 : dataset.RowCount(rows);
        archive.Number(row, 0, count);
      }
      Element rows;
      int64_t row = 0, count = 0;
    };
    return std::make_unique<Rows>(*this, pass);
  }

 private:
  // Of what map_func gave; scalars are one row.
  int64_t RowCount(const Element& rows) const {
    int64_t most = 1;
    for (size_t i = 0; i < rows.size(); ++i) {
      const tenon_tensor_view view = rows[i].view();
      const int64_t here = view.dl.ndim == 0 ? 1 : view.dl.shape[0];
      if (i > 0 && here != most)
        Fail(TENON_INVALID_ARGUMENT, who(), ": map_func gives ", most, " rows of component 0 and ", here,
             " of component ", i);
      most = here;
    }
    return most;
  }
  static Element Row(const Pass& pass, const Element& rows, int64_t row) {
    Element element;
    for (const KeptTensor& tensor : rows)
      element.push_back(tensor.view().dl.ndim == 0 ? tensor.Share() : RowOf(pass.work(), tensor.view(), row));
    return element;
  }
  const Captured map, index;
  const int64_t count;
};

}  // namespace

TENON_KERNEL(kGlobalShuffleDatasetKernel) = Registration<MakeDataset<GlobalShuffleDataset>>("GlobalShuffleDataset",
                                                                                            kMakesDataset);
TENON_KERNEL(kIndexFlatMapDatasetKernel) = Registration<MakeDataset<IndexFlatMapDataset>>("IndexFlatMapDataset",
                                                                                          kMakesDataset);

TENON_OP(kGlobalShuffleDataset) = DefineDataset({
    .name = "GlobalShuffleDataset",
    .inputs = "input_dataset: variant, seed: int64, seed2: int64, seed_generator: resource",
    .attrs = "reshuffle_each_iteration: bool = true; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(seed) == 0; rank(seed2) == 0",
    .doc = "All elements in random order, each fetched by its number: the input must be of datasets that can do so.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kIndexFlatMapDataset) = DefineDataset({
    .name = "IndexFlatMapDataset",
    .inputs = "input_dataset: variant, map_func_other_args: Tmap_func_args, index_map_func_other_args: "
              "Tindex_map_func_args, output_cardinality: int64",
    .attrs = "map_func: func; index_map_func: func; Tmap_func_args: list(type); Tindex_map_func_args: "
             "list(type); " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(output_cardinality) == 0",
    .doc = "The rows of what map_func gives of each element. index_map_func says for a row's number which element it "
           "is of, and which of its rows; output_cardinality is how many there are.",
});

}  // namespace tenon::ops
