// SPDX-License-Identifier: Apache-2.0
// Datasets that say how others are to be run: OptionsDataset, ModelDataset, OptimizeDataset and the like. They are the
// datasets that they take: what they ask for is TensorFlow's own (rewrites of its pipelines, its thread pools, its
// statistics), and changes no element. The handles of pools and statistics stand for nothing; what would read
// statistics is refused (refused/datasets.cc).
#include "base/dataset.h"
#include "base/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Same {
  void Run(RunContext c) const { SetDataset(c, 0, DatasetOf(c, 0)); }
};

constexpr tenon_span kPoolType = TENON_SPAN("thread_pool"), kStatisticsType = TENON_SPAN("stats_aggregator");

template <const tenon_span& kType>
struct Handle {
  explicit Handle(CreateContext& c) {
    const std::string_view container = c.String("container"), shared = c.String("shared_name");
    const std::string_view name = shared.empty() ? c.name() : shared;
    if (c.ok())
      c.Check(c.args().services->resource_handle(c.args().context, ToSpan(container), ToSpan(name), kType, 0, &handle));
  }
  void Run(RunContext c) const { *c.output<tenon_resource*>(0) = handle; }
  tenon_resource* handle = nullptr;
};

}  // namespace

static constexpr std::string_view kPassThroughDoc = "The dataset itself.";

TENON_KERNEL(kOptionsDatasetKernel) = Registration<Same>("OptionsDataset", kMakesDataset);
TENON_OP(kOptionsDataset) = DefineDataset({
    .name = "OptionsDataset",
    .inputs = "input_dataset: variant",
    .attrs = "serialized_options: string; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = kPassThroughDoc,
});

TENON_KERNEL(kModelDatasetKernel) = Registration<Same>("ModelDataset", kMakesDataset);
TENON_OP(kModelDataset) = DefineDataset({
    .name = "ModelDataset",
    .inputs = "input_dataset: variant",
    .attrs = "algorithm: int = 0; cpu_budget: int = 0; ram_budget: int = 0; " TENON_DATASET_TYPES,
    .doc = kPassThroughDoc,
});

TENON_KERNEL(kOptimizeDatasetKernel) = Registration<Same>("OptimizeDataset", kMakesDataset);
TENON_OP(kOptimizeDataset) = DefineDataset({
    .name = "OptimizeDataset",
    .inputs = "input_dataset: variant, optimizations: string",
    .attrs = TENON_DATASET_TYPES "; optimization_configs: list(string) = []",
    .doc = kPassThroughDoc,
});

TENON_KERNEL(kOptimizeDatasetV2Kernel) = Registration<Same>("OptimizeDatasetV2", kMakesDataset);
TENON_OP(kOptimizeDatasetV2) = DefineDataset({
    .name = "OptimizeDatasetV2",
    .inputs = "input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string, "
              "optimizations_default: string",
    .attrs = TENON_DATASET_TYPES "; optimization_configs: list(string) = []",
    .doc = kPassThroughDoc,
});

TENON_KERNEL(kFinalizeDatasetKernel) = Registration<Same>("FinalizeDataset", kMakesDataset);
TENON_OP(kFinalizeDataset) = DefineDataset({
    .name = "FinalizeDataset",
    .inputs = "input_dataset: variant",
    .attrs = "has_captured_ref: bool = false; " TENON_DATASET_TYPES,
    .doc = kPassThroughDoc,
});

TENON_KERNEL(kAssertNextDatasetKernel) = Registration<Same>("AssertNextDataset", kMakesDataset);
TENON_OP(kAssertNextDataset) = DefineDataset({.name = "AssertNextDataset",
                                              .inputs = "input_dataset: variant, transformations: string",
                                              .attrs = TENON_DATASET_TYPES,
                                              .doc = kPassThroughDoc});
