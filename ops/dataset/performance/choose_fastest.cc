// SPDX-License-Identifier: Apache-2.0
// ChooseFastestDataset and ChooseFastestBranchDataset: several ways to the same elements, each of which is tried for
// some; the fastest one gives the rest.
#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>

#include "base/captured_function.h"
#include "base/op.h"
#include "base/over_one.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using Clock = std::chrono::steady_clock;

size_t Fastest(const std::vector<Clock::duration>& times) {
  return static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
}

// Asks for an element, and adds to `time` what that takes. A failure comes back, so that those that go on together stay
// together.
Outcome Timed(Iterator& iterator, Element* out, bool* some, Clock::duration* time) {
  Outcome failure;
  const auto begin = Clock::now();
  try {
    *some = iterator.Next(out);
  } catch (...) {
    failure = TakeStatus(CurrentFailure());
  }
  *time += Clock::now() - begin;
  return failure;
}

// ---- Datasets of the same elements ----

struct ChooseFastestDataset final : Dataset {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c), experiments(c.Int("num_experiments")) {}
    int64_t experiments;
  };
  ChooseFastestDataset(const Attrs& attrs, const RunContext& c)
      : ChooseFastestDataset(attrs, DatasetsOf(c, 0, c.input_count())) {}
  ChooseFastestDataset(const Attrs& attrs, std::vector<DatasetPtr> all)
      : Dataset(attrs, all, true), inputs(std::move(all)), experiments(attrs.experiments) {
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i]->types() != inputs[0]->types())
        Fail(TENON_INVALID_ARGUMENT, who(),
             ": All inputs to ChooseFastestDataset must have the same output types. Input ", i, " has others.");
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t its = inputs[i]->Cardinality();
      if (cardinality == kUnknown) cardinality = its;
      if (its != kUnknown && its != cardinality)
        Fail(TENON_INVALID_ARGUMENT, who(),
             ": All inputs to ChooseFastestDataset must have compatible cardinalities. Input ", i,
             " has cardinality: ", its, ", while all prior inputs have cardinality: ", cardinality, ".");
    }
  }
  int64_t Cardinality() const override { return cardinality; }
  IteratorPtr NewIterator(const Pass& pass) const override {
    // All go on together for the first elements, so that each can give the next one.
    struct Tried final : Iterator {
      Tried(const ChooseFastestDataset& of, const Pass& in) : dataset(of), times(of.inputs.size()) {
        for (const DatasetPtr& input : of.inputs) from.push_back(input->NewIterator(in));
        Choose();
      }
      bool Next(Element* out) override {
        if (chosen >= 0) return from[static_cast<size_t>(chosen)]->Next(out);
        bool some = false;
        const Outcome failure = Timed(*from[0], out, &some, &times[0]);
        for (size_t i = 1; i < from.size(); ++i) {
          Element same;
          bool also = false;
          (void)Timed(*from[i], &same, &also, &times[i]);
        }
        ++tried;
        Choose();
        if (!failure.ok()) Fail(failure.code, failure.message);
        return some;
      }
      void Choose() {
        if (chosen >= 0 || tried < dataset.experiments) return;
        Keep(static_cast<int64_t>(Fastest(times)));
      }
      void Keep(int64_t one) {
        chosen = one;
        for (size_t i = 0; i < from.size(); ++i)
          if (static_cast<int64_t>(i) != one) from[i].reset();
      }
      void State(Archive& archive) override {
        archive.Number(tried);
        archive.Number(chosen, -1, static_cast<int64_t>(from.size()) - 1);
        for (size_t i = 0; i < from.size(); ++i) {
          if (chosen < 0 || static_cast<int64_t>(i) == chosen) archive.There(*dataset.inputs[i], from[i]);
          else from[i].reset();
        }
      }
      const ChooseFastestDataset& dataset;
      std::vector<IteratorPtr> from;
      std::vector<Clock::duration> times;
      int64_t tried = 0, chosen = -1;
    };
    return std::make_unique<Tried>(*this, pass);
  }
  const std::vector<DatasetPtr> inputs;
  const int64_t experiments;
  int64_t cardinality = kUnknown;
};

