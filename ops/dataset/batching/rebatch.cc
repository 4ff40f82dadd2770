// SPDX-License-Identifier: Apache-2.0
// Batches of other sizes: RebatchDataset, which parts each batch among replicas, and RebatchDatasetV2, whose batches
// have the sizes that it is given, in turn.
#include "base/op.h"
#include "base/over_one.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// In as many parts as there are replicas, the last of which may be smaller, or empty.
struct RebatchDataset final : OverOne {
  RebatchDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c), replicas(IntOf(c, 1)) {
    if (replicas <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": num_replicas must be greater than zero.");
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Parts final : OverIterator<RebatchDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        if (part == 0) {
          batch.clear();
          if (!from->Next(&batch)) return false;
          Check();
        }
        out->clear();
        for (const KeptTensor& tensor : batch) {
          const tenon_tensor_view view = tensor.view();
          const int64_t rows = view.dl.shape[0],
                        each = rows / dataset.replicas + (rows % dataset.replicas == 0 ? 0 : 1);
          const int64_t first = each == 0 || part > rows / each ? rows : std::min(each * part, rows);
          out->push_back(RowsOf(pass.work(), view, first, std::min(each, rows - first)));
        }
        part = part + 1 == dataset.replicas ? 0 : part + 1;
        return true;
      }
      void Check() const {
        for (size_t i = 0; i < batch.size(); ++i) {
          if (batch[i].view().dl.ndim > 0) continue;
          Fail(TENON_INVALID_ARGUMENT, dataset.who(),
               ": Cannot rebatch dataset: All components must have at least one dimension. Perhaps your input dataset "
               "is not batched? Component ",
               i, " is scalar.");
        }
      }
      void SaveOrLoad(Archive& archive) override {
        archive.Number(part, 0, dataset.replicas - 1);
        if (part == 0) batch.clear();
        archive.Values(batch);
        if (archive.reading()) Check();
      }
      Element batch;
      int64_t part = 0;  // the next one of the batch
    };
    return std::make_unique<Parts>(*this, pass);
  }
  const int64_t replicas;
};