TENON_KERNEL(kRewriteDatasetKernel) = Registration<Same>("RewriteDataset", kMakesDataset);
TENON_OP(kRewriteDataset) = DefineDataset({.name = "RewriteDataset",
                                           .inputs = "input_dataset: variant, rewrite_name: string",
                                           .attrs = TENON_DATASET_TYPES,
                                           .doc = kPassThroughDoc});
TENON_KERNEL(kMaxIntraOpParallelismDatasetKernel) = Registration<Same>("MaxIntraOpParallelismDataset", kMakesDataset);
TENON_OP(kMaxIntraOpParallelismDataset) =
    DefineDataset({.name = "MaxIntraOpParallelismDataset",
                   .inputs = "input_dataset: variant, max_intra_op_parallelism: int64",
                   .attrs = TENON_DATASET_TYPES,
                   .doc = kPassThroughDoc});
TENON_KERNEL(kPrivateThreadPoolDatasetKernel) = Registration<Same>("PrivateThreadPoolDataset", kMakesDataset);
TENON_OP(kPrivateThreadPoolDataset) = DefineDataset({.name = "PrivateThreadPoolDataset",
                                                     .inputs = "input_dataset: variant, num_threads: int64",
                                                     .attrs = TENON_DATASET_TYPES,
                                                     .doc = kPassThroughDoc});
TENON_KERNEL(kNonSerializableDatasetKernel) = Registration<Same>("NonSerializableDataset", kMakesDataset);
TENON_OP(kNonSerializableDataset) = DefineDataset({.name = "NonSerializableDataset",
                                                   .inputs = "input_dataset: variant",
                                                   .attrs = TENON_DATASET_TYPES,
                                                   .doc = kPassThroughDoc});
TENON_KERNEL(kLatencyStatsDatasetKernel) = Registration<Same>("LatencyStatsDataset", kMakesDataset);
TENON_OP(kLatencyStatsDataset) = DefineDataset({.name = "LatencyStatsDataset",
                                                .inputs = "input_dataset: variant, tag: string",
                                                .attrs = TENON_DATASET_TYPES,
                                                .doc = kPassThroughDoc});
TENON_KERNEL(kBytesProducedStatsDatasetKernel) = Registration<Same>("BytesProducedStatsDataset", kMakesDataset);
TENON_OP(kBytesProducedStatsDataset) = DefineDataset({.name = "BytesProducedStatsDataset",
                                                      .inputs = "input_dataset: variant, tag: string",
                                                      .attrs = TENON_DATASET_TYPES,
                                                      .doc = kPassThroughDoc});

TENON_KERNEL(kAssertPrevDatasetKernel) = Registration<Same>("AssertPrevDataset", kMakesDataset);
TENON_OP(kAssertPrevDataset) = DefineDataset({.name = "AssertPrevDataset",
                                              .inputs = "input_dataset: variant, transformations: string",
                                              .attrs = TENON_DATASET_TYPES,
                                              .doc = kPassThroughDoc});

// Under their older names.
TENON_KERNEL(kExperimentalAssertNextDatasetKernel) = Registration<Same>("ExperimentalAssertNextDataset", kMakesDataset);
TENON_OP(kExperimentalAssertNextDataset) = DefineDataset({.name = "ExperimentalAssertNextDataset",
                                                          .inputs = "input_dataset: variant, transformations: string",
                                                          .attrs = TENON_DATASET_TYPES,
                                                          .doc = kPassThroughDoc});
TENON_KERNEL(kExperimentalMaxIntraOpParallelismDatasetKernel) =
    Registration<Same>("ExperimentalMaxIntraOpParallelismDataset", kMakesDataset);
TENON_OP(kExperimentalMaxIntraOpParallelismDataset) =
    DefineDataset({.name = "ExperimentalMaxIntraOpParallelismDataset",
                   .inputs = "input_dataset: variant, max_intra_op_parallelism: int64",
                   .attrs = TENON_DATASET_TYPES,
                   .doc = kPassThroughDoc});
TENON_KERNEL(kExperimentalPrivateThreadPoolDatasetKernel) = Registration<Same>("ExperimentalPrivateThreadPoolDataset",
                                                                               kMakesDataset);
