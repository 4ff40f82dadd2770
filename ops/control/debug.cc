// SPDX-License-Identifier: Apache-2.0
// What TensorFlow's debugger puts into graphs: copies, identities that would publish what goes by, and how many
// elements are not finite.
//
// Nothing is published here: an identity with debug_urls, which are files and servers, is refused. Values never change,
// so that a copy is the value itself.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void RefuseUrls(NodeContext& c) {
  const std::vector<std::string_view> urls = c.Strings("debug_urls");
  if (!urls.empty())
    c.Fail(TENON_UNIMPLEMENTED, "what goes by cannot be published to '", urls[0],
           "': this node takes no debug_urls; leave them out, or fetch its output");
}

void DecomposeToIdentity(DecomposeContext& d) { d.SetOutput(0, d.Op("Identity", {d.input(0)})); }
void DecomposeDebugIdentity(DecomposeContext& d) {
  RefuseUrls(d);
  DecomposeToIdentity(d);
}

void CopyShape(ShapeContext& c) { c.PassOn(0, 0); }

consteval tenon_op_definition Copied(OpDefinition op) {
  op.inputs = "input: T";
  op.outputs = "output: T";
  op.shape = ShapeFunction<CopyShape>;
  return DefineOp(op);
}

// ---- Numbers of a tensor ----

using Judged = Numbers::And<bool>;

template <class T>
double AsDouble(T value) {
  return static_cast<double>(value);
}

struct Tally {
  int64_t count = 0, nan = 0, minus_infinite = 0, plus_infinite = 0, negative = 0, zero = 0, positive = 0;
};

// function(value) for each element as a double.
template <class Function>
void ForEachValue(const RunContext& c, const tenon_tensor_view& view, const Function& function) {
  CancelPoll poll(c);
  Judged::Dispatch(view.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0, count = Count(view); i < count; poll(2), ++i) function(AsDouble(Data<const T>(view)[i]));
  });
}

Tally TallyOf(const RunContext& c, const tenon_tensor_view& view) {
  Tally tally;
  tally.count = Count(view);
  ForEachValue(c, view, [&](double value) {
    if (std::isnan(value)) ++tally.nan;
    else if (std::isinf(value)) ++(value < 0 ? tally.minus_infinite : tally.plus_infinite);
    else if (value == 0) ++tally.zero;
    else ++(value < 0 ? tally.negative : tally.positive);
  });
  return tally;
}

struct NanCount {
  void Run(RunContext c) const { *c.output<int64_t>(0) = TallyOf(c, c.input_view(0)).nan; }
};

// TensorFlow's numbers of what is told about a tensor.
enum Mode : int64_t { kCurtHealth = 2, kConciseHealth = 3, kFullHealth = 4, kShape = 5, kReduceToThree = 8 };
constexpr size_t kShownDims = 6;

int64_t SlotsOf(int64_t mode) {
  switch (mode) {
    case kCurtHealth: return 2;
    case kConciseHealth: return 5;
    case kFullHealth: return 11;
    case kShape: return 4 + static_cast<int64_t>(kShownDims);
    case kReduceToThree: return 3;
    default: return 0;
  }
}

struct NumericSummary {
  explicit NumericSummary(CreateContext& c) : mode(c.Int("tensor_debug_mode")), id(c.Int("tensor_id")) {
    const int64_t most = c.Type("output_dtype") == TENON_DT_FLOAT ? int64_t{1} << 24 : int64_t{1} << 53;
    if (id > most)
      c.Invalid("tensor_id ", id, " is no number of output_dtype ", TypeName(c.Type("output_dtype")),
                ", which has all up to ", most);
  }
  void Run(RunContext c) const {
    const std::vector<double> slots = SlotsFor(c, c.input_view(0));
    Types<float, double>::Dispatch(c.output_view(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (size_t i = 0; i < slots.size(); ++i) c.output<T>(0)[i] = static_cast<T>(slots[i]);
    });
  }

 private:
  std::vector<double> SlotsFor(const RunContext& c, const tenon_tensor_view& view) const {
    const auto number = [](int64_t value) { return static_cast<double>(value); };
    const Dims dims = DimsOf(view);
    if (mode == kShape) {
      std::vector<double> slots = {number(id), number(view.dtype), number(static_cast<int64_t>(dims.size())),
                                   number(Count(view))};
      for (const int64_t dim : dims.last(std::min(dims.size(), kShownDims))) slots.push_back(number(dim));
      slots.resize(4 + kShownDims);
      return slots;
    }
    const Tally t = TallyOf(c, view);
    const int64_t odd = t.nan + t.minus_infinite + t.plus_infinite;
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    switch (mode) {
      case kCurtHealth: return {number(id), odd > 0 ? 1.0 : 0.0};
      case kConciseHealth:
        return {number(id), number(t.count), number(t.minus_infinite), number(t.plus_infinite), number(t.nan)};
      case kReduceToThree:
        return {t.minus_infinite > 0 ? -kInfinite : 0.0, t.plus_infinite > 0 ? kInfinite : 0.0,
                t.nan > 0 ? std::numeric_limits<double>::quiet_NaN() : 0.0};
      // The second is the device's number, which none has.
      default:
        return {number(id),
                -1,
                number(view.dtype),
                number(static_cast<int64_t>(dims.size())),
                number(t.count),
                number(t.minus_infinite),
                number(t.plus_infinite),
                number(t.nan),
                number(t.negative),
                number(t.zero),
                number(t.positive)};
    }
  }
  int64_t mode, id;
};