// ---- Functions of one dataset ----

// A pass of which branches take the elements, one branch after the other.
struct Source {
  std::mutex mutex;  // a branch may take from it in several places
  IteratorPtr from;
};

// What a branch gets: the next `most` elements of the source, or all that are left. It ends with the pass that has the
// source.
struct RestOf final : Dataset {
  RestOf(const Node& node, bool waits, const std::shared_ptr<Source>& of, int64_t count)
      : Dataset(node, {}, waits), source(of), most(count) {}
  IteratorPtr NewIterator(const Pass&) const override {
    struct Some final : Iterator {
      explicit Some(const RestOf& of) : source(of.source), most(of.most) {}
      bool Next(Element* out) override {
        if (most >= 0 && taken >= most) return false;
        const std::shared_ptr<Source> of = source.lock();
        if (of == nullptr) Fail(TENON_FAILED_PRECONDITION, "the pass whose branch this dataset was made for has ended");
        const std::lock_guard lock(of->mutex);
        if (!of->from->Next(out)) return false;
        ++taken;
        return true;
      }
      void State(Archive& archive) override { archive.Number(taken, 0, most < 0 ? INT64_MAX : most); }
      const std::weak_ptr<Source> source;
      const int64_t most;
      int64_t taken = 0;
    };
    return std::make_unique<Some>(*this);
  }
  const std::weak_ptr<Source> source;
  const int64_t most;
};

struct ChooseFastestBranchDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c)
        : OverOne::Attrs(c), lengths(c.Ints("other_arguments_lengths")), each(c.Int("num_elements_per_branch")) {
      int64_t all = 0;
      for (const int64_t length : lengths) {
        if (length < 0) c.Invalid(who, ": other_arguments_lengths hold ", length);
        all += length;
      }
      if (c.ok() && all != static_cast<int64_t>(c.Types("Targuments").size()))
        c.Invalid(who, ": other_arguments_lengths come to ", all, "; there are ", c.Types("Targuments").size());
      for (size_t i = 0; c.ok() && i < lengths.size(); ++i) branches.emplace_back(c, "branches", i);
    }
    std::vector<Function> branches;
    std::vector<int64_t> lengths;
    int64_t each;
  };
  ChooseFastestBranchDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true), numerator(IntOf(c, 1)), denominator(IntOf(c, 2)), each(attrs.each) {
    if (numerator <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": `ratio_numerator` must be greater than zero.");
    if (denominator <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": `ratio_denominator` must be greater than zero.");
    if (each % denominator != 0)
      Fail(TENON_INVALID_ARGUMENT, who(), ": `num_elements_per_branch` must be divisible by `ratio_denominator`.");
    inputs_each = Multiply(each / denominator, numerator);
    int32_t first = 3;
    for (size_t i = 0; i < attrs.branches.size(); ++i) {
      branches.emplace_back(attrs.branches[i], who(), c, first, static_cast<int32_t>(attrs.lengths[i]));
      first += static_cast<int32_t>(attrs.lengths[i]);
    }
  }
  int64_t Cardinality() const override {
    const int64_t all = input->Cardinality();
    const auto scaled = static_cast<double>(all) * static_cast<double>(numerator) / static_cast<double>(denominator);
    return all < 0 ? all : scaled < 9e18 ? static_cast<int64_t>(scaled) : kUnknown;
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Tried final : Iterator {
      Tried(const ChooseFastestBranchDataset& of, const Pass& in) : dataset(of), pass(in), times(of.branches.size()) {
        source->from = of.input->NewIterator(in);
      }
      bool Next(Element* out) override {
        pass.CheckCancelled();
        if (!branch.is_open()) Open();
        if (Chosen()) return branch->Next(out);
        bool some = false;
        const Outcome failure = Timed(*branch, out, &some, &times[turn]);
        if (++given >= dataset.each) {
          given = 0;
          branch.Close();
          if (++turn == times.size()) fastest = Fastest(times);
        }
        if (!failure.ok()) Fail(failure.code, failure.message);
        return some;
      }
      bool Chosen() const { return turn == times.size(); }
      void Open() {
        const Dataset& of = *dataset.input;
        Element argument;
        argument.push_back(NewDataset(
            pass.work(), std::make_shared<const RestOf>(RestOf::Node{dataset.who(), of.types(), of.shapes()},
                                                        of.waits(), source, Chosen() ? -1 : dataset.inputs_each)));
        branch.Open(pass, dataset.branches[Chosen() ? fastest : turn].CallForDataset(pass, argument, dataset.types()));
      }
      void State(Archive& archive) override {
        archive.There(*dataset.input, source->from);
        const auto count = static_cast<int64_t>(times.size());
        archive.Number(turn, 0, count);
        archive.Number(fastest, 0, count - 1);
        archive.Number(given, 0, dataset.each - 1);
        bool open = branch.is_open();
        archive.Flag(open);
        if (archive.reading()) branch.Close();
        if (!open) return;
        if (archive.reading()) Open();
        branch.State(archive);
      }
      const ChooseFastestBranchDataset& dataset;
      const Pass& pass;
      const std::shared_ptr<Source> source = std::make_shared<Source>();
      Opened branch;  // goes before the source
      std::vector<Clock::duration> times;
      size_t turn = 0, fastest = 0;
      int64_t given = 0;
    };
    return std::make_unique<Tried>(*this, pass);
  }
  const int64_t numerator, denominator, each;
  int64_t inputs_each = 0;
  std::deque<Captured> branches;
};

}  // namespace

