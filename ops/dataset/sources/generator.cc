// SPDX-License-Identifier: Apache-2.0
// GeneratorDataset: what a function gives of a state, until it fails with OUT_OF_RANGE.
#include "base/archive.h"
#include "base/captured_function.h"
#include "base/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

class GeneratorDataset final : public Dataset {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c)
        : Node(c),
          begin(c, "init_func"),
          next(c, "next_func"),
          end(c, "finalize_func"),
          begin_count(static_cast<int32_t>(c.Types("Tinit_func_args").size())),
          next_count(static_cast<int32_t>(c.Types("Tnext_func_args").size())) {}
    Function begin, next, end;
    int32_t begin_count, next_count;
  };
  GeneratorDataset(const Attrs& attrs, const RunContext& c)
      : Dataset(attrs, {}, true),
        begin_(attrs.begin, who(), c, 0, attrs.begin_count),
        next_(attrs.next, who(), c, attrs.begin_count, attrs.next_count),
        end_(attrs.end, who(), c, attrs.begin_count + attrs.next_count) {}

  IteratorPtr NewIterator(const Pass& pass) const override {
    struct Generated final : Iterator {
      Generated(const GeneratorDataset& of, const Pass& in) : dataset(of), pass(in) {}
      bool Next(Element* out) override {
        if (ended) return false;
        if (!begun) {
          state = dataset.begin_.Call(pass, {});
          begun = true;
        }
        try {
          *out = dataset.next_.Call(pass, state);
          return true;
        } catch (KernelError& error) {
          const Outcome why = TakeStatus(error.release());
          if (why.code != TENON_OUT_OF_RANGE) Fail(why.code, why.message);
        }
        ended = true;
        (void)dataset.end_.Call(pass, state);
        return false;
      }
      void State(Archive& archive) override {
        archive.Flag(begun);
        archive.Flag(ended);
        archive.Values(state);
      }
      const GeneratorDataset& dataset;
      const Pass& pass;
      Element state;
      bool begun = false, ended = false;
    };
    return std::make_unique<Generated>(*this, pass);
  }

 private:
  const Captured begin_, next_, end_;
};

}  // namespace

TENON_KERNEL(kGeneratorDatasetKernel) = Registration<MakeDataset<GeneratorDataset>>("GeneratorDataset", kMakesDataset);

TENON_OP(kGeneratorDataset) = DefineDataset({
    .name = "GeneratorDataset",
    .inputs = "init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, finalize_func_other_args: "
              "Tfinalize_func_args",
    .attrs = "init_func: func; next_func: func; finalize_func: func; Tinit_func_args: list(type); Tnext_func_args: "
             "list(type); Tfinalize_func_args: list(type); " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = "What next_func gives of the state that init_func made, until it fails with OUT_OF_RANGE; then "
           "finalize_func is called.",
    .traits = TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
