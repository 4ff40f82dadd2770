// SPDX-License-Identifier: Apache-2.0
// DecodeJSONExample: Examples written as JSON become Examples in bytes.
#include "json_example.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct DecodeJson {
  void Run(RunContext c) const {
    const std::vector<std::string_view> texts = StringsOf(c.input_view(0));
    std::vector<std::string> messages(texts.size());
    CancelPoll poll(c);
    for (size_t i = 0; i < texts.size(); ++i) {
      poll(1000 + 20 * static_cast<int64_t>(texts[i].size()));
      std::string problem;
      if (!parse::ExampleOfJson(texts[i], &messages[i], &problem))
        Fail(TENON_INVALID_ARGUMENT, "Error while parsing JSON of json_examples, element ", i, ": ", problem);
    }
    SetStrings(c, 0, DimsOf(c.input_view(0)), messages);
  }
};

}  // namespace

TENON_KERNEL(kDecodeJsonExampleKernel) = Registration<DecodeJson>("DecodeJSONExample",
                                                                  {.dynamic_outputs = TENON_DYNAMIC_ALL});

TENON_OP(kDecodeJSONExample) = DefineOp({
    .name = "DecodeJSONExample",
    .inputs = "json_examples: string",
    .outputs = "binary_examples: string",
    .doc = "Examples that are written as JSON, as protocol buffers map them, in bytes.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
