// SPDX-License-Identifier: Apache-2.0
// StringToNumber: each text as a number.
#include "tenon/extras/text/number_text.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

template <class T>
struct ToNumber {
  void Run(RunContext c) const {
    const tenon_tensor_view& texts = c.input_view(0);
    T* const to = c.output<T>(0);
    c.ParallelFor(Count(texts), 40, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const std::string_view text = StringAt(texts, i);
        if (!ReadNumber(text, &to[i]))
          Fail(TENON_INVALID_ARGUMENT, "'", text.substr(0, 100), "', element ", i, ", is no number that a ",
               TypeName(c.output_view(0).dtype), " holds");
      }
    });
  }
};

template <class T, uint32_t kDtype>
constexpr tenon_kernel_registration kOf =
    Registration<ToNumber<T>>("StringToNumber", {.constraints = Constraints<Allowed<"out_type", kDtype>>::list});

}  // namespace

TENON_KERNEL(kStringToFloat) = kOf<float, TENON_DT_FLOAT>;
TENON_KERNEL(kStringToDouble) = kOf<double, TENON_DT_DOUBLE>;
TENON_KERNEL(kStringToInt32) = kOf<int32_t, TENON_DT_INT32>;
TENON_KERNEL(kStringToInt64) = kOf<int64_t, TENON_DT_INT64>;
TENON_KERNEL(kStringToUint32) = kOf<uint32_t, TENON_DT_UINT32>;
TENON_KERNEL(kStringToUint64) = kOf<uint64_t, TENON_DT_UINT64>;

TENON_OP(kStringToNumber) = DefineOp({
    .name = "StringToNumber",
    .inputs = "string_tensor: string",
    .outputs = "output: out_type",
    .attrs = "out_type: {float, double, int32, int64, uint32, uint64} = float",
    .doc = "Each text as a number, with white space around it or not.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
