// SPDX-License-Identifier: Apache-2.0
// DenseToSparseBatchDataset: elements of unlike shapes as the rows of a sparse tensor, which has all of their values.
#include "base/op.h"
#include "base/over_one.h"
#include "base/variants.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct SparseBatchDataset final : OverOne {
  SparseBatchDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c), size(IntOf(c, 1)), row(c.input<int64_t>(2), c.input<int64_t>(2) + Count(c.input_view(2))) {
    if (size <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": Batch size must be greater than zero.");
    if (input->types().size() != 1)
      Fail(TENON_INVALID_ARGUMENT, who(),
           ": DenseToSparseDataset only supports inputs with a single component; its input has ",
           input->types().size());
    if (row.size() + 1 > TENON_MAX_RANK)
      Fail(TENON_INVALID_ARGUMENT, who(), ": row_shape has ", row.size(), " dimensions; at most ", TENON_MAX_RANK - 1,
           " are allowed");
    for (const int64_t dim : row)
      if (dim < -1)
        Fail(TENON_INVALID_ARGUMENT, who(), ": row_shape has dimension ", dim, "; -1 is that of the largest element");
  }
  int64_t Cardinality() const override {
    const int64_t elements = input->Cardinality();
    return elements < 0 ? elements : elements / size + (elements % size == 0 ? 0 : 1);
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct InBatches final : OverIterator<SparseBatchDataset> {
      using OverIterator<SparseBatchDataset>::OverIterator;
      bool Next(Element* out) override {
        std::vector<KeptTensor> rows;
        std::vector<int64_t> shape(dataset.row.size() + 1);
        for (size_t i = 0; i < dataset.row.size(); ++i) shape[i + 1] = std::max<int64_t>(dataset.row[i], 0);
        int64_t values = 0;
        while (static_cast<int64_t>(rows.size()) < dataset.size) {
          pass.CheckCancelled();
          Element element;
          if (!from->Next(&element)) break;
          if (element.size() != 1)
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": its input gives an element of ", element.size(),
                 " components");
          dataset.Check(element[0].view(), rows.empty() ? nullptr : &rows[0], &shape);
          values = sdk::Add(values, Count(element[0].view()));
          rows.push_back(std::move(element[0]));
        }
        if (rows.empty()) return false;
        shape[0] = static_cast<int64_t>(rows.size());
        out->clear();
        out->push_back(dataset.Sparse(pass, rows, shape, values));
        return true;
      }
      void SaveOrLoad(Archive&) override {}
    };
    return std::make_unique<InBatches>(*this, pass);
  }

  // One more row; shape: of the batch, which it may make larger.
  void Check(const tenon_tensor_view& view, const KeptTensor* first, std::vector<int64_t>* shape) const {
    if (first != nullptr && view.dtype != first->view().dtype)
      Fail(TENON_INVALID_ARGUMENT, who(), ": its input gives elements of ", TypeName(first->view().dtype), " and of ",
           TypeName(view.dtype));
    if (view.dtype != TENON_DT_STRING && ElementSize(view.dtype) == 0)
      Fail(TENON_UNIMPLEMENTED, who(), ": tensors of ", TypeName(view.dtype), " cannot be values of a sparse tensor");
    const Dims dims = DimsOf(view);
    if (dims.size() != row.size())
      Fail(TENON_INVALID_ARGUMENT, who(), ": Input element had shape (", ShapeOf(view),
           ") that is incompatible with the row shape (", Shape(row), ").");
    for (size_t i = 0; i < dims.size(); ++i) {
      if (row[i] < 0) (*shape)[i + 1] = std::max((*shape)[i + 1], dims[i]);
      else if (dims[i] > row[i])
        Fail(TENON_DATA_LOSS, who(), ": Input element had shape (", ShapeOf(view),
             ") that is larger than the row shape (", Shape(row), ").");
    }
  }

  KeptTensor Sparse(const Pass& pass, const std::vector<KeptTensor>& rows, const std::vector<int64_t>& shape,
                    int64_t count) const {
    const Work& work = pass.work();
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t index_dims[] = {count, rank}, shape_dims[] = {rank};
    KeptTensor indices = work.NewTensor(TENON_DT_INT64, index_dims);
    auto* to = Data<int64_t>(indices.view());
    for (size_t i = 0; i < rows.size(); ++i) {
      pass.CheckCancelled();
      const tenon_tensor_view view = rows[i].view();
      const Dims dims = DimsOf(view);
      std::vector<int64_t> at(dims.size());
      for (int64_t k = 0, here = Count(view); k < here; ++k) {
        *to++ = static_cast<int64_t>(i);
        to = std::copy(at.begin(), at.end(), to);
        for (size_t d = dims.size(); d-- > 0;) {
          if (++at[d] < dims[d]) break;
          at[d] = 0;
        }
      }
    }
    KeptTensor dense = work.NewTensor(TENON_DT_INT64, shape_dims);
    std::copy(shape.begin(), shape.end(), Data<int64_t>(dense.view()));
    // As vectors one behind the other.
    std::vector<tenon_tensor_view> vectors;
    std::vector<int64_t> lengths(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      vectors.push_back(rows[i].view());
      lengths[i] = Count(vectors.back());
      vectors.back().dl.ndim = 1;
      vectors.back().dl.shape = &lengths[i];
    }
    KeptTensor values = Join(work, vectors);
    return NewSparse(work, std::move(indices), std::move(values), std::move(dense));
  }

  const int64_t size;
  const std::vector<int64_t> row;
};

}  // namespace

TENON_KERNEL(kDenseToSparseBatchDatasetKernel) =
    Registration<MakeDataset<SparseBatchDataset>>("DenseToSparseBatchDataset", kMakesDataset);
TENON_KERNEL(kExperimentalDenseToSparseBatchDatasetKernel) =
    Registration<MakeDataset<SparseBatchDataset>>("ExperimentalDenseToSparseBatchDataset", kMakesDataset);

TENON_OP(kDenseToSparseBatchDataset) = DefineDataset({
    .name = "DenseToSparseBatchDataset",
    .inputs = "input_dataset: variant, batch_size: int64, row_shape: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(batch_size) == 0; rank(row_shape) == 1",
    .doc = "batch_size elements at a time as the rows of a sparse tensor, in variants; a dimension of row_shape is -1 "
           "where it is the largest element's.",
});
TENON_OP(kExperimentalDenseToSparseBatchDataset) = DefineDataset({
    .name = "ExperimentalDenseToSparseBatchDataset",
    .inputs = "input_dataset: variant, batch_size: int64, row_shape: int64",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(batch_size) == 0; rank(row_shape) == 1",
    .doc = "batch_size elements at a time as the rows of a sparse tensor, in variants; a dimension of row_shape is -1 "
           "where it is the largest element's.",
});

}  // namespace tenon::ops
