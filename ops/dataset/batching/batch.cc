// SPDX-License-Identifier: Apache-2.0
// Datasets of batches: BatchDataset, PaddedBatchDataset, MapAndBatchDataset, ParallelBatchDataset; and UnbatchDataset,
// which takes them apart.
#include <iterator>

#include "base/op.h"
#include "base/over_one.h"
#include "batching/batch.h"
#include "batching/row_batch.h"
#include "mapping/parallel_map.h"

namespace tenon::ops {
using namespace sdk;

namespace {

int64_t Batches(int64_t elements, int64_t size, bool drop) {
  return elements < 0 ? elements : elements / size + (drop || elements % size == 0 ? 0 : 1);
}

void CheckSize(const std::string& who, int64_t size) {
  if (size <= 0) Fail(TENON_INVALID_ARGUMENT, who, ": Batch size must be greater than zero.");
}

// Up to `size` elements; fewer at the end, or none where `drop`.
std::vector<Element> Gather(const Pass& pass, Iterator& from, int64_t size, bool drop, bool* ended) {
  std::vector<Element> elements;
  elements.reserve(static_cast<size_t>(std::min<int64_t>(size, 4096)));
  while (static_cast<int64_t>(elements.size()) < size && !*ended) {
    pass.CheckCancelled();
    Element element;
    if (from.Next(&element)) {
      elements.push_back(std::move(element));
    } else {
      *ended = true;
    }
  }
  if (drop && static_cast<int64_t>(elements.size()) < size) elements.clear();
  return elements;
}

// All of one dtype, whatever datasets say of themselves.
std::vector<tenon_tensor_view> Column(const std::string& who, const std::vector<Element>& elements, size_t component) {
  std::vector<tenon_tensor_view> column;
  column.reserve(elements.size());
  for (const Element& element : elements) {
    if (element.size() != elements[0].size())
      Fail(TENON_INVALID_ARGUMENT, who, ": its input gives elements of ", elements[0].size(), " and of ",
           element.size(), " components");
    column.push_back(element[component].view());
    if (column.back().dtype != column[0].dtype)
      Fail(TENON_INVALID_ARGUMENT, who, ": component ", component, " of its input is ", TypeName(column[0].dtype),
           " and ", TypeName(column.back().dtype));
  }
  return column;
}

// Batches of what `from` gives, which is over the input's elements.
struct Batcher final : Iterator {
  Batcher(const OverOne& of, const Pass& in, IteratorPtr over, int64_t most, bool drops)
      : dataset(of), pass(in), from(std::move(over)), rows(in.work(), of.who(), most), drop(drops) {}
  bool Next(Element* out) override {
    struct Rest {  // of a batch that was not taken: its elements are lost
      ~Rest() {
        if (rows.rows() != 0) rows.Drop();
      }
      RowBatch& rows;
    } rest{rows};
    out->clear();  // the batch before this one, if the caller has it: its memory, still in the processor's cache,
                   // serves again
    while (!rows.full() && !ended) {
      pass.CheckCancelled();
      if (from->NextInto(rows)) continue;
      if (from->Next(&element)) {
        rows.Add(element);
        element.clear();
      } else {
        ended = true;
      }
    }
    if (rows.rows() == 0 || (drop && !rows.full())) return false;
    *out = rows.Take();
    return true;
  }
  void State(Archive& archive) override {
    archive.There(*dataset.input, from);
    archive.Flag(ended);
  }
  const OverOne& dataset;
  const Pass& pass;
  IteratorPtr from;
  RowBatch rows;  // none between calls
  Element element;
  const bool drop;
  bool ended = false;
};

template <bool kDrop>
struct BatchDataset final : OverOne {
  // drop: the input that says whether the rest is dropped.
  BatchDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, IntOf(c, 1) > kFew), size(IntOf(c, 1)), drop(kDrop && BoolOf(c, c.input_count() - 1)) {
    CheckSize(who(), size);
  }
  int64_t Cardinality() const override { return Batches(input->Cardinality(), size, drop); }
  const Dataset* WithoutNumbers() const override { return drop ? input->WithoutNumbers() : this; }
  Element At(const Pass& pass, int64_t number) const override {
    std::vector<Element> elements;
    for (int64_t i = 0; i < size; ++i) elements.push_back(input->At(pass, number * size + i));
    return BatchOf(pass, who(), elements);
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    return std::make_unique<Batcher>(*this, pass, input->NewIterator(pass), size, drop);
  }
  const int64_t size;
  const bool drop;
};

struct MapAndBatchDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c), function(c, "f"), keeps(c.Bool("preserve_cardinality")) {}
    Function function;
    bool keeps;
  };
  MapAndBatchDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true),
        function(attrs.function, who(), c, 1, c.input_count() - 4),
        size(IntOf(c, c.input_count() - 3)),
        calls(CallsOf(c, c.input_count() - 2, who())),
        drop(BoolOf(c, c.input_count() - 1)),
        keeps(attrs.keeps) {
    CheckSize(who(), size);
  }
  int64_t Cardinality() const override { return keeps ? Batches(input->Cardinality(), size, drop) : kUnknown; }
  IteratorPtr NewIterator(const Pass& pass) const override {
    return std::make_unique<Batcher>(*this, pass, NewParallelMapper(pass, function, *input, calls), size, drop);
  }
  const Captured function;
  const int64_t size, calls;
  const bool drop, keeps;
};

