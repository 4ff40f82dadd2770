// SPDX-License-Identifier: Apache-2.0
// Datasets whose function gives a dataset for each element: FlatMapDataset, InterleaveDataset and the parallel forms of
// that.
//
// The parallel forms open the datasets of a cycle each with a prefetcher of its own (prefetch.h), so that they work
// beside one another; the order of the elements is the plain one, whatever the threads.
#include "base/captured_function.h"
#include "base/op.h"
#include "base/over_one.h"
#include "performance/prefetch.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// What the function gave for an element, and a pass over it.
struct Inner {
  Element element;
  Opened opened;

  bool is_open() const { return opened.is_open(); }
  // ahead: as of NewPrefetcher; 0: nothing is made ahead.
  void Open(const Pass& pass, const Captured& function, const std::vector<uint32_t>& types, int64_t ahead) {
    opened.Open(pass, function.CallForDataset(pass, element, types),
                [ahead](const Pass& within, const Dataset& dataset) {
                  return ahead > 0 ? NewPrefetcher(within, dataset, ahead) : dataset.NewIterator(within);
                });
  }
  void State(Archive& archive, const Captured& function, const std::vector<uint32_t>& types, int64_t ahead) {
    bool open = is_open();
    archive.Flag(open);
    if (archive.reading()) *this = {};
    if (!open) return;
    archive.Values(element);
    if (archive.reading()) Open(archive.pass(), function, types, ahead);
    opened.State(archive);
  }
};

struct FlatMapDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), function(c, "f") {}
    Function function;
  };
  FlatMapDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true), function(attrs.function, who(), c, 1) {}
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Flat final : OverIterator<FlatMapDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        for (;;) {
          pass.CheckCancelled();
          if (inner.is_open() && inner.opened->Next(out)) return true;
          inner = {};
          if (!from->Next(&inner.element)) return false;
          inner.Open(pass, dataset.function, dataset.types(), 0);
        }
      }
      bool NextInto(RowBatch& rows) override { return inner.is_open() && inner.opened->NextInto(rows); }
      void SaveOrLoad(Archive& archive) override { inner.State(archive, dataset.function, dataset.types(), 0); }
      Inner inner;
    };
    return std::make_unique<Flat>(*this, pass);
  }
  const Captured function;
};

// How the inputs of an op say it.
enum class Form { kPlain, kLegacy, kLegacyV2, kV2, kV4 };

