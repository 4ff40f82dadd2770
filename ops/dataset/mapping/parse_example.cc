// SPDX-License-Identifier: Apache-2.0
// ParseExampleDataset and its kin: each element's serialized Examples as their features, in the order of the features'
// names. Sparse features are three variants, ragged ones one.
#include <map>

#include "base/op.h"
#include "base/over_one.h"
#include "base/variants.h"
#include "base/work_frame.h"
#include "mapping/parallel_map.h"
#include "tenon/extras/example/parse.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Elements keep their order, whatever `sloppy` and `deterministic` allow.
template <bool kRagged>
struct ParseExampleDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c)
        : OverOne::Attrs(c),
          sparse_types(c.Types("sparse_types")),
          dense_types(c.Types("Tdense")),
          dense_shapes(c.Shapes("dense_shapes")),
          defaults(c.InputRange("dense_defaults")) {
      const auto keys = [&c](std::string_view attr) {
        std::vector<std::string> texts;
        for (const std::string_view key : c.Strings(attr)) texts.emplace_back(key);
        return texts;
      };
      sparse_keys = keys("sparse_keys");
      dense_keys = keys("dense_keys");
      if constexpr (kRagged) {
        ragged_keys = keys("ragged_keys");
        ragged_types = c.Types("ragged_value_types");
        split_types = c.Types("ragged_split_types");
      }
      if (c.ok()) Arrange(c);
    }
    // Which component each feature is: they stand in the order of the names.
    void Arrange(CreateContext& c) {
      if (sparse_keys.size() != sparse_types.size())
        return c.Invalid(who, ": there are ", sparse_keys.size(), " sparse_keys and ", sparse_types.size(),
                         " sparse_types");
      if (dense_keys.size() != dense_types.size())
        return c.Invalid(who, ": there are ", dense_keys.size(), " dense_keys and ", dense_types.size(),
                         " types of Tdense");
      if (dense_keys.size() != dense_shapes.size())
        return c.Invalid(who, ": there are ", dense_keys.size(), " dense_keys and ", dense_shapes.size(),
                         " dense_shapes");
      if (ragged_keys.size() != ragged_types.size() || ragged_keys.size() != split_types.size())
        return c.Invalid(who, ": there are ", ragged_keys.size(), " ragged_keys, ", ragged_types.size(),
                         " ragged_value_types and ", split_types.size(), " ragged_split_types");
      std::map<std::string_view, size_t> order;
      for (const auto* list : {&dense_keys, &sparse_keys, &ragged_keys})
        for (const std::string& key : *list)
          if (!order.try_emplace(key, 0).second) return c.Invalid(who, ": Duplicate key not allowed: ", key);
      if (order.size() != types.size())
        return c.Invalid(who, ": there are ", order.size(), " features and ", types.size(), " output_types");
      size_t next = 0;
      for (auto& [key, at] : order) at = next++;
      const auto places = [&](const std::vector<std::string>& list, std::vector<size_t>* out, const auto& type) {
        for (size_t i = 0; i < list.size(); ++i) {
          out->push_back(order[list[i]]);
          if (const uint32_t given = type(i); c.ok() && types[out->back()] != given)
            c.Invalid(who, ": feature '", list[i], "' is ", TypeName(given), ", and output_types[", out->back(),
                      "] is ", TypeName(types[out->back()]));
        }
      };
      const auto a_variant = [](size_t) { return uint32_t{TENON_DT_VARIANT}; };
      places(sparse_keys, &sparse_at, a_variant);
      places(dense_keys, &dense_at, [this](size_t i) { return dense_types[i]; });
      places(ragged_keys, &ragged_at, a_variant);
    }
    std::vector<uint32_t> sparse_types, dense_types, ragged_types, split_types;
    std::vector<Shape> dense_shapes;
    std::vector<std::string> sparse_keys, dense_keys, ragged_keys;
    std::vector<size_t> sparse_at, dense_at, ragged_at;  // among the components
    Range defaults;
  };

  ParseExampleDataset(const Attrs& attrs, const RunContext& c) : OverOne(attrs, c, true), node(attrs) {
    (void)CallsOf(c, 1, who());
    if (static_cast<size_t>(attrs.defaults.count) != attrs.dense_keys.size())
      Fail(TENON_INVALID_ARGUMENT, who(),
           ": Expected len(dense_defaults) == len(dense_keys) but got: ", attrs.defaults.count, " vs. ",
           attrs.dense_keys.size());
    for (const uint32_t type : input->types())
      if (type != TENON_DT_STRING)
        Fail(TENON_INVALID_ARGUMENT, who(), ": its input gives ", TypeName(type), "; serialized Examples are strings");
    const auto sparse = static_cast<int32_t>(node.sparse_keys.size()),
               dense = static_cast<int32_t>(node.dense_keys.size()),
               ragged = static_cast<int32_t>(node.ragged_keys.size());
    for (int32_t i = 0; i < sparse; ++i) {
      const auto at = static_cast<size_t>(i);
      columns.sparse.push_back({.key = node.sparse_keys[at],
                                .dtype = node.sparse_types[at],
                                .values = sparse + i,
                                .indices = i,
                                .shape = 2 * sparse + i});
    }
    for (int32_t i = 0; i < dense; ++i) {
      const auto at = static_cast<size_t>(i);
      fallbacks.push_back(KeptTensor::OfInput(c, attrs.defaults.begin + i));
      if (fallbacks.back().view().dtype != node.dense_types[at])
        Fail(TENON_INVALID_ARGUMENT, who(), ": dense_defaults[", i, "] is no ", TypeName(node.dense_types[at]));
      try {
        columns.dense.push_back(example::MakeDense(node.dense_keys[at], node.dense_types[at], node.dense_shapes[at],
                                                   c.input_view(attrs.defaults.begin + i), at, true));
      } catch (KernelError& error) {
        Rethrow(error);
      }
      columns.dense.back().output = 3 * sparse + i;
    }
    for (int32_t i = 0; i < ragged; ++i) {
      const auto at = static_cast<size_t>(i);
      columns.ragged.push_back({.key = node.ragged_keys[at],
                                .dtype = node.ragged_types[at],
                                .splits_dtype = node.split_types[at],
                                .values = 3 * sparse + dense + i,
                                .splits = 3 * sparse + dense + ragged + i});
    }
    const auto add = [this](const std::vector<uint32_t>& more) {
      output_types.insert(output_types.end(), more.begin(), more.end());
    };
    add(std::vector<uint32_t>(node.sparse_keys.size(), TENON_DT_INT64));
    add(node.sparse_types);
    add(std::vector<uint32_t>(node.sparse_keys.size(), TENON_DT_INT64));
    add(node.dense_types);
    add(node.ragged_types);
    add(node.split_types);
  }
  int64_t Cardinality() const override { return input->Cardinality(); }

  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Each final : OverIterator<ParseExampleDataset> {
      using OverIterator<ParseExampleDataset>::OverIterator;
      bool Next(Element* out) override {
        this->pass.CheckCancelled();
        Element texts;
        if (!this->from->Next(&texts)) return false;
        *out = this->dataset.Parse(this->pass, texts);
        return true;
      }
      void SaveOrLoad(Archive&) override {}
    };
    return std::make_unique<Each>(*this, pass);
  }

 private:
  [[noreturn]] void Rethrow(KernelError& error) const {
    const Outcome why = TakeStatus(error.release());
    Fail(why.code, who(), ": ", why.message);
  }

  Element Parse(const Pass& pass, const Element& texts) const {
    std::vector<std::string_view> messages;
    for (const KeptTensor& tensor : texts) {
      if (tensor.view().dtype != TENON_DT_STRING)
        Fail(TENON_INVALID_ARGUMENT, who(), ": its input gives ", TypeName(tensor.view().dtype),
             "; serialized Examples are strings");
      for (const std::string_view text : StringsOf(tensor.view())) messages.push_back(text);
    }
    WorkFrame frame(pass, output_types);
    // Views of the fallbacks whose dims lie where they are now.
    example::ExampleColumns its = columns;
    for (size_t i = 0; i < fallbacks.size(); ++i) its.dense[i].fallback = fallbacks[i].view();
    try {
      example::ParseExamples(frame.context(), messages, {}, false, std::move(its));
    } catch (KernelError& error) {
      Rethrow(error);
    }
    std::vector<std::optional<KeptTensor>> parts(types().size());
    for (size_t i = 0; i < columns.sparse.size(); ++i) {
      const example::ListColumn& column = columns.sparse[i];
      parts[node.sparse_at[i]] =
          NewSparse(pass.work(), frame.Take(column.indices), frame.Take(column.values), frame.Take(column.shape));
    }
    for (size_t i = 0; i < columns.dense.size(); ++i) parts[node.dense_at[i]] = frame.Take(columns.dense[i].output);
    for (size_t i = 0; i < columns.ragged.size(); ++i)
      parts[node.ragged_at[i]] =
          NewRagged(pass.work(), frame.Take(columns.ragged[i].splits), frame.Take(columns.ragged[i].values));
    Element element;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!Fits(ShapeOf(parts[i]->view()), shapes()[i]))
        Fail(TENON_INVALID_ARGUMENT, who(), ": component ", i, " has shape ", ShapeOf(parts[i]->view()),
             ", which output_shapes, ", shapes()[i], ", does not allow");
      element.push_back(std::move(*parts[i]));
    }
    return element;
  }

  const Attrs node;
  example::ExampleColumns columns;
  Element fallbacks;
  std::vector<uint32_t> output_types;  // as the columns number them
};

}  // namespace