struct RebatchDatasetV2 final : OverOne {
  RebatchDatasetV2(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c), drop(BoolOf(c, 2)) {
    const tenon_tensor_view& given = c.input_view(1);
    sizes.assign(Data<const int64_t>(given), Data<const int64_t>(given) + Count(given));
    if (sizes.empty()) Fail(TENON_INVALID_ARGUMENT, who(), ": there are no batch_sizes");
    for (const int64_t size : sizes)
      if (size < 0)
        Fail(TENON_INVALID_ARGUMENT, who(), ": batch_sizes hold ", size, "; a batch has no fewer than 0 rows");
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Batches final : OverIterator<RebatchDatasetV2> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        if (ended) return false;
        const int64_t size = dataset.sizes[turn];
        std::vector<Element> parts;
        int64_t rows = 0;
        while (rows < size && !ended) {
          pass.CheckCancelled();
          if (left == 0 && !Take()) break;
          const int64_t taken = std::min(size - rows, left);
          Element part;
          for (const KeptTensor& tensor : batch) {
            const tenon_tensor_view view = tensor.view();
            part.push_back(RowsOf(pass.work(), view, view.dl.shape[0] - left, taken));
          }
          parts.push_back(std::move(part));
          rows += taken;
          left -= taken;
        }
        turn = (turn + 1) % dataset.sizes.size();
        if ((rows == 0 && size > 0) || (dataset.drop && rows < size)) return false;
        if (parts.empty()) *out = Empty();
        else if (parts.size() == 1) *out = std::move(parts[0]);
        else *out = Joined(parts);
        return true;
      }
      // The next batch, whose rows are left; false at the end.
      bool Take() {
        batch.clear();
        left = 0;
        if (!from->Next(&batch)) {
          ended = true;
          return false;
        }
        Begin();
        return true;
      }
      void Begin() {
        for (size_t i = 0; i < batch.size(); ++i) {
          const tenon_tensor_view view = batch[i].view();
          if (view.dl.ndim == 0)
            Fail(TENON_INVALID_ARGUMENT, dataset.who(),
                 ": Input element must have a non-scalar value in each component.");
          if (view.dl.shape[0] != batch[0].view().dl.shape[0])
            Fail(TENON_INVALID_ARGUMENT, dataset.who(),
                 ": Input element must have the same batch size in each component. Component 0 had size ",
                 batch[0].view().dl.shape[0], " but component ", i, " had size, ", view.dl.shape[0], ".");
        }
        left = batch.empty() ? 0 : batch[0].view().dl.shape[0];
      }
      Element Joined(const std::vector<Element>& parts) const {
        Element joined;
        for (size_t i = 0; i < parts[0].size(); ++i) {
          std::vector<tenon_tensor_view> views;
          for (const Element& part : parts) {
            if (part.size() != parts[0].size())
              Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": its input gives elements of ", parts[0].size(), " and of ",
                   part.size(), " components");
            views.push_back(part[i].view());
            const Dims one = DimsOf(views[0]).subspan(1), other = DimsOf(views.back()).subspan(1);
            if (views.back().dtype != views[0].dtype || !std::equal(one.begin(), one.end(), other.begin(), other.end()))
              Fail(TENON_FAILED_PRECONDITION, dataset.who(), ": the rows of component ", i, " are ",
                   TypeName(views[0].dtype), " ", one, " and ", TypeName(views.back().dtype), " ", other,
                   "; one batch cannot hold both");
          }
          joined.push_back(Join(pass.work(), views));
        }
        return joined;
      }
      // A batch of no rows; what is not known of their shape is 0.
      Element Empty() const {
        Element empty;
        for (size_t i = 0; i < dataset.types().size(); ++i) {
          std::vector<int64_t> dims = {0};
          const Shape& shape = dataset.shapes()[i];
          for (int k = 1; shape.known_rank() && k < shape.rank(); ++k) dims.push_back(std::max<int64_t>(shape[k], 0));
          empty.push_back(pass.work().NewTensor(dataset.types()[i], dims));
        }
        return empty;
      }
      void SaveOrLoad(Archive& archive) override {
        archive.Number(turn, 0, static_cast<int64_t>(dataset.sizes.size()) - 1);
        archive.Flag(ended);
        int64_t rows = left;
        if (rows == 0) batch.clear();
        archive.Values(batch);
        if (archive.reading()) Begin();
        archive.Number(rows, 0, batch.empty() ? 0 : batch[0].view().dl.shape[0]);
        left = rows;
      }
      Element batch;
      int64_t left = 0;  // rows of the batch
      size_t turn = 0;   // of the sizes
      bool ended = false;
    };
    return std::make_unique<Batches>(*this, pass);
  }
  std::vector<int64_t> sizes;
  const bool drop;
};

}  // namespace

TENON_KERNEL(kRebatchDatasetKernel) = Registration<MakeDataset<RebatchDataset>>("RebatchDataset", kMakesDataset);
TENON_KERNEL(kExperimentalRebatchDatasetKernel) =
    Registration<MakeDataset<RebatchDataset>>("ExperimentalRebatchDataset", kMakesDataset);
TENON_KERNEL(kRebatchDatasetV2Kernel) = Registration<MakeDataset<RebatchDatasetV2>>("RebatchDatasetV2", kMakesDataset);

static constexpr std::string_view kPartsDoc =
    "Each batch in num_replicas parts, as even as they can be; the last may be empty.";

TENON_OP(kRebatchDataset) = DefineDataset({
    .name = "RebatchDataset",
    .inputs = "input_dataset: variant, num_replicas: int64",
    .attrs = TENON_DATASET_TYPES "; use_fallback: bool = true",
    .constraints = "rank(num_replicas) == 0",
    .doc = kPartsDoc,
});

TENON_OP(kExperimentalRebatchDataset) = DefineDataset({
    .name = "ExperimentalRebatchDataset",
    .inputs = "input_dataset: variant, num_replicas: int64",
    .attrs = TENON_DATASET_TYPES "; use_fallback: bool = true",
    .constraints = "rank(num_replicas) == 0",
    .doc = kPartsDoc,
});

TENON_OP(kRebatchDatasetV2) = DefineDataset({
    .name = "RebatchDatasetV2",
    .inputs = "input_dataset: variant, batch_sizes: int64, drop_remainder: bool",
    .attrs = TENON_DATASET_TYPES,
    .constraints = "rank(batch_sizes) <= 1; rank(drop_remainder) == 0",
    .doc = "The rows of the batches in batches of these sizes, in turn; what is left at the end is a smaller batch, or "
           "dropped.",
});

}  // namespace tenon::ops
