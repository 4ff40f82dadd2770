// SPDX-License-Identifier: Apache-2.0
// StaticRegexFullMatch: which strings a pattern matches from end to end. Patterns are RE2's, over UTF-8.
#include <re2/re2.h>

#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct FullMatch {
  explicit FullMatch(CreateContext& c) : pattern(re2::StringPiece(c.String("pattern").data(), c.String("pattern").size()), re2::RE2::Quiet) {
    if (!pattern.ok()) c.Invalid("Invalid pattern: ", c.String("pattern"), ", error: ", pattern.error());
  }
  void Run(RunContext c) const {
    const tenon_tensor_view& input = c.input_view(0);
    bool* matches = c.output<bool>(0);
    for (int64_t i = 0; i < Count(input); ++i) {
      if (i % kBetweenPolls == 0 && c.cancelled()) Fail(TENON_CANCELLED, "the step was cancelled while it matched strings");
      const std::string_view text = StringAt(input, i);
      matches[i] = re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), pattern);
    }
  }
  static constexpr int64_t kBetweenPolls = 1024;
  re2::RE2 pattern;
};

}  // namespace

TENON_KERNEL(kStaticRegexFullMatchKernel) = Registration<FullMatch>("StaticRegexFullMatch", {});

TENON_OP(kStaticRegexFullMatch) = DefineOp({
    .name = "StaticRegexFullMatch",
    .inputs = "input: string",
    .outputs = "output: bool",
    .attrs = "pattern: string",
    .doc = "Whether the pattern, a regular expression of RE2, matches the whole string.",
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