TENON_KERNEL(kParseExampleDatasetKernel) = Registration<MakeDataset<ParseExampleDataset<true>>>("ParseExampleDataset",
                                                                                                kMakesDataset);
TENON_KERNEL(kExperimentalParseExampleDatasetKernel) =
    Registration<MakeDataset<ParseExampleDataset<false>>>("ExperimentalParseExampleDataset", kMakesDataset);
TENON_KERNEL(kParseExampleDatasetV2Kernel) =
    Registration<MakeDataset<ParseExampleDataset<true>>>("ParseExampleDatasetV2", kMakesDataset);

#define TENON_PARSE_INPUTS "input_dataset: variant, num_parallel_calls: int64, dense_defaults: Tdense"
#define TENON_PARSE_ATTRS                                                                                     \
  "sparse_keys: list(string); dense_keys: list(string); sparse_types: list({float, int64, string}); Tdense: " \
  "list({float, int64, string}); "                                                                            \
  "dense_shapes: list(shape); " TENON_DATASET_TYPES
#define TENON_PARSE_RAGGED                                                                                        \
  "; ragged_keys: list(string) = []; ragged_value_types: list({float, int64, string}) = []; ragged_split_types: " \
  "list({int32, int64}) = []"

static constexpr std::string_view kParseDoc =
    "The features of each element's serialized Examples, in the order of their names; sparse and ragged ones as "
    "variants.";

TENON_OP(kParseExampleDataset) = DefineDataset({.name = "ParseExampleDataset",
                                                .inputs = TENON_PARSE_INPUTS,
                                                .attrs = TENON_PARSE_ATTRS "; sloppy: bool = false" TENON_PARSE_RAGGED,
                                                .doc = kParseDoc});
TENON_OP(kExperimentalParseExampleDataset) = DefineDataset({.name = "ExperimentalParseExampleDataset",
                                                            .inputs = TENON_PARSE_INPUTS,
                                                            .attrs = TENON_PARSE_ATTRS "; sloppy: bool = false",
                                                            .doc = kParseDoc});
TENON_OP(kParseExampleDatasetV2) = DefineDataset({.name = "ParseExampleDatasetV2",
                                                  .inputs = TENON_PARSE_INPUTS,
                                                  .attrs = TENON_PARSE_ATTRS
                                                  "; deterministic: string = 'default'" TENON_PARSE_RAGGED,
                                                  .doc = kParseDoc});

}  // namespace tenon::ops
