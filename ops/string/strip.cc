// SPDX-License-Identifier: Apache-2.0
// StringStrip.
#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Strip {
  void Run(RunContext c) const {
    constexpr std::string_view kSpaces = " \t\n\v\f\r";
    Texts texts(c);
    for (int64_t i = 0, count = Count(c.input_view(0)); i < count; ++i) {
      std::string_view text = StringAt(c.input_view(0), i);
      const size_t first = text.find_first_not_of(kSpaces);
      texts.Add(first == std::string_view::npos ? std::string_view()
                                                : text.substr(first, text.find_last_not_of(kSpaces) - first + 1));
    }
    texts.Give(0, DimsOf(c.input_view(0)));
  }
};

}  // namespace

TENON_KERNEL(kStringStripKernel) = Registration<Strip>("StringStrip", {.dynamic_outputs = 1});

TENON_OP(kStringStrip) = DefineOp({
    .name = "StringStrip",
    .inputs = "input: string",
    .outputs = "output: string",
    .doc = "Each text without the spaces at its ends.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
