// SPDX-License-Identifier: Apache-2.0
// DirectedInterleaveDataset, which takes from the dataset that another one names; and UniqueDataset.
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/op.h"
#include "base/over_one.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct DirectedDataset final : Dataset {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c)
        : Node(c), stop(c.Has("stop_on_empty_dataset") && c.Bool("stop_on_empty_dataset")) {}
    bool stop;
  };
  DirectedDataset(const Attrs& attrs, const RunContext& c)
      : DirectedDataset(attrs, DatasetsOf(c, 0, c.input_count())) {}
  DirectedDataset(const Attrs& attrs, std::vector<DatasetPtr> all)
      : Dataset(attrs, all, true), inputs(std::move(all)), stop(attrs.stop) {
    if (inputs[0]->types() != std::vector<uint32_t>{TENON_DT_INT64})
      Fail(TENON_INVALID_ARGUMENT, who(), ": the selector dataset must give one int64");
    for (size_t i = 2; i < inputs.size(); ++i)
      if (inputs[i]->types() != inputs[1]->types())
        Fail(TENON_INVALID_ARGUMENT, who(), ": all datasets must have the same types");
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Chosen final : Iterator {
      Chosen(const DirectedDataset& of, const Pass& in) : dataset(of), pass(in), left(of.inputs.size() - 1) {
        for (const DatasetPtr& input : of.inputs) from.push_back(input->NewIterator(in));
      }
      bool Next(Element* out) override {
        while (left > 0 && !over) {
          pass.CheckCancelled();
          Element choice;
          if (!from[0]->Next(&choice)) break;
          const tenon_tensor_view view = choice.empty() ? tenon_tensor_view{} : choice[0].view();
          if (view.dtype != TENON_DT_INT64 || view.dl.ndim != 0)
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": the selector dataset must give one int64");
          const int64_t index = *Data<const int64_t>(view);
          if (index < 0 || index >= static_cast<int64_t>(from.size()) - 1)
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": Selector index out of range: ", index,
                 " >= ", from.size() - 1);
          IteratorPtr& chosen = from[static_cast<size_t>(index) + 1];
          if (chosen == nullptr) continue;
          if (chosen->Next(out)) return true;
          if (dataset.stop) break;
          chosen.reset();
          --left;
        }
        over = true;
        return false;
      }
      void State(Archive& archive) override {
        size_t now = 0;
        for (size_t i = 0; i < from.size(); ++i) {
          archive.Of(*dataset.inputs[i], from[i]);
          if (i > 0 && from[i] != nullptr) ++now;
        }
        left = now;
        bool ended = left == 0 || over;
        archive.Flag(ended);
        over = ended;
        if (from[0] == nullptr) archive.Refuse("the selector is not in it");
      }
      const DirectedDataset& dataset;
      const Pass& pass;
      std::vector<IteratorPtr> from;
      size_t left;
      bool over = false;
    };
    return std::make_unique<Chosen>(*this, pass);
  }
  const std::vector<DatasetPtr> inputs;
  const bool stop;
};

constexpr size_t kBlock = 64 << 10,
                 kEntry = 64;  // bytes of memory for what was seen, and what each takes beside its own

