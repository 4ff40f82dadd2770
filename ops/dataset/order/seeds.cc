// SPDX-License-Identifier: Apache-2.0
// Generators of seeds as resources: AnonymousSeedGenerator, AnonymousRandomSeedGenerator, DummySeedGenerator, and what
// deletes them.
#include "order/seeds.h"

#include "base/dataset.h"
#include "base/op.h"
#include "base/step_object.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kSeedsType = TENON_SPAN("tenon.SeedGenerator/1");

constexpr tenon_span kSeedsHandle = TENON_SPAN("seed_generator");

template <bool kReshuffle>
struct AnonymousSeeds {
  explicit AnonymousSeeds(CreateContext& c) : own(c) {}
  void Run(RunContext c) const {
    GiveObject(c, kSeedsHandle, kSeedsType, NewSeeds(own, IntOf(c, 0), IntOf(c, 1), kReshuffle ? BoolOf(c, 2) : true));
  }
  OwnSeeds own;
};

struct DummySeeds {
  void Run(RunContext c) const { GiveHandle(c, kSeedsHandle); }
};

struct Nothing {
  void Run(RunContext) const {}
};

}  // namespace

SeedsPtr NewSeeds(const OwnSeeds& own, int64_t seed, int64_t seed2, bool again) {
  if (seed == 0 && seed2 == 0) return std::make_shared<Seeds>(own.values[0], own.values[1], again);
  return std::make_shared<Seeds>(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2), again);
}

SeedsPtr SeedsOf(const RunContext& c, int32_t input, const OwnSeeds& own, int64_t seed, int64_t seed2, bool again) {
  SeedsPtr shared = ObjectIfThere<Seeds>(c, input, kSeedsType);
  return shared != nullptr ? shared : NewSeeds(own, seed, seed2, again);
}

TENON_KERNEL(kAnonymousSeedGeneratorKernel) = Registration<AnonymousSeeds<true>>("AnonymousSeedGenerator",
                                                                                 {.dynamic_outputs = 2});
TENON_KERNEL(kAnonymousRandomSeedGeneratorKernel) = Registration<AnonymousSeeds<false>>("AnonymousRandomSeedGenerator",
                                                                                        {.dynamic_outputs = 2});
TENON_KERNEL(kDummySeedGeneratorKernel) = Registration<DummySeeds>("DummySeedGenerator", {});
TENON_KERNEL(kDeleteSeedGeneratorKernel) = Registration<Nothing>("DeleteSeedGenerator", {});
TENON_KERNEL(kDeleteRandomSeedGeneratorKernel) = Registration<Nothing>("DeleteRandomSeedGenerator", {});

TENON_OP(kAnonymousSeedGenerator) = DefineOp({
    .name = "AnonymousSeedGenerator",
    .inputs = "seed: int64, seed2: int64, reshuffle: bool",
    .outputs = "handle: resource, deleter: variant",
    .constraints = "rank(seed) == 0; rank(seed2) == 0; rank(reshuffle) == 0",
    .doc = "Seeds for the passes over shuffled datasets, which share them.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kAnonymousRandomSeedGenerator) = DefineOp({
    .name = "AnonymousRandomSeedGenerator",
    .inputs = "seed: int64, seed2: int64",
    .outputs = "handle: resource, deleter: variant",
    .constraints = "rank(seed) == 0; rank(seed2) == 0",
    .doc = "Seeds for the passes over shuffled datasets, which share them.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AllScalars>,
});

TENON_OP(kDummySeedGenerator) = DefineOp({
    .name = "DummySeedGenerator",
    .outputs = "handle: resource",
    .doc = "No generator: a dataset that gets it uses its own seeds.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AllScalars>,
});

static constexpr std::string_view kDeleteDoc =
    "Does nothing: a generator of seeds ends with its step and the datasets that have it.";

TENON_OP(kDeleteSeedGenerator) = DefineOp({
    .name = "DeleteSeedGenerator",
    .inputs = "handle: resource, deleter: variant",
    .doc = kDeleteDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
});

TENON_OP(kDeleteRandomSeedGenerator) = DefineOp({
    .name = "DeleteRandomSeedGenerator",
    .inputs = "handle: resource, deleter: variant",
    .doc = kDeleteDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
});

}  // namespace tenon::ops
