// SPDX-License-Identifier: Apache-2.0
// Sampled classes of losses over many classes: the sampler, and which samples are true classes by accident.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void SamplerShape(ShapeContext& c) {
  const Shape classes = c.WithRank(0, 2);
  const int64_t true_count = c.Int("num_true"), sampled = c.Int("num_sampled");
  c.Merge(classes[1], true_count, "the columns of true_classes and num_true");
  if (c.Bool("unique") && sampled > c.Int("range_max"))
    return c.Invalid("Sampler's range is too small: ", sampled, " different classes of ", c.Int("range_max"));
  c.SetOutput(0, {sampled});
  c.SetOutput(1, {classes[0], true_count});
  c.SetOutput(2, {sampled});
}

static consteval tenon_op_definition Sampler(OpDefinition op,
                                             tenon_shape_function shape = ShapeFunction<SamplerShape>) {
  op.properties = "draws";
  op.inputs = "true_classes: int64";
  op.outputs = "sampled_candidates: int64, true_expected_count: float, sampled_expected_count: float";
  if (op.attrs.empty())
    op.attrs =
        "num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0";
  op.constraints = "rank(true_classes) == 2; dim(true_classes, 1) == num_true";
  op.traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT;
  op.shape = shape;
  return DefineOp(op);
}

TENON_OP(kLogUniformCandidateSampler) =
    Sampler({.name = "LogUniformCandidateSampler",
             .doc = "Classes of [0, range_max), low ones more often (Zipf), and how often each is to be expected.",
             .properties = "draws"});
TENON_OP(kUniformCandidateSampler) =
    Sampler({.name = "UniformCandidateSampler",
             .doc = "Classes of [0, range_max), all equally often, and how often each is to be expected.",
             .properties = "draws"});
TENON_OP(kLearnedUnigramCandidateSampler) = Sampler({
    .name = "LearnedUnigramCandidateSampler",
    .doc = "Classes of [0, range_max), each the more often the more often it was a true class in earlier runs of the "
           "node, and how often each is to be expected.",
});
TENON_OP(kThreadUnsafeUnigramCandidateSampler) = Sampler({.name = "ThreadUnsafeUnigramCandidateSampler",
                                                          .doc = "LearnedUnigramCandidateSampler, and as safe.",
                                                          .properties = "draws"});
TENON_OP(kFixedUnigramCandidateSampler) = Sampler({
    .name = "FixedUnigramCandidateSampler",
    .attrs = "num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; vocab_file: string = ''; "
             "distortion: float = 1; num_reserved_ids: int = 0; "
             "num_shards: int >= 1 = 1; shard: int >= 0 = 0; unigrams: list(float) = []; seed: int = 0; seed2: int = 0",
    .doc =
        "Classes of [0, range_max), each as often as its weight of unigrams, to the power of distortion, says, and how "
        "often each is to be expected. The first num_reserved_ids do not "
        "come; of num_shards shards the classes are one. vocab_file is refused: a graph names no files but by inputs.",
});

static void AllShape(ShapeContext& c) {
  const Shape classes = c.WithRank(0, 2);
  const int64_t true_count = c.Int("num_true"), sampled = c.Int("num_sampled");
  c.Merge(classes[1], true_count, "the columns of true_classes and num_true");
  c.SetOutput(0, {sampled});
  c.SetOutput(1, {classes[0], true_count});
  c.SetOutput(2, {sampled});
}

TENON_OP(kAllCandidateSampler) = Sampler({
    .name = "AllCandidateSampler",
    .attrs = "num_true: int >= 1; num_sampled: int >= 1; unique: bool; seed: int = 0; seed2: int = 0",
    .doc = "All num_sampled classes, each once.",
}, ShapeFunction<AllShape>);

static void HitsShape(ShapeContext& c) {
  const Shape classes = c.WithRank(0, 2);
  c.Merge(classes[1], c.Int("num_true"), "the columns of true_classes and num_true");
  c.WithRank(1, 1);
  for (int i = 0; i < 3; ++i) c.SetOutput(i, {kUnknown});
}

TENON_OP(kComputeAccidentalHits) = DefineOp({
    .name = "ComputeAccidentalHits",
    .inputs = "true_classes: int64, sampled_candidates: int64",
    .outputs = "indices: int32, ids: int64, weights: float",
    .attrs = "num_true: int; seed: int = 0; seed2: int = 0",
    .constraints = "rank(true_classes) == 2; dim(true_classes, 1) == num_true; rank(sampled_candidates) == 1",
    .doc = "For each sampled class that is one of a row's true classes: the row, the place among the samples, and the "
           "lowest weight.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HitsShape>,
});

}  // namespace tenon::ops
