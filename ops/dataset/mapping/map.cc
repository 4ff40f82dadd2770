// SPDX-License-Identifier: Apache-2.0
// Datasets of a function of each element: MapDataset, FilterDataset, FilterByLastComponentDataset, TakeWhileDataset,
// ScanDataset.
#include "base/archive.h"
#include "base/captured_function.h"
#include "base/op.h"
#include "batching/row_batch.h"

namespace tenon::ops {
using namespace sdk;

namespace {

template <FixedString kAttr>
struct FunctionNode : Dataset {
  struct Attrs : Node {
    // states: values that the function gives before those of an element.
    explicit Attrs(CreateContext& c, size_t states = 0) : Node(c), function(c, {kAttr.data, sizeof(kAttr.data) - 1}) {
      if (c.ok() && kAttr.data[0] == 'f' && function.result_dtypes().size() != states + types.size())
        c.Invalid(who, ": its function gives ", function.result_dtypes().size(), " values; ", states + types.size(),
                  " are asked for");
    }
    Function function;
  };
  FunctionNode(const Attrs& attrs, const RunContext& c, int32_t first = 1)
      : FunctionNode(attrs, c, DatasetOf(c, 0), first) {}
  FunctionNode(const Attrs& attrs, const RunContext& c, DatasetPtr from, int32_t first)
      : Dataset(attrs, {from}, true), input(std::move(from)), function(attrs.function, who(), c, first) {}

  const DatasetPtr input;
  const Captured function;
};

struct MapDataset final : FunctionNode<"f"> {
  struct Attrs : FunctionNode::Attrs {
    explicit Attrs(CreateContext& c) : FunctionNode::Attrs(c), keeps(c.Bool("preserve_cardinality")) {}
    bool keeps;
  };
  MapDataset(const Attrs& attrs, const RunContext& c) : FunctionNode(attrs, c), keeps(attrs.keeps) {}
  int64_t Cardinality() const override { return keeps ? input->Cardinality() : kUnknown; }
  const Dataset* WithoutNumbers() const override { return input->WithoutNumbers(); }
  Element At(const Pass& pass, int64_t number) const override { return function.Call(pass, input->At(pass, number)); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Each final : Iterator {
      Each(const MapDataset& of, const Pass& in) : dataset(of), pass(in), from(of.input->NewIterator(in)) {}
      bool Next(Element* out) override {
        pass.CheckCancelled();
        Element element;
        if (!from->Next(&element)) return false;
        *out = dataset.function.Call(pass, element);
        return true;
      }
      // Makes large results where they go, in the batch.
      bool NextInto(RowBatch& rows) override {
        const auto places = rows.Places();
        Element element;
        if (places.empty() || !from->Next(&element)) return false;
        rows.Add(dataset.function.CallInto(pass, places, element));
        return true;
      }
      void State(Archive& archive) override { archive.There(*dataset.input, from); }
      const MapDataset& dataset;
      const Pass& pass;
      IteratorPtr from;
    };
    return std::make_unique<Each>(*this, pass);
  }
  const bool keeps;
};

// Elements for which the predicate holds; while: until it does not.
template <bool kWhile>
struct PredicateDataset final : FunctionNode<"predicate"> {
  using FunctionNode::FunctionNode;
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Some final : Iterator {
      Some(const PredicateDataset& of, const Pass& in) : dataset(of), pass(in), from(of.input->NewIterator(in)) {}
      bool Next(Element* out) override {
        while (!ended) {
          pass.CheckCancelled();
          if (!from->Next(out)) break;
          if (dataset.function.Ask(pass, *out)) return true;
          ended = kWhile;
        }
        ended = true;
        return false;
      }
      void State(Archive& archive) override {
        archive.There(*dataset.input, from);
        archive.Flag(ended);
      }
      const PredicateDataset& dataset;
      const Pass& pass;
      IteratorPtr from;
      bool ended = false;
    };
    return std::make_unique<Some>(*this, pass);
  }
};

struct LastComponentDataset final : Dataset {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c) {}
  };
  LastComponentDataset(const Attrs& attrs, const RunContext& c) : LastComponentDataset(attrs, DatasetOf(c, 0)) {}
  LastComponentDataset(const Attrs& attrs, DatasetPtr from) : Dataset(attrs, {from}, true), input(std::move(from)) {}
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Some final : Iterator {
      Some(const LastComponentDataset& of, const Pass& in) : dataset(of), pass(in), from(of.input->NewIterator(in)) {}
      bool Next(Element* out) override {
        for (;;) {
          pass.CheckCancelled();
          if (!from->Next(out)) return false;
          const tenon_tensor_view last = out->empty() ? tenon_tensor_view{} : out->back().view();
          if (last.dtype != TENON_DT_BOOL || last.dl.ndim != 0)
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": the last component must be one bool");
          const bool wanted = *Data<const bool>(last);
          out->pop_back();
          if (wanted) return true;
        }
      }
      void State(Archive& archive) override { archive.There(*dataset.input, from); }
      const LastComponentDataset& dataset;
      const Pass& pass;
      IteratorPtr from;
    };
    return std::make_unique<Some>(*this, pass);
  }
  const DatasetPtr input;
};

