// SPDX-License-Identifier: Apache-2.0
// ShardedFilename and StringJoin.
#include <cstdio>

#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct MakeShardedFilename {
  void Run(RunContext c) const {
    char numbers[64];
    std::snprintf(numbers, sizeof(numbers), "-%05d-of-%05d", static_cast<int>(*c.input<int32_t>(1)),
                  static_cast<int>(*c.input<int32_t>(2)));
    if (Count(c.input_view(0)) != 1) Fail(TENON_INVALID_ARGUMENT, "basename must be one string");
    const std::vector<std::string> name = {std::string(StringAt(c.input_view(0), 0)) + numbers};
    SetStrings(c, 0, {}, name);
  }
};

// Scalars go with every element of the others.
struct Join {
  explicit Join(CreateContext& c) : separator(c.String("separator")) {}
  void Run(RunContext c) const {
    Dims dims;
    for (int32_t i = 0; i < c.input_count(); ++i) {
      const Dims input = DimsOf(c.input_view(i));
      if (input.empty()) continue;
      if (!dims.empty() && !std::equal(dims.begin(), dims.end(), input.begin(), input.end())) {
        Fail(TENON_INVALID_ARGUMENT, "strings of shape ", dims, " and of shape ", input, " cannot be joined");
      }
      dims = input;
    }
    std::vector<std::string> out(static_cast<size_t>(Count(dims)));
    for (size_t element = 0; element < out.size(); ++element) {
      if (element % kBetweenPolls == 0 && c.cancelled())
        Fail(TENON_CANCELLED, "the step was cancelled while it joined strings");
      for (int32_t i = 0; i < c.input_count(); ++i) {
        if (i != 0) out[element] += separator;
        const bool scalar = DimsOf(c.input_view(i)).empty();
        out[element] += StringAt(c.input_view(i), scalar ? 0 : static_cast<int64_t>(element));
      }
    }
    SetStrings(c, 0, dims, out);
  }
  static constexpr size_t kBetweenPolls = 1024;
  std::string separator;
};

void JoinShape(ShapeContext& c) {
  Shape out = Shape::Scalar();
  for (int i = 0; i < c.input_count(); ++i) {
    const Shape input = c.Input(i);
    if (!input.known_rank()) return;  // perhaps a scalar
    if (input.rank() != 0) out = out.rank() == 0 ? input : c.Merge(out, input, "the shapes of the strings");
  }
  c.SetOutput(0, out);
}

void ShardedFilenameShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.WithRank(i, 0);
  c.SetOutput(0, Shape::Scalar());
}

}  // namespace

TENON_KERNEL(kShardedFilenameKernel) =
    Registration<MakeShardedFilename>("ShardedFilename", {.dynamic_outputs = 1});
TENON_KERNEL(kStringJoinKernel) =
    Registration<Join>("StringJoin", {.dynamic_outputs = 1});

TENON_OP(kShardedFilename) = DefineOp({
    .name = "ShardedFilename",
    .inputs = "basename: string, shard: int32, num_shards: int32",
    .outputs = "filename: string",
    .constraints = "rank(basename) == 0; rank(shard) == 0; rank(num_shards) == 0",
    .doc = "The name of one of num_shards parts: basename-00001-of-00003.",
    .shape = ShapeFunction<ShardedFilenameShape>,
});

TENON_OP(kStringJoin) = DefineOp({
    .name = "StringJoin",
    .inputs = "inputs: N * string",
    .outputs = "output: string",
    .attrs = "N: int >= 0; separator: string = ''",
    .doc = "The strings one after the other, with the separator between them, element by element.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<JoinShape>,
});

}  // namespace tenon::ops
