// SPDX-License-Identifier: Apache-2.0
// StringToHashBucketStrong: SipHash-2-4 of each string with a key, which nobody who does not know it can steer.
// StringToHashBucket: MurmurHash64A, which old graphs have.
#include "tenon/extras/kernel/sip_hash.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

uint64_t Murmur(std::string_view text) {
  constexpr uint64_t kSeed = 0xDECAFCAFFE, kFactor = 0xc6a4a7935bd1e995;
  const auto fold = [](uint64_t value) { return value ^ value >> 47; };
  uint64_t hash = kSeed ^ text.size() * kFactor;
  for (; text.size() >= 8; text.remove_prefix(8))
    hash = (hash ^ fold(WordAt(text.data()) * kFactor) * kFactor) * kFactor;
  if (!text.empty()) hash = (hash ^ WordAt(text.data(), text.size())) * kFactor;
  return fold(fold(hash) * kFactor);
}

template <class Hash>
void GiveBuckets(const RunContext& c, uint64_t buckets, const Hash& hash) {
  CancelPoll poll(c);
  for (int64_t i = 0, count = Count(c.input_view(0)); i < count; ++i) {
    const std::string_view text = StringAt(c.input_view(0), i);
    c.output<int64_t>(0)[i] = static_cast<int64_t>(hash(text) % buckets);
    poll(static_cast<int64_t>(text.size() / 2) + 5);
  }
}

struct StrongBucket {
  explicit StrongBucket(CreateContext& c) : buckets(static_cast<uint64_t>(c.Int("num_buckets"))) {
    const std::vector<int64_t> key = c.Ints("key");
    if (key.size() != 2) c.Invalid("Key must have 2 elements; it has ", key.size());
    if (key.size() != 2) return;
    first = static_cast<uint64_t>(key[0]);
    second = static_cast<uint64_t>(key[1]);
  }
  void Run(RunContext c) const {
    GiveBuckets(c, buckets, [&](std::string_view text) { return SipHash(first, second).Of(text); });
  }
  uint64_t buckets, first = 0, second = 0;
};

struct OldBucket {
  explicit OldBucket(CreateContext& c) : buckets(static_cast<uint64_t>(c.Int("num_buckets"))) {}
  void Run(RunContext c) const { GiveBuckets(c, buckets, Murmur); }
  uint64_t buckets;
};

}  // namespace

TENON_KERNEL(kStringToHashBucketStrongKernel) = Registration<StrongBucket>("StringToHashBucketStrong", {});
TENON_KERNEL(kStringToHashBucketKernel) = Registration<OldBucket>("StringToHashBucket", {});

TENON_OP(kStringToHashBucketStrong) = DefineOp({
    .name = "StringToHashBucketStrong",
    .inputs = "input: string",
    .outputs = "output: int64",
    .attrs = "num_buckets: int >= 1; key: list(int)",
    .doc =
        "A number in [0, num_buckets) for each string, which nobody who does not know the key, two numbers, can steer.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kStringToHashBucket) = DefineOp({
    .name = "StringToHashBucket",
    .inputs = "string_tensor: string",
    .outputs = "output: int64",
    .attrs = "num_buckets: int >= 1",
    .doc = "A number in [0, num_buckets) for each string, of an older hash; new graphs have StringToHashBucketFast.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
