// SPDX-License-Identifier: Apache-2.0
// Generators of seeds as resources: AnonymousSeedGenerator, AnonymousRandomSeedGenerator, DummySeedGenerator, and what deletes them.
#include "seeds.h"

#include "dataset.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kSeedsType = TENON_SPAN("tenon.SeedGenerator/1");

tenon_resource* NewHandle(const RunContext& c) {
  tenon_resource* handle = nullptr;
  Check(c.services().step_resource(c.frame(), TENON_SPAN("seed_generator"), &handle));
  return handle;
}

// The generator's datasets share it, and so keep it as long as they need it.
template <bool kReshuffle>
struct AnonymousSeeds {
  explicit AnonymousSeeds(CreateContext& c) : own(c) {}
  void Run(RunContext c) const {
    tenon_resource* handle = NewHandle(c);
    const bool again = kReshuffle ? BoolOf(c, 2) : true;
    ObjectOf<SeedsPtr>(c, handle, kSeedsType, [&] { return std::make_unique<SeedsPtr>(NewSeeds(own, IntOf(c, 0), IntOf(c, 1), again)); });
    *c.output<tenon_resource*>(0) = handle;
    c.AllocOutput(1, {});  // an empty variant: the step ends it
  }
  OwnSeeds own;
};

struct DummySeeds {
  void Run(RunContext c) const { *c.output<tenon_resource*>(0) = NewHandle(c); }
};

struct Nothing {
  void Run(RunContext) const {}
};

void HandleAndDeleter(ShapeContext& c) {
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, Shape::Scalar());
}

}  // namespace

SeedsPtr NewSeeds(const OwnSeeds& own, int64_t seed, int64_t seed2, bool again) {
  if (seed == 0 && seed2 == 0) return std::make_shared<Seeds>(own.values[0], own.values[1], again);
  return std::make_shared<Seeds>(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2), again);
}

SeedsPtr SeedsOf(const RunContext& c, int32_t input, const OwnSeeds& own, int64_t seed, int64_t seed2, bool again) {
  void* object = nullptr;
  if (tenon_status* status = c.services().resource_object(c.frame(), c.resource(input), kSeedsType, nullptr, nullptr, nullptr, &object)) {
    if (tenon_plugin_host->status_code(status) != TENON_NOT_FOUND) throw KernelError(status);
    tenon_plugin_host->status_release(status);
    return NewSeeds(own, seed, seed2, again);
  }
  return *static_cast<SeedsPtr*>(object);
}

TENON_KERNEL(kAnonymousSeedGeneratorKernel) = Registration<AnonymousSeeds<true>>("AnonymousSeedGenerator", {.dynamic_outputs = 2});
TENON_KERNEL(kAnonymousRandomSeedGeneratorKernel) = Registration<AnonymousSeeds<false>>("AnonymousRandomSeedGenerator", {.dynamic_outputs = 2});
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
    .shape = ShapeFunction<HandleAndDeleter>,
});

TENON_OP(kAnonymousRandomSeedGenerator) = DefineOp({
    .name = "AnonymousRandomSeedGenerator",
    .inputs = "seed: int64, seed2: int64",
    .outputs = "handle: resource, deleter: variant",
    .constraints = "rank(seed) == 0; rank(seed2) == 0",
    .doc = "Seeds for the passes over shuffled datasets, which share them.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HandleAndDeleter>,
});

TENON_OP(kDummySeedGenerator) = DefineOp({
    .name = "DummySeedGenerator",
    .outputs = "handle: resource",
    .doc = "No generator: a dataset that gets it uses its own seeds.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HandleAndDeleter>,
});

static constexpr std::string_view kDeleteDoc = "Does nothing: a generator of seeds ends with its step and the datasets that have it.";

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