TENON_KERNEL(kChooseFastestDatasetKernel) = Registration<MakeDataset<ChooseFastestDataset>>("ChooseFastestDataset",
                                                                                            kMakesDataset);
TENON_KERNEL(kExperimentalChooseFastestDatasetKernel) =
    Registration<MakeDataset<ChooseFastestDataset>>("ExperimentalChooseFastestDataset", kMakesDataset);
TENON_KERNEL(kChooseFastestBranchDatasetKernel) =
    Registration<MakeDataset<ChooseFastestBranchDataset>>("ChooseFastestBranchDataset", kMakesDataset);

static constexpr std::string_view kFastestDoc =
    "The elements of the datasets, which all have the same ones: of all for the first num_experiments, then of the "
    "fastest one.";

TENON_OP(kChooseFastestDataset) = DefineDataset({
    .name = "ChooseFastestDataset",
    .inputs = "input_datasets: N * variant",
    .attrs = "N: int >= 2; num_experiments: int; " TENON_DATASET_TYPES,
    .doc = kFastestDoc,
});

TENON_OP(kExperimentalChooseFastestDataset) = DefineDataset({
    .name = "ExperimentalChooseFastestDataset",
    .inputs = "input_datasets: N * variant",
    .attrs = "N: int >= 2; num_experiments: int; " TENON_DATASET_TYPES,
    .doc = kFastestDoc,
});

TENON_OP(kChooseFastestBranchDataset) = DefineDataset({
    .name = "ChooseFastestBranchDataset",
    .inputs = "input_dataset: variant, ratio_numerator: int64, ratio_denominator: int64, other_arguments: Targuments",
    .attrs = TENON_DATASET_ARGUMENTS
    "; num_elements_per_branch: int >= 1; branches: list(func) >= 1; other_arguments_lengths: list(int) >= "
    "1; " TENON_DATASET_TYPES,
    .constraints = "rank(ratio_numerator) == 0; rank(ratio_denominator) == 0",
    .doc = "What a branch makes of the dataset: num_elements_per_branch elements of each in turn, each over so many of "
           "the input as the ratio (input to output) says; then the fastest one's.",
});

}  // namespace tenon::ops