template <Form kForm>
struct InterleaveDataset final : OverOne {
  using Attrs = FlatMapDataset::Attrs;
  static constexpr int32_t kNumbers = kForm == Form::kPlain      ? 2
                                      : kForm == Form::kV2       ? 3
                                      : kForm == Form::kLegacyV2 ? 4
                                                                 : 5;  // inputs behind the function's arguments
  InterleaveDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true), function(attrs.function, who(), c, 1, c.input_count() - 1 - kNumbers) {
    const int32_t first = c.input_count() - kNumbers;
    cycle = IntOf(c, first);
    block = IntOf(c, first + 1);
    if (cycle == kAutotune && kForm != Form::kPlain) cycle = DefaultParallelism();
    if (cycle <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": `cycle_length` must be > 0");
    if (cycle > kMostCycle)
      Fail(TENON_RESOURCE_EXHAUSTED, who(), ": cycle_length is ", cycle, "; ", kMostCycle, " is the most");
    if (block <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": `block_length` must be > 0");
    if constexpr (kForm == Form::kLegacy) ahead = std::max<int64_t>(1, IntOf(c, first + 3));
    if constexpr (kForm == Form::kLegacyV2) ahead = std::max<int64_t>(1, IntOf(c, first + 2));
    if constexpr (kForm == Form::kV2) ahead = block;
    if constexpr (kForm == Form::kV4) ahead = IntOf(c, first + 2) == kAutotune ? block : IntOf(c, first + 2);
    if constexpr (kForm == Form::kV2 || kForm == Form::kV4) CheckCalls(IntOf(c, c.input_count() - 1));
  }

  IteratorPtr NewIterator(const Pass& pass) const override {
    struct InTurn final : OverIterator<InterleaveDataset> {
      InTurn(const InterleaveDataset& of, const Pass& in)
          : OverIterator<InterleaveDataset>(of, in),
            charge(in.account(), static_cast<uint64_t>(of.cycle) * sizeof(Inner)),
            open(static_cast<size_t>(of.cycle)) {}
      bool Next(Element* out) override {
        while (!ended || some > 0) {
          this->pass.CheckCancelled();
          Inner& inner = open[at];
          if (inner.is_open()) {
            if (inner.opened->Next(out)) {
              if (++taken == this->dataset.block) Turn();
              return true;
            }
            inner = {};
            --some;
            Turn();
          } else if (!ended) {
            Fill();
          } else {
            Turn();
          }
        }
        return false;
      }
      // Opens the dataset of the next element, and, in the parallel forms, of those that follow it in the cycle.
      void Fill() {
        for (size_t place = at; place < open.size() && !open[place].is_open(); ++place) {
          Inner inner;
          if (!this->from->Next(&inner.element)) {
            ended = true;
            return;
          }
          inner.Open(this->pass, this->dataset.function, this->dataset.types(), Ahead());
          open[place] = std::move(inner);
          ++some;
          if (kForm == Form::kPlain || !first) return;
        }
        first = false;
      }
      int64_t Ahead() const { return kForm == Form::kPlain ? 0 : std::max<int64_t>(1, this->dataset.ahead); }
      void SaveOrLoad(Archive& archive) override {
        auto cycle = static_cast<int64_t>(open.size());
        archive.Number(cycle, 1, kMostCycle);
        open.resize(static_cast<size_t>(cycle));  // another machine's default may be another
        int64_t now = 0;  // what is written may be more than can be, and then the pass goes on as it was
        for (Inner& inner : open) {
          inner.State(archive, this->dataset.function, this->dataset.types(), Ahead());
          if (inner.is_open()) ++now;
        }
        some = now;
        archive.Number(at, 0, cycle - 1);
        archive.Number(taken, 0, this->dataset.block - 1);
        archive.Flag(ended);
        archive.Flag(first);
      }
      void Turn() {
        taken = 0;
        at = (at + 1) % open.size();
      }
      const Charge charge;
      std::vector<Inner> open;
      size_t at = 0;
      int64_t taken = 0;
      int64_t some = 0;
      bool ended = false;
      bool first = true;  // the cycle has not been filled once
    };
    return std::make_unique<InTurn>(*this, pass);
  }

  void CheckCalls(int64_t calls) const {
    if (calls <= 0 && calls != kAutotune)
      Fail(TENON_INVALID_ARGUMENT, who(), ": `num_parallel_calls` must be greater than zero or -1.");
    if (calls > cycle)
      Fail(TENON_INVALID_ARGUMENT, who(),
           ": `num_parallel_calls` must be -1, or no more than `cycle_length`, which is ", cycle, "; it is ", calls);
  }
  static constexpr int64_t kMostCycle = 65536;
  const Captured function;
  int64_t cycle = 0, block = 0, ahead = 1;
};

}  // namespace

TENON_KERNEL(kFlatMapDatasetKernel) = Registration<MakeDataset<FlatMapDataset>>("FlatMapDataset", kMakesDataset);
TENON_KERNEL(kInterleaveDatasetKernel) = Registration<MakeDataset<InterleaveDataset<Form::kPlain>>>("InterleaveDataset",
                                                                                                    kMakesDataset);
TENON_KERNEL(kParallelInterleaveDatasetKernel) =
    Registration<MakeDataset<InterleaveDataset<Form::kLegacy>>>("ParallelInterleaveDataset", kMakesDataset);
TENON_KERNEL(kExperimentalParallelInterleaveDatasetKernel) =
    Registration<MakeDataset<InterleaveDataset<Form::kLegacy>>>("ExperimentalParallelInterleaveDataset", kMakesDataset);
TENON_KERNEL(kLegacyParallelInterleaveDatasetV2Kernel) =
    Registration<MakeDataset<InterleaveDataset<Form::kLegacyV2>>>("LegacyParallelInterleaveDatasetV2", kMakesDataset);
TENON_KERNEL(kParallelInterleaveDatasetV2Kernel) =
    Registration<MakeDataset<InterleaveDataset<Form::kV2>>>("ParallelInterleaveDatasetV2", kMakesDataset);
TENON_KERNEL(kParallelInterleaveDatasetV3Kernel) =
    Registration<MakeDataset<InterleaveDataset<Form::kV2>>>("ParallelInterleaveDatasetV3", kMakesDataset);