constexpr Traits kPlain = {};

}  // namespace

TENON_KERNEL(kDebugNanCountKernel) = Registration<NanCount>("DebugNanCount", kPlain);
TENON_KERNEL(kDebugNumericSummaryV2Kernel) = Registration<NumericSummary>("DebugNumericSummaryV2", kPlain);

TENON_OP(kCopy) = Copied({
    .name = "Copy",
    .attrs = "T: type; tensor_name: string = ''; debug_ops_spec: list(string) = []",
    .doc = "The input, unchanged. tensor_name and debug_ops_spec are for people.",
    .traits = TENON_OP_UNINITIALIZED,
    .decompose = DecomposeFunction<DecomposeToIdentity>,
});

TENON_OP(kCopyHost) = Copied({
    .name = "CopyHost",
    .attrs = "T: type; tensor_name: string = ''; debug_ops_spec: list(string) = []",
    .doc = "The input, unchanged. tensor_name and debug_ops_spec are for people.",
    .traits = TENON_OP_UNINITIALIZED,
    .decompose = DecomposeFunction<DecomposeToIdentity>,
});

TENON_OP(kDebugIdentity) = Copied({
    .name = "DebugIdentity",
    .attrs = "T: type; device_name: string = ''; tensor_name: string = ''; debug_urls: list(string) = []; gated_grpc: "
             "bool = false",
    .doc = "The input, unchanged. It publishes nothing: with debug_urls it is refused.",
    .traits = TENON_OP_UNINITIALIZED,
    .decompose = DecomposeFunction<DecomposeDebugIdentity>,
});

TENON_OP(kDebugIdentityV2) = Copied({
    .name = "DebugIdentityV2",
    .attrs = "T: type; tfdbg_context_id: string = ''; op_name: string = ''; output_slot: int = -1; tensor_debug_mode: "
             "int = -1; debug_urls: list(string) = []; "
             "circular_buffer_size: int = 1000; tfdbg_run_id: string = ''",
    .doc = "The input, unchanged. It publishes nothing: with debug_urls it is refused.",
    .traits = TENON_OP_STATEFUL,
    .gradient = GradientFunction<PassOnGradient>,
    .decompose = DecomposeFunction<DecomposeDebugIdentity>,
});

TENON_OP(kDebugIdentityV3) = Copied({
    .name = "DebugIdentityV3",
    .attrs = "T: type; device_name: string = ''; tensor_name: string = ''; io_of_node: string = ''; is_input: bool = "
             "false; io_index: int = -1; debug_urls: list(string) = []; "
             "gated_grpc: bool = false",
    .doc = "The input, unchanged. It publishes nothing: with debug_urls it is refused.",
    .traits = TENON_OP_STATEFUL | TENON_OP_UNINITIALIZED,
    .decompose = DecomposeFunction<DecomposeDebugIdentity>,
});

TENON_OP(kDeepCopy) = DefineOp({
    .name = "DeepCopy",
    .inputs = "x: T",
    .outputs = "y: T",
    .attrs = "T: type",
    .doc = "The input, unchanged: no op changes a value, so that a copy is the value itself.",
    .properties = "view(x)",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<CopyShape>,
    .decompose = DecomposeFunction<DecomposeToIdentity>,
});

static void NanCountShape(ShapeContext& c) {
  RefuseUrls(c);
  c.SetOutput(0, {1});
}

TENON_OP(kDebugNanCount) = DefineOp({
    .name = "DebugNanCount",
    .inputs = "input: T",
    .outputs = "output: int64",
    .attrs = "T: type; device_name: string = ''; tensor_name: string = ''; debug_urls: list(string) = []; gated_grpc: "
             "bool = false",
    .doc = "How many elements are no number, as [1]. It publishes nothing: with debug_urls it is refused.",
    .traits = TENON_OP_UNINITIALIZED,
    .shape = ShapeFunction<NanCountShape>,
});

static void NumericSummaryShape(ShapeContext& c) {
  const int64_t mode = c.Int("tensor_debug_mode"), slots = SlotsOf(mode);
  if (c.ok() && slots == 0)
    return c.Fail(TENON_UNIMPLEMENTED, "Unimplemented tensor debug mode: ", mode, "; there are 2, 3, 4, 5 and 8");
  c.SetOutput(0, {slots});
}

TENON_OP(kDebugNumericSummaryV2) = DefineOp({
    .name = "DebugNumericSummaryV2",
    .inputs = "input: T",
    .outputs = "output: output_dtype",
    .attrs = "output_dtype: {float, double} = float; T: type; tensor_debug_mode: int = -1; tensor_id: int = -1",
    .doc = "By tensor_debug_mode, 2: tensor_id, and 1 when something is not finite; 3: tensor_id, and how many "
           "elements there are, -inf, inf, no number; 4: tensor_id, -1, the dtype's "
           "number, the rank, the number of elements, -inf, inf, no number, negative, 0, positive; 5: tensor_id, the "
           "dtype's number, the rank, the number of elements, the last 6 dims; 8: "
           "-inf, inf and NaN, each 0 where there is none.",
    .shape = ShapeFunction<NumericSummaryShape>,
});

}  // namespace tenon::ops
