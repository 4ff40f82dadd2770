// SPDX-License-Identifier: Apache-2.0
// GroupByReducerDataset: what a function makes of all elements of one key, for each key, in the order of the keys.
#include <map>

#include "base/captured_function.h"
#include "base/op.h"
#include "base/over_one.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct GroupByReducerDataset final : OverOne {
  struct Attrs : OverOne::Attrs {
    explicit Attrs(CreateContext& c)
        : OverOne::Attrs(c),
          key(c, "key_func"),
          begin(c, "init_func"),
          reduce(c, "reduce_func"),
          end(c, "finalize_func"),
          key_count(Arguments(c, "Tkey_func_other_arguments")),
          begin_count(Arguments(c, "Tinit_func_other_arguments")),
          reduce_count(Arguments(c, "Treduce_func_other_arguments")),
          end_count(Arguments(c, "Tfinalize_func_other_arguments")) {
      if (!c.ok()) return;
      const auto state = begin.result_dtypes(), reduced = reduce.result_dtypes();
      if (!std::equal(state.begin(), state.end(), reduced.begin(), reduced.end()))
        c.Invalid(who, ": reduce_func gives values of other types than the state that init_func gives");
      if (end.result_dtypes().size() != types.size())
        c.Invalid(who, ": finalize_func gives ", end.result_dtypes().size(), " values; ", types.size(),
                  " are asked for");
    }
    static int32_t Arguments(CreateContext& c, std::string_view attr) {
      return static_cast<int32_t>(c.Types(attr).size());
    }
    Function key, begin, reduce, end;
    int32_t key_count, begin_count, reduce_count, end_count;
  };
  GroupByReducerDataset(const Attrs& attrs, const RunContext& c)
      : OverOne(attrs, c, true),
        key(attrs.key, who(), c, 1, attrs.key_count),
        begin(attrs.begin, who(), c, 1 + attrs.key_count, attrs.begin_count),
        reduce(attrs.reduce, who(), c, 1 + attrs.key_count + attrs.begin_count, attrs.reduce_count),
        end(attrs.end, who(), c, 1 + attrs.key_count + attrs.begin_count + attrs.reduce_count, attrs.end_count) {}

  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Reduced final : OverIterator<GroupByReducerDataset> {
      using OverIterator::OverIterator;
      bool Next(Element* out) override {
        while (!ended) {
          pass.CheckCancelled();
          Take();
        }
        if (states.empty()) return false;
        const Element state = std::move(states.begin()->second);
        states.erase(states.begin());
        *out = dataset.end.Call(pass, state);
        return true;
      }
      void Take() {
        Element element;
        if (!from->Next(&element)) {
          ended = true;
          return;
        }
        const int64_t its = dataset.key.Count(pass, element);
        auto at = states.find(its);
        if (at == states.end()) {
          Element key;
          key.push_back(NewScalar<int64_t>(pass.work(), TENON_DT_INT64, its));
          at = states.emplace(its, dataset.begin.Call(pass, key)).first;
        }
        at->second = dataset.reduce.Call(pass, at->second, element);
      }
      void SaveOrLoad(Archive& archive) override {
        archive.Flag(ended);
        auto size = static_cast<int64_t>(states.size());
        archive.Number(size);
        if (!archive.reading()) {
          for (auto& [key, state] : states) {
            int64_t its = key;
            archive.Number(its, INT64_MIN);
            archive.Values(state);
          }
          return;
        }
        states.clear();
        for (; size > 0; --size) {
          int64_t its = 0;
          archive.Number(its, INT64_MIN);
          archive.Values(states[its]);
        }
      }
      std::map<int64_t, Element> states;  // of the keys that were not given
      bool ended = false;
    };
    return std::make_unique<Reduced>(*this, pass);
  }
  const Captured key, begin, reduce, end;
};

}  // namespace

TENON_KERNEL(kGroupByReducerDatasetKernel) = Registration<MakeDataset<GroupByReducerDataset>>("GroupByReducerDataset",
                                                                                              kMakesDataset);
TENON_KERNEL(kExperimentalGroupByReducerDatasetKernel) =
    Registration<MakeDataset<GroupByReducerDataset>>("ExperimentalGroupByReducerDataset", kMakesDataset);

#define TENON_REDUCER_INPUTS                                                                                 \
  "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, init_func_other_arguments: " \
  "Tinit_func_other_arguments, "                                                                             \
  "reduce_func_other_arguments: Treduce_func_other_arguments, finalize_func_other_arguments: "               \
  "Tfinalize_func_other_arguments"
#define TENON_REDUCER_ATTRS                                                                                          \
  "key_func: func; init_func: func; reduce_func: func; finalize_func: func; Tkey_func_other_arguments: list(type); " \
  "Tinit_func_other_arguments: list(type); "                                                                         \
  "Treduce_func_other_arguments: list(type); Tfinalize_func_other_arguments: list(type); " TENON_DATASET_TYPES

static constexpr std::string_view kDoc =
    "For each key that key_func gives of an element, in rising order: finalize_func of the state after reduce_func of "
    "state and element for each of its elements; init_func of the key is the "
    "first state.";

TENON_OP(kGroupByReducerDataset) = DefineDataset({.name = "GroupByReducerDataset",
                                                  .inputs = TENON_REDUCER_INPUTS,
                                                  .attrs = TENON_REDUCER_ATTRS,
                                                  .doc = kDoc,
                                                  .traits = TENON_OP_STATEFUL});
TENON_OP(kExperimentalGroupByReducerDataset) = DefineDataset({.name = "ExperimentalGroupByReducerDataset",
                                                              .inputs = TENON_REDUCER_INPUTS,
                                                              .attrs = TENON_REDUCER_ATTRS,
                                                              .doc = kDoc,
                                                              .traits = TENON_OP_STATEFUL});

}  // namespace tenon::ops