struct ScanDataset final : FunctionNode<"f"> {
  struct Attrs : FunctionNode::Attrs {
    explicit Attrs(CreateContext& c)
        : FunctionNode::Attrs(c, c.Types("Tstate").size()), states(static_cast<int32_t>(c.Types("Tstate").size())) {
      keeps = c.Bool("preserve_cardinality");
    }
    int32_t states;
    bool keeps = false;
  };
  ScanDataset(const Attrs& attrs, const RunContext& c) : FunctionNode(attrs, c, 1 + attrs.states), keeps(attrs.keeps) {
    for (int32_t i = 0; i < attrs.states; ++i) initial.push_back(KeptTensor::OfInput(c, 1 + i));
  }
  int64_t Cardinality() const override { return keeps ? input->Cardinality() : kUnknown; }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Each final : Iterator {
      Each(const ScanDataset& of, const Pass& in)
          : dataset(of), pass(in), from(of.input->NewIterator(in)), state(Share(of.initial)) {}
      bool Next(Element* out) override {
        pass.CheckCancelled();
        Element element;
        if (!from->Next(&element)) return false;
        Element results = dataset.function.Call(pass, state, element);
        const auto middle = results.begin() + static_cast<std::ptrdiff_t>(state.size());
        out->assign(std::make_move_iterator(middle), std::make_move_iterator(results.end()));
        results.erase(middle, results.end());
        state = std::move(results);
        return true;
      }
      void State(Archive& archive) override {
        archive.There(*dataset.input, from);
        archive.Values(state);
        if (state.size() != dataset.initial.size())
          archive.Refuse("its function's state has another number of tensors");
      }
      const ScanDataset& dataset;
      const Pass& pass;
      IteratorPtr from;
      Element state;
    };
    return std::make_unique<Each>(*this, pass);
  }
  const bool keeps;
  Element initial;
};

}  // namespace

TENON_KERNEL(kMapDatasetKernel) = Registration<MakeDataset<MapDataset>>("MapDataset", kMakesDataset);
TENON_KERNEL(kExperimentalMapDatasetKernel) = Registration<MakeDataset<MapDataset>>("ExperimentalMapDataset",
                                                                                    kMakesDataset);
TENON_KERNEL(kFilterDatasetKernel) = Registration<MakeDataset<PredicateDataset<false>>>("FilterDataset", kMakesDataset);
TENON_KERNEL(kParallelFilterDatasetKernel) = Registration<MakeDataset<PredicateDataset<false>>>("ParallelFilterDataset",
                                                                                                kMakesDataset);
TENON_KERNEL(kTakeWhileDatasetKernel) = Registration<MakeDataset<PredicateDataset<true>>>("TakeWhileDataset",
                                                                                          kMakesDataset);
TENON_KERNEL(kExperimentalTakeWhileDatasetKernel) =
    Registration<MakeDataset<PredicateDataset<true>>>("ExperimentalTakeWhileDataset", kMakesDataset);
TENON_KERNEL(kFilterByLastComponentDatasetKernel) =
    Registration<MakeDataset<LastComponentDataset>>("FilterByLastComponentDataset", kMakesDataset);
TENON_KERNEL(kScanDatasetKernel) = Registration<MakeDataset<ScanDataset>>("ScanDataset", kMakesDataset);
TENON_KERNEL(kExperimentalScanDatasetKernel) = Registration<MakeDataset<ScanDataset>>("ExperimentalScanDataset",
                                                                                      kMakesDataset);

static constexpr std::string_view kWithArguments = "input_dataset: variant, other_arguments: Targuments";

TENON_OP(kMapDataset) = DefineDataset({
    .name = "MapDataset",
    .inputs = kWithArguments,
    .attrs = "f: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
             "; use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false; force_synchronous: bool = "
             "false" TENON_DATASET_METADATA,
    .doc = "f of each element.",
});

TENON_OP(kExperimentalMapDataset) = DefineDataset({
    .name = "ExperimentalMapDataset",
    .inputs = kWithArguments,
    .attrs =
        "f: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
        "; use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false; force_synchronous: bool = false",
    .doc = "f of each element.",
});

TENON_OP(kFilterDataset) = DefineDataset({
    .name = "FilterDataset",
    .inputs = kWithArguments,
    .attrs = "predicate: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "The elements for which the predicate holds.",
});

TENON_OP(kParallelFilterDataset) = DefineDataset({
    .name = "ParallelFilterDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int64",
    .attrs = "predicate: func; deterministic: string = 'default'; " TENON_DATASET_ARGUMENTS
             "; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(num_parallel_calls) == 0",
    .doc = "The elements for which the predicate holds.",
});

TENON_OP(kTakeWhileDataset) = DefineDataset({
    .name = "TakeWhileDataset",
    .inputs = kWithArguments,
    .attrs = "predicate: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "The elements before the first for which the predicate does not hold.",
});

TENON_OP(kExperimentalTakeWhileDataset) = DefineDataset({
    .name = "ExperimentalTakeWhileDataset",
    .inputs = kWithArguments,
    .attrs = "predicate: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES,
    .doc = "The elements before the first for which the predicate does not hold.",
});

TENON_OP(kFilterByLastComponentDataset) = DefineDataset({
    .name = "FilterByLastComponentDataset",
    .inputs = "input_dataset: variant",
    .attrs = TENON_DATASET_TYPES,
    .doc = "The elements whose last component, a bool, holds, without it.",
    .outputs = "output: variant",
});

TENON_OP(kScanDataset) = DefineDataset({
    .name = "ScanDataset",
    .inputs = "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments",
    .attrs = "f: func; Tstate: list(type) >= 1; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
             "; preserve_cardinality: bool = false; use_default_device: bool = true" TENON_DATASET_METADATA,
    .doc = "What f gives of a state and an element, beside the next state.",
});

TENON_OP(kExperimentalScanDataset) = DefineDataset({
    .name = "ExperimentalScanDataset",
    .inputs = "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments",
    .attrs = "f: func; Tstate: list(type) >= 1; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
             "; preserve_cardinality: bool = false",
    .doc = "What f gives of a state and an element, beside the next state.",
});

}  // namespace tenon::ops