// ---- Rows of unlike shapes ----

template <bool kDrop>
struct PaddedBatchDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c) : OverOne::Attrs(c, "Toutput_types") {
      if (c.ok() && c.Int("N") != static_cast<int64_t>(types.size()))
        c.Invalid(who, ": ", c.Int("N"), " padded_shapes for ", types.size(), " components");
    }
  };
  PaddedBatchDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, IntOf(c, 1) > kFew), size(IntOf(c, 1)), drop(kDrop && BoolOf(c, c.input_count() - 1)) {
    CheckSize(who(), size);
    const auto count = static_cast<int32_t>(types().size());
    if (input->types() != types()) Fail(TENON_INVALID_ARGUMENT, who(), ": the input has components of other types");
    for (int32_t i = 0; i < count; ++i) {
      const int64_t* dims = c.input<int64_t>(2 + i);
      wanted.emplace_back(dims, dims + Count(c.input_view(2 + i)));
      for (const int64_t dim : wanted.back())
        if (dim < -1)
          Fail(TENON_INVALID_ARGUMENT, who(), ": padded shape ", i, " has dimension ", dim,
               "; -1 is that of the largest element");
      padding.push_back(KeptTensor::OfInput(c, 2 + count + i));
      if (padding.back().view().dl.ndim != 0)
        Fail(TENON_INVALID_ARGUMENT, who(), ": padding value ", i, " must be a scalar");
    }
  }
  int64_t Cardinality() const override { return Batches(input->Cardinality(), size, drop); }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct InBatches final : OverIterator<PaddedBatchDataset> {
      using OverIterator<PaddedBatchDataset>::OverIterator;
      bool Next(Element* out) override {
        const std::vector<Element> elements =
            Gather(this->pass, *this->from, this->dataset.size, this->dataset.drop, &ended);
        if (elements.empty()) return false;
        out->clear();
        for (size_t i = 0; i < this->dataset.wanted.size(); ++i) {
          if (i >= elements[0].size())
            Fail(TENON_INVALID_ARGUMENT, this->dataset.who(), ": its input has ", elements[0].size(), " components");
          const std::vector<tenon_tensor_view> rows = Column(this->dataset.who(), elements, i);
          const tenon_tensor_view padding = this->dataset.padding[i].view();
          if (padding.dtype != rows[0].dtype)
            Fail(TENON_INVALID_ARGUMENT, this->dataset.who(), ": component ", i, " is ", TypeName(rows[0].dtype),
                 ", its padding ", TypeName(padding.dtype));
          out->push_back(Stack(this->pass.work(), rows, this->dataset.RowShape(i, rows), &padding));
        }
        return true;
      }
      void SaveOrLoad(Archive& archive) override { archive.Flag(ended); }
      bool ended = false;
    };
    return std::make_unique<InBatches>(*this, pass);
  }

  // What component i of these rows is padded to.
  std::vector<int64_t> RowShape(size_t i, const std::vector<tenon_tensor_view>& rows) const {
    std::vector<int64_t> shape = wanted[i];
    for (const tenon_tensor_view& row : rows) {
      if (row.dl.ndim != static_cast<int32_t>(shape.size()))
        Fail(TENON_INVALID_ARGUMENT, who(),
             ": All elements in a batch must have the same rank as the padded shape for component ", i,
             ": expected rank ", shape.size(), " but got element with rank ", row.dl.ndim);
      for (size_t k = 0; k < shape.size(); ++k) {
        if (wanted[i][k] < 0) {
          shape[k] = std::max(shape[k], row.dl.shape[k]);
        } else if (row.dl.shape[k] > shape[k]) {
          Fail(TENON_DATA_LOSS, who(), ": Attempted to pad to a smaller size than the input element: component ", i,
               " has shape ", ShapeOf(row), ", padded ", wanted[i]);
        }
      }
    }
    for (int64_t& dim : shape) dim = std::max<int64_t>(dim, 0);
    return shape;
  }
  const int64_t size;
  const bool drop;
  std::vector<std::vector<int64_t>> wanted;
  Element padding;
};