TENON_KERNEL(kParallelInterleaveDatasetV4Kernel) =
    Registration<MakeDataset<InterleaveDataset<Form::kV4>>>("ParallelInterleaveDatasetV4", kMakesDataset);

#define TENON_DATASET_OF_DATASETS "f: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES

TENON_OP(kFlatMapDataset) = DefineDataset({
    .name = "FlatMapDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments",
    .attrs = TENON_DATASET_OF_DATASETS TENON_DATASET_METADATA,
    .doc = "The elements of the dataset that f gives for each element, one dataset after the other.",
});

TENON_OP(kInterleaveDataset) = DefineDataset({
    .name = "InterleaveDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64",
    .attrs = TENON_DATASET_OF_DATASETS TENON_DATASET_METADATA,
    .constraints = "rank(cycle_length) == 0; rank(block_length) == 0",
    .doc = "The elements of the datasets that f gives for the elements: of cycle_length of them in turn, block_length "
           "from each.",
});

static constexpr std::string_view kParallelDoc =
    "As InterleaveDataset, and the datasets of a cycle work beside one another.";
static constexpr std::string_view kParallelRanks =
    "rank(cycle_length) == 0; rank(block_length) == 0; rank(num_parallel_calls) == 0";

TENON_OP(kParallelInterleaveDataset) = DefineDataset({
    .name = "ParallelInterleaveDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, sloppy: "
              "bool, buffer_output_elements: int64, "
              "prefetch_input_elements: int64",
    .attrs = TENON_DATASET_OF_DATASETS TENON_DATASET_METADATA,
    .constraints = "rank(cycle_length) == 0; rank(block_length) == 0; rank(sloppy) == 0; rank(buffer_output_elements) "
                   "== 0; rank(prefetch_input_elements) == 0",
    .doc = kParallelDoc,
});

TENON_OP(kExperimentalParallelInterleaveDataset) = DefineDataset({
    .name = "ExperimentalParallelInterleaveDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, sloppy: "
              "bool, buffer_output_elements: int64, "
              "prefetch_input_elements: int64",
    .attrs = TENON_DATASET_OF_DATASETS,
    .constraints = "rank(cycle_length) == 0; rank(block_length) == 0; rank(sloppy) == 0; rank(buffer_output_elements) "
                   "== 0; rank(prefetch_input_elements) == 0",
    .doc = kParallelDoc,
});

TENON_OP(kLegacyParallelInterleaveDatasetV2) = DefineDataset({
    .name = "LegacyParallelInterleaveDatasetV2",
    .inputs = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, "
              "buffer_output_elements: int64, prefetch_input_elements: int64",
    .attrs = "f: func; deterministic: string = 'default'; " TENON_DATASET_ARGUMENTS
             "; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(cycle_length) == 0; rank(block_length) == 0; rank(buffer_output_elements) == 0; "
                   "rank(prefetch_input_elements) == 0",
    .doc = kParallelDoc,
});

TENON_OP(kParallelInterleaveDatasetV2) = DefineDataset({
    .name = "ParallelInterleaveDatasetV2",
    .inputs = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, "
              "num_parallel_calls: int64",
    .attrs = TENON_DATASET_OF_DATASETS "; sloppy: bool = false" TENON_DATASET_METADATA,
    .constraints = kParallelRanks,
    .doc = kParallelDoc,
});

TENON_OP(kParallelInterleaveDatasetV3) = DefineDataset({
    .name = "ParallelInterleaveDatasetV3",
    .inputs = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, "
              "num_parallel_calls: int64",
    .attrs = "f: func; deterministic: string = 'default'; " TENON_DATASET_ARGUMENTS
             "; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = kParallelRanks,
    .doc = kParallelDoc,
});

TENON_OP(kParallelInterleaveDatasetV4) = DefineDataset({
    .name = "ParallelInterleaveDatasetV4",
    .inputs = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, "
              "buffer_output_elements: int64, "
              "prefetch_input_elements: int64, num_parallel_calls: int64",
    .attrs = "f: func; deterministic: string = 'default'; " TENON_DATASET_ARGUMENTS
             "; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(cycle_length) == 0; rank(block_length) == 0; rank(buffer_output_elements) == 0; "
                   "rank(prefetch_input_elements) == 0; rank(num_parallel_calls) == 0",
    .doc = kParallelDoc,
});

}  // namespace tenon::ops
