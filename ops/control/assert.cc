// SPDX-License-Identifier: Apache-2.0
// Assert and EnsureShape: the step fails when something does not hold.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// The shortest of two precisions that gives the number back.
std::string TextOf(double value, int digits, int exact_digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  const double back = digits < 10 ? static_cast<double>(std::strtof(text, nullptr)) : std::strtod(text, nullptr);
  if (back != value && value == value) std::snprintf(text, sizeof(text), "%.*g", exact_digits, value);
  return text;
}

// A tensor's first elements, as "[0 1 2...]" for each vector in it.
class Summary {
 public:
  Summary(const tenon_tensor_view& view, int64_t limit) : view_(view), dims_(DimsOf(view)), count_(Count(view)) {
    limit_ = limit < 0 ? count_ : limit;
    if (dims_.empty()) {
      if (limit_ > 0) AppendElement();
    } else if (count_ > 0) {
      AppendDim(0);
    }
    if (count_ > limit_) text_ += "...";
  }
  const std::string& text() const { return text_; }

 private:
  void AppendDim(size_t dim) {
    if (dim + 1 == dims_.size()) return AppendVector(dim);
    for (int64_t i = 0; i < dims_[dim] && at_ < limit_; ++i) {
      text_ += '[';
      AppendDim(dim + 1);
      text_ += ']';
    }
  }
  void AppendVector(size_t dim) {
    for (int64_t i = 0; i < dims_[dim]; ++i) {
      if (at_ >= limit_) {
        if (dim != 0) text_ += "...";
        return;
      }
      if (i != 0) text_ += ' ';
      AppendElement();
    }
  }
  void AppendElement() {
    const int64_t i = at_++;
    if (view_.dtype == TENON_DT_STRING) {
      text_ += StringAt(view_, i);
      return;
    }
    if (view_.dtype == TENON_DT_BOOL) {
      text_ += Data<const bool>(view_)[i] ? '1' : '0';
      return;
    }
    if (view_.dtype == TENON_DT_UINT64) {
      text_ += std::to_string(Data<const uint64_t>(view_)[i]);
      return;
    }
    if (view_.dtype == TENON_DT_INT64) {
      text_ += std::to_string(Data<const int64_t>(view_)[i]);
      return;
    }
    double value = 0;
    const char* data = Data<const char>(view_) + static_cast<uint64_t>(i) * ElementSize(view_.dtype);
    if (!DecodeElement(data, view_.dtype, &value)) {
      text_ += '?';
    } else if (view_.dtype == TENON_DT_DOUBLE) {
      text_ += TextOf(value, 15, 17);
    } else {
      text_ += TextOf(value, IsReal(view_.dtype) ? 6 : 10, IsReal(view_.dtype) ? 9 : 10);
    }
  }

  const tenon_tensor_view& view_;
  Dims dims_;
  int64_t count_, limit_ = 0, at_ = 0;
  std::string text_;
};

struct AssertHolds {
  explicit AssertHolds(CreateContext& c) : summarize(c.Int("summarize")) {}
  void Run(RunContext c) const {
    if (*c.input<bool>(0)) return;
    std::string text = "assertion failed:";
    for (int32_t i = 1; i < c.input_count(); ++i) text += Concat(" [", Summary(c.input_view(i), summarize).text(), "]");
    sdk::Fail(TENON_INVALID_ARGUMENT, text);
  }
  int64_t summarize;
};

}  // namespace

TENON_KERNEL(kAssertKernel) = Registration<AssertHolds>("Assert", {});

static void AssertShape(ShapeContext& c) { c.WithRank(0, 0); }

TENON_OP(kAssert) = DefineOp({
    .name = "Assert",
    .inputs = "condition: bool, data: T",
    .attrs = "T: list(type) >= 1; summarize: int = 3",
    .constraints = "rank(condition) == 0",
    .doc = "Fails, and says the first `summarize` elements of each of data, when condition is false.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AssertShape>,
});

// Where shapes are unknown before the step this runs again in it, so that the kernel need not look.
static void EnsureShapeShape(ShapeContext& c) {
  const Shape input = c.Input(0), wanted = c.ShapeAttr("shape");
  bool fits = !wanted.known_rank() || !input.known_rank() || wanted.rank() == input.rank();
  for (int i = 0; fits && wanted.known_rank() && i < input.rank(); ++i) {
    fits = wanted[i] < 0 || input[i] < 0 || wanted[i] == input[i];
  }
  if (!fits) return c.Invalid("Shape of tensor ", input, " is not compatible with expected shape ", wanted);
  c.SetOutput(0, c.Merge(input, wanted, "the shape and the expected one"));
}

TENON_OP(kEnsureShape) = DefineOp({
    .name = "EnsureShape",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "shape: shape; T: type",
    .doc = "The input, whose shape must be the given one where that is known.",
    .properties = "view(input)",
    .shape = ShapeFunction<EnsureShapeShape>,
    .gradient = GradientFunction<PassOnGradient>,
});

}  // namespace tenon::ops