TENON_OP(kExperimentalPrivateThreadPoolDataset) = DefineDataset({.name = "ExperimentalPrivateThreadPoolDataset",
                                                                 .inputs = "input_dataset: variant, num_threads: int64",
                                                                 .attrs = TENON_DATASET_TYPES,
                                                                 .doc = kPassThroughDoc});
TENON_KERNEL(kExperimentalNonSerializableDatasetKernel) = Registration<Same>("ExperimentalNonSerializableDataset",
                                                                             kMakesDataset);
TENON_OP(kExperimentalNonSerializableDataset) = DefineDataset({.name = "ExperimentalNonSerializableDataset",
                                                               .inputs = "input_dataset: variant",
                                                               .attrs = TENON_DATASET_TYPES,
                                                               .doc = kPassThroughDoc});
TENON_KERNEL(kExperimentalLatencyStatsDatasetKernel) = Registration<Same>("ExperimentalLatencyStatsDataset",
                                                                          kMakesDataset);
TENON_OP(kExperimentalLatencyStatsDataset) = DefineDataset({.name = "ExperimentalLatencyStatsDataset",
                                                            .inputs = "input_dataset: variant, tag: string",
                                                            .attrs = TENON_DATASET_TYPES,
                                                            .doc = kPassThroughDoc});
TENON_KERNEL(kExperimentalBytesProducedStatsDatasetKernel) = Registration<Same>("ExperimentalBytesProducedStatsDataset",
                                                                                kMakesDataset);
TENON_OP(kExperimentalBytesProducedStatsDataset) = DefineDataset({.name = "ExperimentalBytesProducedStatsDataset",
                                                                  .inputs = "input_dataset: variant, tag: string",
                                                                  .attrs = TENON_DATASET_TYPES,
                                                                  .doc = kPassThroughDoc});

// With a pool of threads, or with what collects statistics.
TENON_KERNEL(kThreadPoolDatasetKernel) = Registration<Same>("ThreadPoolDataset", kMakesDataset);
TENON_OP(kThreadPoolDataset) = DefineDataset({.name = "ThreadPoolDataset",
                                              .inputs = "input_dataset: variant, thread_pool: resource",
                                              .attrs = TENON_DATASET_TYPES,
                                              .doc = kPassThroughDoc,
                                              .traits = TENON_OP_STATEFUL});
TENON_KERNEL(kSetStatsAggregatorDatasetKernel) = Registration<Same>("SetStatsAggregatorDataset", kMakesDataset);
TENON_OP(kSetStatsAggregatorDataset) =
    DefineDataset({.name = "SetStatsAggregatorDataset",
                   .inputs = "input_dataset: variant, stats_aggregator: resource, tag: string, counter_prefix: string",
                   .attrs = TENON_DATASET_TYPES,
                   .doc = kPassThroughDoc,
                   .traits = TENON_OP_STATEFUL});
TENON_KERNEL(kExperimentalThreadPoolDatasetKernel) = Registration<Same>("ExperimentalThreadPoolDataset", kMakesDataset);
TENON_OP(kExperimentalThreadPoolDataset) = DefineDataset({.name = "ExperimentalThreadPoolDataset",
                                                          .inputs = "input_dataset: variant, thread_pool: resource",
                                                          .attrs = TENON_DATASET_TYPES,
                                                          .doc = kPassThroughDoc,
                                                          .traits = TENON_OP_STATEFUL});
TENON_KERNEL(kExperimentalSetStatsAggregatorDatasetKernel) = Registration<Same>("ExperimentalSetStatsAggregatorDataset",
                                                                                kMakesDataset);
TENON_OP(kExperimentalSetStatsAggregatorDataset) =
    DefineDataset({.name = "ExperimentalSetStatsAggregatorDataset",
                   .inputs = "input_dataset: variant, stats_aggregator: resource, tag: string, counter_prefix: string",
                   .attrs = TENON_DATASET_TYPES,
                   .doc = kPassThroughDoc,
                   .traits = TENON_OP_STATEFUL});

