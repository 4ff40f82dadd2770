// SPDX-License-Identifier: Apache-2.0
// Datasets that say how others are to be run: OptionsDataset, ModelDataset, OptimizeDataset and the like. They are the datasets that they take: what they ask for is TensorFlow's own
// (rewrites of its pipelines, its thread pools, its statistics), and changes no element.
#include "dataset.h"
#include "op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Same {
  void Run(RunContext c) const { SetDataset(c, 0, DatasetOf(c, 0)); }
};

}  // namespace

static constexpr std::string_view kDoc = "The dataset itself.";

TENON_KERNEL(kOptionsDatasetKernel) = Registration<Same>("OptionsDataset", kMakesDataset);
TENON_OP(kOptionsDataset) = DefineDataset({
    .name = "OptionsDataset",
    .inputs = "input_dataset: variant",
    .attrs = "serialized_options: string; " TENON_DATASET_TYPES TENON_DATASET_METADATA,
    .doc = kDoc,
});

TENON_KERNEL(kModelDatasetKernel) = Registration<Same>("ModelDataset", kMakesDataset);
TENON_OP(kModelDataset) = DefineDataset({
    .name = "ModelDataset",
    .inputs = "input_dataset: variant",
    .attrs = "algorithm: int = 0; cpu_budget: int = 0; ram_budget: int = 0; " TENON_DATASET_TYPES,
    .doc = kDoc,
});

TENON_KERNEL(kOptimizeDatasetKernel) = Registration<Same>("OptimizeDataset", kMakesDataset);
TENON_OP(kOptimizeDataset) = DefineDataset({
    .name = "OptimizeDataset",
    .inputs = "input_dataset: variant, optimizations: string",
    .attrs = TENON_DATASET_TYPES "; optimization_configs: list(string) = []",
    .doc = kDoc,
});

TENON_KERNEL(kOptimizeDatasetV2Kernel) = Registration<Same>("OptimizeDatasetV2", kMakesDataset);
TENON_OP(kOptimizeDatasetV2) = DefineDataset({
    .name = "OptimizeDatasetV2",
    .inputs = "input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string, optimizations_default: string",
    .attrs = TENON_DATASET_TYPES "; optimization_configs: list(string) = []",
    .doc = kDoc,
});

TENON_KERNEL(kFinalizeDatasetKernel) = Registration<Same>("FinalizeDataset", kMakesDataset);
TENON_OP(kFinalizeDataset) = DefineDataset({
    .name = "FinalizeDataset",
    .inputs = "input_dataset: variant",
    .attrs = "has_captured_ref: bool = false; " TENON_DATASET_TYPES,
    .doc = kDoc,
});

TENON_KERNEL(kAssertNextDatasetKernel) = Registration<Same>("AssertNextDataset", kMakesDataset);
TENON_OP(kAssertNextDataset) = DefineDataset({.name = "AssertNextDataset", .inputs = "input_dataset: variant, transformations: string", .attrs = TENON_DATASET_TYPES, .doc = kDoc});
TENON_KERNEL(kRewriteDatasetKernel) = Registration<Same>("RewriteDataset", kMakesDataset);
TENON_OP(kRewriteDataset) = DefineDataset({.name = "RewriteDataset", .inputs = "input_dataset: variant, rewrite_name: string", .attrs = TENON_DATASET_TYPES, .doc = kDoc});
TENON_KERNEL(kMaxIntraOpParallelismDatasetKernel) = Registration<Same>("MaxIntraOpParallelismDataset", kMakesDataset);
TENON_OP(kMaxIntraOpParallelismDataset) = DefineDataset({.name = "MaxIntraOpParallelismDataset", .inputs = "input_dataset: variant, max_intra_op_parallelism: int64", .attrs = TENON_DATASET_TYPES, .doc = kDoc});
TENON_KERNEL(kPrivateThreadPoolDatasetKernel) = Registration<Same>("PrivateThreadPoolDataset", kMakesDataset);
TENON_OP(kPrivateThreadPoolDataset) = DefineDataset({.name = "PrivateThreadPoolDataset", .inputs = "input_dataset: variant, num_threads: int64", .attrs = TENON_DATASET_TYPES, .doc = kDoc});
TENON_KERNEL(kNonSerializableDatasetKernel) = Registration<Same>("NonSerializableDataset", kMakesDataset);
TENON_OP(kNonSerializableDataset) = DefineDataset({.name = "NonSerializableDataset", .inputs = "input_dataset: variant", .attrs = TENON_DATASET_TYPES, .doc = kDoc});
TENON_KERNEL(kLatencyStatsDatasetKernel) = Registration<Same>("LatencyStatsDataset", kMakesDataset);
TENON_OP(kLatencyStatsDataset) = DefineDataset({.name = "LatencyStatsDataset", .inputs = "input_dataset: variant, tag: string", .attrs = TENON_DATASET_TYPES, .doc = kDoc});
TENON_KERNEL(kBytesProducedStatsDatasetKernel) = Registration<Same>("BytesProducedStatsDataset", kMakesDataset);
TENON_OP(kBytesProducedStatsDataset) = DefineDataset({.name = "BytesProducedStatsDataset", .inputs = "input_dataset: variant, tag: string", .attrs = TENON_DATASET_TYPES, .doc = kDoc});

// A dataset that lies in a variant of its own.
TENON_KERNEL(kWrapDatasetVariantKernel) = Registration<Same>("WrapDatasetVariant", kMakesDataset);
TENON_KERNEL(kUnwrapDatasetVariantKernel) = Registration<Same>("UnwrapDatasetVariant", kMakesDataset);
TENON_OP(kWrapDatasetVariant) = DefineDataset({.name = "WrapDatasetVariant", .inputs = "input_handle: variant", .attrs = "", .doc = kDoc, .outputs = "output_handle: variant"});
TENON_OP(kUnwrapDatasetVariant) = DefineDataset({.name = "UnwrapDatasetVariant", .inputs = "input_handle: variant", .attrs = "", .doc = kDoc, .outputs = "output_handle: variant"});

}  // namespace tenon::ops