// ---- And apart ----

struct UnbatchDataset final : OverOne {
  UnbatchDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c) {}
  int64_t Cardinality() const override {
    const int64_t batches = input->Cardinality();
    int64_t rows = -1;
    for (const Shape& shape : input->shapes())
      if (shape.known_rank() && shape.rank() > 0 && shape[0] >= 0) rows = shape[0];
    int64_t all = 0;
    if (batches == kInfinite || batches == kUnknown) return batches;
    return rows < 0 || __builtin_mul_overflow(batches, rows, &all) ? kUnknown : all;
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Rows final : OverIterator<UnbatchDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        while (row >= rows) {
          pass.CheckCancelled();
          if (!from->Next(&batch)) return false;
          Begin();
        }
        out->clear();
        for (const KeptTensor& tensor : batch) out->push_back(RowOf(pass.work(), tensor.view(), row));
        ++row;
        return true;
      }
      void Begin() {
        row = rows = 0;
        for (size_t i = 0; i < batch.size(); ++i) {
          const tenon_tensor_view view = batch[i].view();
          if (view.dl.ndim == 0)
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": component ", i, " is a scalar, which has no rows");
          if (i > 0 && view.dl.shape[0] != batch[0].view().dl.shape[0])
            Fail(TENON_INVALID_ARGUMENT, dataset.who(),
                 ": Input element must have the same batch size in each component. Component 0 had size ",
                 batch[0].view().dl.shape[0], " but component ", i, " had size, ", view.dl.shape[0], ".");
        }
        rows = batch.empty() ? 0 : batch[0].view().dl.shape[0];
      }
      void SaveOrLoad(Archive& archive) override {
        if (row >= rows) {
          batch.clear();
          row = rows = 0;
        }
        archive.Values(batch);
        if (archive.reading()) Begin();
        archive.Number(row, 0, rows);
      }
      Element batch;
      int64_t row = 0, rows = 0;
    };
    return std::make_unique<Rows>(*this, pass);
  }
};

}  // namespace

Element BatchOf(const Pass& pass, const std::string& who, const std::vector<Element>& elements) {
  Element batch;
  for (size_t component = 0; component < elements[0].size(); ++component) {
    const std::vector<tenon_tensor_view> rows = Column(who, elements, component);
    const Dims dims = {rows[0].dl.shape, static_cast<size_t>(rows[0].dl.ndim)};
    for (size_t i = 1; i < rows.size(); ++i) {
      if (std::equal(dims.begin(), dims.end(), rows[i].dl.shape, rows[i].dl.shape + rows[i].dl.ndim)) continue;
      Fail(TENON_INVALID_ARGUMENT, who, ": Cannot batch tensors with different shapes in component ", component,
           ". First element had shape ", dims, " and element ", i, " had shape ", ShapeOf(rows[i]), ".");
    }
    batch.push_back(Stack(pass.work(), rows, std::vector<int64_t>(dims.begin(), dims.end())));
  }
  return batch;
}

TENON_KERNEL(kBatchDatasetKernel) = Registration<MakeDataset<BatchDataset<false>>>("BatchDataset", kMakesDataset);
TENON_KERNEL(kBatchDatasetV2Kernel) = Registration<MakeDataset<BatchDataset<true>>>("BatchDatasetV2", kMakesDataset);
TENON_KERNEL(kParallelBatchDatasetKernel) = Registration<MakeDataset<BatchDataset<true>>>("ParallelBatchDataset",
                                                                                          kMakesDataset);
TENON_KERNEL(kPaddedBatchDatasetKernel) = Registration<MakeDataset<PaddedBatchDataset<false>>>("PaddedBatchDataset",
                                                                                               kMakesDataset);
TENON_KERNEL(kPaddedBatchDatasetV2Kernel) = Registration<MakeDataset<PaddedBatchDataset<true>>>("PaddedBatchDatasetV2",
                                                                                                kMakesDataset);
TENON_KERNEL(kMapAndBatchDatasetKernel) = Registration<MakeDataset<MapAndBatchDataset>>("MapAndBatchDataset",
                                                                                        kMakesDataset);
