// SPDX-License-Identifier: Apache-2.0
// StringToHashBucketFast: the fingerprint of each string, modulo the number of buckets.
#include "tenon/extras/kernel/fingerprint.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct HashBucket {
  explicit HashBucket(CreateContext& c) : buckets(static_cast<uint64_t>(c.Int("num_buckets"))) {}
  void Run(RunContext c) const {
    int64_t* out = c.output<int64_t>(0);
    const tenon_tensor_view& texts = c.input_view(0);
    const uint64_t many = buckets;
    for (int64_t i = 0, count = Count(texts); i < count; ++i)
      out[i] = static_cast<int64_t>(Fingerprint(StringAt(texts, i)) % many);
  }
  uint64_t buckets;
};

void HashBucketShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }

}  // namespace

TENON_KERNEL(kStringToHashBucketFastKernel) = Registration<HashBucket>("StringToHashBucketFast", {});

TENON_OP(kStringToHashBucketFast) = DefineOp({
    .name = "StringToHashBucketFast",
    .inputs = "input: string",
    .outputs = "output: int64",
    .attrs = "num_buckets: int >= 1",
    .doc = "A number in [0, num_buckets) for each string, the same in every program.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HashBucketShape>,
});

}  // namespace tenon::ops