struct UniqueDataset final : OverOne {
  UniqueDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c) {
    if (types().size() != 1)
      Fail(TENON_INVALID_ARGUMENT, who(), ": UniqueDataset only supports inputs with a single component.");
    if (types()[0] != TENON_DT_INT32 && types()[0] != TENON_DT_INT64 && types()[0] != TENON_DT_STRING)
      Fail(TENON_INVALID_ARGUMENT, who(),
           ": UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component.");
  }
  IteratorPtr NewIterator(const Pass& pass) const override {
    struct New final : OverIterator<UniqueDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        for (;;) {
          pass.CheckCancelled();
          if (!from->Next(out)) return false;
          if (out->empty())
            Fail(TENON_INVALID_ARGUMENT, dataset.who(), ": its input gives elements without a component");
          const std::string bytes = Bytes((*out)[0].view());
          if (seen.contains(bytes)) continue;
          seen.insert(Keep(bytes));
          return true;
        }
      }
      void SaveOrLoad(Archive& archive) override {
        auto size = static_cast<int64_t>(seen.size());
        archive.Number(size);
        if (!archive.reading()) {
          for (const std::string_view each : seen) {
            std::string bytes(each);
            archive.Text(bytes);
          }
          return;
        }
        seen.clear();
        blocks.clear();
        room = 0;
        for (std::string bytes; size > 0; --size) {
          archive.Text(bytes);
          if (!seen.contains(bytes)) seen.insert(Keep(bytes));
        }
      }
      // What makes two elements equal: shape and values, with lengths before what has none of its own.
      static std::string Bytes(const tenon_tensor_view& view) {
        std::string bytes;
        const auto number = [&bytes](int64_t value) {
          bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
        };
        number(view.dl.ndim);
        for (int32_t i = 0; i < view.dl.ndim; ++i) number(view.dl.shape[i]);
        if (view.dtype != TENON_DT_STRING)
          return bytes.append(Data<const char>(view), static_cast<size_t>(Count(view)) * ElementSize(view.dtype));
        for (const std::string_view text : StringsOf(view)) {
          number(static_cast<int64_t>(text.size()));
          bytes += text;
        }
        return bytes;
      }
      // In memory that is the session's, with room for what the set itself takes.
      std::string_view Keep(std::string_view bytes) {
        const size_t taken = bytes.size() + kEntry;
        if (taken > room) {
          room = std::max(taken, size_t{kBlock});
          const int64_t dims[] = {static_cast<int64_t>(room)};
          blocks.push_back(pass.work().NewTensor(TENON_DT_UINT8, dims));
        }
        const tenon_tensor_view block = blocks.back().view();
        char* const to = Data<char>(block) + (static_cast<size_t>(block.dl.shape[0]) - room);
        std::memcpy(to, bytes.data(), bytes.size());
        room -= taken;
        return {to, bytes.size()};
      }
      std::vector<KeptTensor> blocks;
      size_t room = 0;  // of the last block
      std::unordered_set<std::string_view> seen;
    };
    return std::make_unique<New>(*this, pass);
  }
};

}  // namespace

TENON_KERNEL(kDirectedInterleaveDatasetKernel) = Registration<MakeDataset<DirectedDataset>>("DirectedInterleaveDataset",
                                                                                            kMakesDataset);
TENON_KERNEL(kExperimentalDirectedInterleaveDatasetKernel) =
    Registration<MakeDataset<DirectedDataset>>("ExperimentalDirectedInterleaveDataset", kMakesDataset);
TENON_KERNEL(kUniqueDatasetKernel) = Registration<MakeDataset<UniqueDataset>>("UniqueDataset", kMakesDataset);
TENON_KERNEL(kExperimentalUniqueDatasetKernel) = Registration<MakeDataset<UniqueDataset>>("ExperimentalUniqueDataset",
                                                                                          kMakesDataset);

TENON_OP(kDirectedInterleaveDataset) = DefineDataset({
    .name = "DirectedInterleaveDataset",
    .inputs = "selector_input_dataset: variant, data_input_datasets: N * variant",
    .attrs = TENON_DATASET_TYPES "; N: int >= 1; stop_on_empty_dataset: bool = false",
    .doc = "Elements of the datasets, each of that whose number the selector gives.",
});

TENON_OP(kExperimentalDirectedInterleaveDataset) = DefineDataset({
    .name = "ExperimentalDirectedInterleaveDataset",
    .inputs = "selector_input_dataset: variant, data_input_datasets: N * variant",
    .attrs = TENON_DATASET_TYPES "; N: int >= 1",
    .doc = "Elements of the datasets, each of that whose number the selector gives.",
});

TENON_OP(kUniqueDataset) = DefineDataset({
    .name = "UniqueDataset",
    .inputs = "input_dataset: variant",
    .attrs = TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "The elements without those that came before.",
});

TENON_OP(kExperimentalUniqueDataset) = DefineDataset({
    .name = "ExperimentalUniqueDataset",
    .inputs = "input_dataset: variant",
    .attrs = TENON_DATASET_TYPES,
    .doc = "The elements without those that came before.",
});

}  // namespace tenon::ops