TENON_KERNEL(kExperimentalMapAndBatchDatasetKernel) =
    Registration<MakeDataset<MapAndBatchDataset>>("ExperimentalMapAndBatchDataset", kMakesDataset);
TENON_KERNEL(kUnbatchDatasetKernel) = Registration<MakeDataset<UnbatchDataset>>("UnbatchDataset", kMakesDataset);
TENON_KERNEL(kExperimentalUnbatchDatasetKernel) =
    Registration<MakeDataset<UnbatchDataset>>("ExperimentalUnbatchDataset", kMakesDataset);

TENON_OP(kBatchDataset) = DefineDataset({
    .name = "BatchDataset",
    .inputs = "input_dataset: variant, batch_size: int64",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(batch_size) == 0",
    .doc = "batch_size elements at a time, each the row of a tensor.",
});

TENON_OP(kBatchDatasetV2) = DefineDataset({
    .name = "BatchDatasetV2",
    .inputs = "input_dataset: variant, batch_size: int64, drop_remainder: bool",
    .attrs = "parallel_copy: bool = false; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .constraints = "rank(batch_size) == 0; rank(drop_remainder) == 0",
    .doc = "batch_size elements at a time, each the row of a tensor; what is left at the end is a smaller batch, or "
           "dropped.",
});

TENON_OP(kParallelBatchDataset) = DefineDataset({
    .name = "ParallelBatchDataset",
    .inputs = "input_dataset: variant, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
    .attrs = "parallel_copy: bool = false; " TENON_DATASET_TYPES
             "; deterministic: string = 'default'" TENON_DATASET_METADATA,
    .constraints = "rank(batch_size) == 0; rank(num_parallel_calls) == 0; rank(drop_remainder) == 0",
    .doc = "As BatchDatasetV2.",
});

TENON_OP(kPaddedBatchDataset) = DefineDataset({
    .name = "PaddedBatchDataset",
    .inputs = "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types",
    .attrs = "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1" TENON_DATASET_METADATA,
    .constraints = "rank(batch_size) == 0; rank(padded_shapes) == 1",
    .doc = "batch_size elements at a time, each the row of a tensor, padded to a shape in which -1 is what the batch "
           "needs.",
});

TENON_OP(kPaddedBatchDatasetV2) = DefineDataset({
    .name = "PaddedBatchDatasetV2",
    .inputs = "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types, "
              "drop_remainder: bool",
    .attrs = "parallel_copy: bool = false; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= "
             "1" TENON_DATASET_METADATA,
    .constraints = "rank(batch_size) == 0; rank(padded_shapes) == 1; rank(drop_remainder) == 0",
    .doc = "batch_size elements at a time, each the row of a tensor, padded to a shape in which -1 is what the batch "
           "needs.",
});

TENON_OP(kMapAndBatchDataset) = DefineDataset({
    .name = "MapAndBatchDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments, batch_size: int64, num_parallel_calls: int64, "
              "drop_remainder: bool",
    .attrs = "f: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES
             "; preserve_cardinality: bool = false" TENON_DATASET_METADATA,
    .constraints = "rank(batch_size) == 0; rank(num_parallel_calls) == 0; rank(drop_remainder) == 0",
    .doc = "f of batch_size elements at a time, each the row of a tensor.",
});

TENON_OP(kExperimentalMapAndBatchDataset) = DefineDataset({
    .name = "ExperimentalMapAndBatchDataset",
    .inputs = "input_dataset: variant, other_arguments: Targuments, batch_size: int64, num_parallel_calls: int64, "
              "drop_remainder: bool",
    .attrs = "f: func; " TENON_DATASET_ARGUMENTS "; " TENON_DATASET_TYPES "; preserve_cardinality: bool = false",
    .constraints = "rank(batch_size) == 0; rank(num_parallel_calls) == 0; rank(drop_remainder) == 0",
    .doc = "f of batch_size elements at a time, each the row of a tensor.",
});

TENON_OP(kUnbatchDataset) = DefineDataset({
    .name = "UnbatchDataset",
    .inputs = "input_dataset: variant",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "The rows of the elements.",
});

TENON_OP(kExperimentalUnbatchDataset) = DefineDataset({
    .name = "ExperimentalUnbatchDataset",
    .inputs = "input_dataset: variant",
    .attrs = TENON_DATASET_TYPES,
    .doc = "The rows of the elements.",
});

}  // namespace tenon::ops
