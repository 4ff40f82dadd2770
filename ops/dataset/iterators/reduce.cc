// SPDX-License-Identifier: Apache-2.0
// What a whole dataset comes to, within a step: ReduceDataset, DatasetToSingleElement, DatasetCardinality,
// InitializeTableFromDataset.
#include "base/captured_function.h"
#include "base/element_spec.h"
#include "base/op.h"
#include "tenon/extras/kernel/shared_table.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Reduce {
  explicit Reduce(CreateContext& c)
      : function(c, "f"),
        states(static_cast<int32_t>(c.Types("Tstate").size())),
        spec(c),
        who(Concat(c.op(), " '", c.name(), "'")) {
    if (c.ok() && static_cast<int32_t>(function.result_dtypes().size()) != states)
      c.Invalid("f gives ", function.result_dtypes().size(), " values, the state has ", states);
  }
  void Run(RunContext c) const {
    const DatasetPtr dataset = DatasetOf(c, 0);
    const Captured reduce(function, who, c, 1 + states);
    const Pass pass(Work(c), *dataset);
    Element state;
    for (int32_t i = 0; i < states; ++i) state.push_back(KeptTensor::OfInput(c, 1 + i));
    const IteratorPtr iterator = dataset->NewIterator(pass);
    for (Element element; iterator->Next(&element);) {
      c.CheckCancelled();
      state = reduce.Call(pass, state, element);
    }
    spec.Give(c, state, "the dataset's reduction");
  }
  Function function;
  int32_t states;
  ElementSpec spec;
  std::string who;
};

struct SingleElement {
  explicit SingleElement(CreateContext& c) : spec(c) {}
  void Run(RunContext c) const {
    const DatasetPtr dataset = DatasetOf(c, 0);
    const Pass pass(Work(c), *dataset);
    const IteratorPtr iterator = dataset->NewIterator(pass);
    Element element, more;
    if (!iterator->Next(&element)) Fail(TENON_INVALID_ARGUMENT, "Dataset was empty.");
    if (iterator->Next(&more)) Fail(TENON_INVALID_ARGUMENT, "Dataset had more than one element.");
    spec.Give(c, element, "the dataset");
  }
  ElementSpec spec;
};

struct CardinalityOf {
  void Run(RunContext c) const { *c.output<int64_t>(0) = DatasetOf(c, 0)->Cardinality(); }
};

// Elements of a key and a value, one each, as the entries of a table.
struct FillTableOf {
  void Run(RunContext c) const {
    const DatasetPtr dataset = DatasetOf(c, 1);
    if (dataset->types().size() != 2)
      Fail(TENON_INVALID_ARGUMENT, "Dataset should have two output types only: a key and a value; ", dataset->who(),
           " has ", dataset->types().size());
    const Work work(c);
    const Pass pass(work, *dataset);
    const IteratorPtr iterator = dataset->NewIterator(pass);
    std::vector<Element> entries;
    for (Element element; iterator->Next(&element);) {
      c.CheckCancelled();
      for (size_t i = 0; i < 2; ++i) {
        const tenon_tensor_view view = i < element.size() ? element[i].view() : tenon_tensor_view{};
        if (view.dtype != dataset->types()[i] || view.dl.ndim != 0)
          Fail(TENON_INVALID_ARGUMENT, "an entry of a table is one key and one value; ", dataset->who(), " gives ",
               TypeName(view.dtype), " ", ShapeOf(view), " as component ", i);
      }
      entries.push_back(std::move(element));
    }
    if (entries.empty())
      Fail(TENON_INVALID_ARGUMENT, "a table that is filled once is given no entries: ", dataset->who(), " is empty");
    const KeptTensor keys = Column(work, entries, 0), values = Column(work, entries, 1);
    FillTable(TableIn(c, 0), c, keys.view(), values.view());
  }
  static KeptTensor Column(const Work& work, const std::vector<Element>& entries, size_t component) {
    std::vector<tenon_tensor_view> rows;
    for (const Element& entry : entries) rows.push_back(entry[component].view());
    return Stack(work, rows, {});
  }
};

constexpr Traits kWhole = {
    .flags = TENON_KERNEL_BLOCKING, .dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = UINT64_MAX};

}  // namespace

TENON_KERNEL(kReduceDatasetKernel) = Registration<Reduce>("ReduceDataset", kWhole);
TENON_KERNEL(kDatasetToSingleElementKernel) = Registration<SingleElement>("DatasetToSingleElement", kWhole);
TENON_KERNEL(kDatasetCardinalityKernel) = Registration<CardinalityOf>("DatasetCardinality", {});
TENON_KERNEL(kExperimentalDatasetCardinalityKernel) = Registration<CardinalityOf>("ExperimentalDatasetCardinality", {});

TENON_KERNEL(kInitializeTableFromDatasetKernel) = Registration<FillTableOf>("InitializeTableFromDataset",
                                                                            {.flags = TENON_KERNEL_BLOCKING});

TENON_OP(kInitializeTableFromDataset) = DefineOp({
    .name = "InitializeTableFromDataset",
    .inputs = "table_handle: resource, dataset: variant",
    .doc = "Fills a table with the elements of a dataset, each a key and its value; a key that comes twice must have "
           "one value.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT | TENON_OP_WRITES_STATE,
});

TENON_OP(kReduceDataset) = DefineOp({
    .name = "ReduceDataset",
    .inputs = "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments",
    .outputs = "components: output_types",
    .attrs = "f: func; Tstate: list(type) >= 1; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
             "; use_inter_op_parallelism: bool = true" TENON_DATASET_METADATA,
    .doc = "The state after f of state and element for each element.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ElementShapes>,
});

TENON_OP(kDatasetToSingleElement) = DefineOp({
    .name = "DatasetToSingleElement",
    .inputs = "dataset: variant",
    .outputs = "components: output_types",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "The element of a dataset that has one alone.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ElementShapes>,
});

TENON_OP(kDatasetCardinality) = DefineOp({
    .name = "DatasetCardinality",
    .inputs = "input_dataset: variant",
    .outputs = "cardinality: int64",
    .attrs = "cardinality_options: string = ''",
    .doc = "The number of elements; -1: without end, -2: unknown.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_NO_FOLD,
    .shape = ShapeFunction<OneDataset>,
});

TENON_OP(kExperimentalDatasetCardinality) = DefineOp({
    .name = "ExperimentalDatasetCardinality",
    .inputs = "input_dataset: variant",
    .outputs = "cardinality: int64",
    .doc = "The number of elements; -1: without end, -2: unknown.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_NO_FOLD,
    .shape = ShapeFunction<OneDataset>,
});

}  // namespace tenon::ops
