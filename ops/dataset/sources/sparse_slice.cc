// SPDX-License-Identifier: Apache-2.0
// SparseTensorSliceDataset: the rows of a sparse tensor, each as indices, values and dense shape.
#include "base/archive.h"
#include "base/dataset.h"
#include "base/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

class SparseTensorSliceDataset final : public Dataset {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c)
        : Node(Concat(c.op(), " '", c.name(), "'"), {TENON_DT_INT64, c.Type("Tvalues"), TENON_DT_INT64},
               {Shape(), Shape(), Shape()}) {}
  };
  SparseTensorSliceDataset(const Attrs& attrs, const RunContext& c)
      : Dataset(attrs, {}, false),
        indices_(KeptTensor::OfInput(c, 0)),
        values_(KeptTensor::OfInput(c, 1)),
        shape_(c.input<int64_t>(2), c.input<int64_t>(2) + Count(c.input_view(2))) {
    const tenon_tensor_view indices = indices_.view();
    const auto rank = static_cast<int64_t>(shape_.size());
    if (rank == 0) Fail(TENON_INVALID_ARGUMENT, who(), ": a sparse tensor without dimensions has no rows");
    if (indices.dl.shape[1] != rank || indices.dl.shape[0] != Count(values_.view()))
      Fail(TENON_INVALID_ARGUMENT, who(), ": indices of shape ", ShapeOf(indices), " for ", Count(values_.view()),
           " values of ", rank, " dimensions");
    int64_t before = 0;
    for (int64_t i = 0; i < indices.dl.shape[0]; ++i) {
      const int64_t row = At(i);
      if (row < 0 || row >= shape_[0])
        Fail(TENON_INVALID_ARGUMENT, who(), ": index ", i, " is of row ", row, "; there are ", shape_[0]);
      if (row < before)
        Fail(TENON_INVALID_ARGUMENT, who(), ": the indices are not in order: row ", row, " follows row ", before);
      before = row;
    }
  }
  int64_t Cardinality() const override { return shape_[0]; }

  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Rows final : Iterator {
      Rows(const SparseTensorSliceDataset& of, const Pass& in) : dataset(of), pass(in) {}
      bool Next(Element* out) override {
        if (row >= dataset.shape_[0]) return false;
        const int64_t first = at, all = dataset.indices_.view().dl.shape[0];
        while (at < all && dataset.At(at) == row) ++at;
        *out = dataset.Row(pass.work(), first, at - first);
        ++row;
        return true;
      }
      void State(Archive& archive) override {
        archive.Number(row, 0, dataset.shape_[0]);
        archive.Number(at, 0, dataset.indices_.view().dl.shape[0]);
      }
      const SparseTensorSliceDataset& dataset;
      const Pass& pass;
      int64_t row = 0, at = 0;
    };
    return std::make_unique<Rows>(*this, pass);
  }

 private:
  // The row of value i.
  int64_t At(int64_t i) const { return Data<const int64_t>(indices_.view())[i * static_cast<int64_t>(shape_.size())]; }
  Element Row(const Work& work, int64_t first, int64_t count) const {
    const auto rank = static_cast<int64_t>(shape_.size());
    const int64_t index_dims[] = {count, rank - 1}, value_dims[] = {count}, shape_dims[] = {rank - 1};
    Element row;
    row.push_back(work.NewTensor(TENON_DT_INT64, index_dims));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t* from = Data<const int64_t>(indices_.view()) + (first + i) * rank + 1;
      std::copy_n(from, rank - 1, Data<int64_t>(row[0].view()) + i * (rank - 1));
    }
    std::vector<KeptTensor> parts;
    std::vector<tenon_tensor_view> views;
    for (int64_t i = 0; i < count; ++i) parts.push_back(RowOf(work, values_.view(), first + i));
    for (const KeptTensor& part : parts) views.push_back(part.view());
    row.push_back(count == 0 ? work.NewTensor(values_.view().dtype, value_dims) : Stack(work, views, {}));
    row.push_back(work.NewTensor(TENON_DT_INT64, shape_dims));
    std::copy_n(shape_.data() + 1, rank - 1, Data<int64_t>(row[2].view()));
    return row;
  }

  const KeptTensor indices_, values_;
  const std::vector<int64_t> shape_;
};

}  // namespace

TENON_KERNEL(kSparseTensorSliceDatasetKernel) =
    Registration<MakeDataset<SparseTensorSliceDataset>>("SparseTensorSliceDataset", kMakesDataset);

TENON_OP(kSparseTensorSliceDataset) = DefineDataset({
    .name = "SparseTensorSliceDataset",
    .inputs = "indices: int64, values: Tvalues, dense_shape: int64",
    .attrs = "Tvalues: type",
    .constraints = "rank(indices) == 2; rank(values) == 1; rank(dense_shape) == 1",
    .doc = "The rows of a sparse tensor, each as indices, values and dense shape.",
    .traits = TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