#define TENON_THREAD_POOL                                                                                            \
  "num_threads: int; max_intra_op_parallelism: int = 1; display_name: string; container: string = ''; shared_name: " \
  "string = ''"
#define TENON_STATISTICS "container: string = ''; shared_name: string = ''"

static constexpr std::string_view kPoolDoc =
    "The handle of a pool of threads, which stands for nothing: the host has its own.";
static constexpr std::string_view kStatisticsDoc =
    "The handle of a collection of statistics, which stands for nothing: none are collected.";

TENON_KERNEL(kThreadPoolHandleKernel) = Registration<Handle<kPoolType>>("ThreadPoolHandle", {});
TENON_OP(kThreadPoolHandle) = DefineOp({.name = "ThreadPoolHandle",
                                        .outputs = "handle: resource",
                                        .attrs = TENON_THREAD_POOL,
                                        .doc = kPoolDoc,
                                        .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
                                        .shape = ShapeFunction<AllScalars>});
TENON_KERNEL(kExperimentalThreadPoolHandleKernel) = Registration<Handle<kPoolType>>("ExperimentalThreadPoolHandle", {});
TENON_OP(kExperimentalThreadPoolHandle) = DefineOp({.name = "ExperimentalThreadPoolHandle",
                                                    .outputs = "handle: resource",
                                                    .attrs = TENON_THREAD_POOL,
                                                    .doc = kPoolDoc,
                                                    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
                                                    .shape = ShapeFunction<AllScalars>});
TENON_KERNEL(kStatsAggregatorHandleKernel) = Registration<Handle<kStatisticsType>>("StatsAggregatorHandle", {});
TENON_OP(kStatsAggregatorHandle) = DefineOp({.name = "StatsAggregatorHandle",
                                             .outputs = "handle: resource",
                                             .attrs = TENON_STATISTICS,
                                             .doc = kStatisticsDoc,
                                             .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
                                             .shape = ShapeFunction<AllScalars>});
TENON_KERNEL(kStatsAggregatorHandleV2Kernel) = Registration<Handle<kStatisticsType>>("StatsAggregatorHandleV2", {});
TENON_OP(kStatsAggregatorHandleV2) = DefineOp({.name = "StatsAggregatorHandleV2",
                                               .outputs = "handle: resource",
                                               .attrs = TENON_STATISTICS,
                                               .doc = kStatisticsDoc,
                                               .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
                                               .shape = ShapeFunction<AllScalars>});
TENON_KERNEL(kExperimentalStatsAggregatorHandleKernel) =
    Registration<Handle<kStatisticsType>>("ExperimentalStatsAggregatorHandle", {});
TENON_OP(kExperimentalStatsAggregatorHandle) = DefineOp({.name = "ExperimentalStatsAggregatorHandle",
                                                         .outputs = "handle: resource",
                                                         .attrs = TENON_STATISTICS,
                                                         .doc = kStatisticsDoc,
                                                         .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
                                                         .shape = ShapeFunction<AllScalars>});

// A dataset that lies in a variant of its own.
TENON_KERNEL(kWrapDatasetVariantKernel) = Registration<Same>("WrapDatasetVariant", kMakesDataset);
TENON_KERNEL(kUnwrapDatasetVariantKernel) = Registration<Same>("UnwrapDatasetVariant", kMakesDataset);
TENON_OP(kWrapDatasetVariant) = DefineDataset({.name = "WrapDatasetVariant",
                                               .inputs = "input_handle: variant",
                                               .attrs = "",
                                               .doc = kPassThroughDoc,
                                               .outputs = "output_handle: variant"});
TENON_OP(kUnwrapDatasetVariant) = DefineDataset({.name = "UnwrapDatasetVariant",
                                                 .inputs = "input_handle: variant",
                                                 .attrs = "",
                                                 .doc = kPassThroughDoc,
                                                 .outputs = "output_handle: variant"});

}  // namespace tenon::ops
