// SPDX-License-Identifier: Apache-2.0
// Dataset ops that need what Tenon does not have: services of TensorFlow's own, a dataset's pipeline as a graph,
// databases. They are known by name, and say why, and what to do instead.
#include "base/op.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

template <FixedString kWhy>
struct Refused {
  explicit Refused(CreateContext& c) {
    c.Fail(TENON_UNIMPLEMENTED, c.op(), " '", c.name(), "' ", std::string_view(kWhy.data));
  }
  void Run(RunContext) const {}
};

constexpr Traits kNothing = {.dynamic_outputs = TENON_DYNAMIC_ALL};

using Service = Refused<
    "needs TensorFlow's data service, whose dispatcher and workers run TensorFlow's own pipelines. Run the pipeline in "
    "this process, and part it among workers with "
    "ShardDataset.">;
using Database = Refused<
    "reads a database, for which Tenon has no library. Write its rows to files of records (TFRecordDataset) or of text "
    "(TextLineDataset) first.">;
using Graph = Refused<
    "takes a dataset for a graph: a dataset of Tenon is made by the ops of the graph that was loaded, and keeps none "
    "of its own. Save that graph.">;
using Fingerprint = Refused<
    "would give a number of the graph that made the dataset, and of TensorFlow's own hash of it; a dataset of Tenon "
    "keeps no graph.">;
using Snapshot = Refused<
    "keeps a pipeline's elements in a folder that it finds by TensorFlow's hash of the pipeline's graph, which a "
    "dataset of Tenon does not keep. Name a file in CacheDataset, or "
    "save and load (SaveDataset, LoadDataset).">;
using Statistics =
    Refused<"reads statistics of datasets, which Tenon does not collect. `tenon run --trace` shows what a step takes.">;
using Model =
    Refused<"would give TensorFlow's own model of a pipeline's speed, by which it tunes itself; Tenon has none.">;
using Device = Refused<
    "asks on which device an iterator is: a kernel of Tenon is not told the names of devices. Iterators are in the "
    "memory of the host whose session has them.">;

}  // namespace

TENON_KERNEL(kDataServiceDatasetKernel) = Registration<Service>("DataServiceDataset", kNothing);
TENON_KERNEL(kDataServiceDatasetV2Kernel) = Registration<Service>("DataServiceDatasetV2", kNothing);
TENON_KERNEL(kDataServiceDatasetV3Kernel) = Registration<Service>("DataServiceDatasetV3", kNothing);
TENON_KERNEL(kDataServiceDatasetV4Kernel) = Registration<Service>("DataServiceDatasetV4", kNothing);
TENON_KERNEL(kRegisterDatasetKernel) = Registration<Service>("RegisterDataset", kNothing);
TENON_KERNEL(kRegisterDatasetV2Kernel) = Registration<Service>("RegisterDatasetV2", kNothing);
TENON_KERNEL(kDummyIterationCounterKernel) = Registration<Service>("DummyIterationCounter", kNothing);
TENON_KERNEL(kSqlDatasetKernel) = Registration<Database>("SqlDataset", kNothing);
TENON_KERNEL(kExperimentalSqlDatasetKernel) = Registration<Database>("ExperimentalSqlDataset", kNothing);
TENON_KERNEL(kLMDBDatasetKernel) = Registration<Database>("LMDBDataset", kNothing);
TENON_KERNEL(kExperimentalLMDBDatasetKernel) = Registration<Database>("ExperimentalLMDBDataset", kNothing);
TENON_KERNEL(kDatasetToGraphKernel) = Registration<Graph>("DatasetToGraph", kNothing);
TENON_KERNEL(kDatasetToGraphV2Kernel) = Registration<Graph>("DatasetToGraphV2", kNothing);
TENON_KERNEL(kDatasetFromGraphKernel) = Registration<Graph>("DatasetFromGraph", kNothing);
TENON_KERNEL(kSnapshotDatasetKernel) = Registration<Snapshot>("SnapshotDataset", kNothing);
TENON_KERNEL(kSnapshotDatasetV2Kernel) = Registration<Snapshot>("SnapshotDatasetV2", kNothing);
TENON_KERNEL(kSnapshotDatasetReaderKernel) = Registration<Snapshot>("SnapshotDatasetReader", kNothing);
TENON_KERNEL(kSnapshotNestedDatasetReaderKernel) = Registration<Snapshot>("SnapshotNestedDatasetReader", kNothing);
TENON_KERNEL(kSnapshotChunkDatasetKernel) = Registration<Snapshot>("SnapshotChunkDataset", kNothing);
TENON_KERNEL(kListSnapshotChunksDatasetKernel) = Registration<Snapshot>("ListSnapshotChunksDataset", kNothing);
TENON_KERNEL(kDatasetFingerprintKernel) = Registration<Fingerprint>("DatasetFingerprint", kNothing);
TENON_KERNEL(kStatsAggregatorSummaryKernel) = Registration<Statistics>("StatsAggregatorSummary", kNothing);
TENON_KERNEL(kExperimentalStatsAggregatorSummaryKernel) = Registration<Statistics>("ExperimentalStatsAggregatorSummary",
                                                                                   kNothing);
TENON_KERNEL(kStatsAggregatorSetSummaryWriterKernel) = Registration<Statistics>("StatsAggregatorSetSummaryWriter",
                                                                                kNothing);
TENON_KERNEL(kIteratorGetModelProtoKernel) = Registration<Model>("IteratorGetModelProto", kNothing);
TENON_KERNEL(kIteratorGetDeviceKernel) = Registration<Device>("IteratorGetDevice", kNothing);
TENON_KERNEL(kExperimentalIteratorGetDeviceKernel) = Registration<Device>("ExperimentalIteratorGetDevice", kNothing);

static constexpr std::string_view kServiceDoc = "A dataset of TensorFlow's data service, which Tenon does not have.";
static constexpr std::string_view kDatabaseDoc = "What a database gives; there is no library for it.";
static constexpr std::string_view kGraphDoc = "A dataset as a graph, which datasets do not keep.";

#define TENON_SERVICE_INPUTS "processing_mode: string, address: string, protocol: string, job_name: string, "
#define TENON_SERVICE_CONSUMERS "consumer_index: int64, num_consumers: int64, "
#define TENON_SERVICE_LAST "max_outstanding_requests: int64, iteration_counter: resource"
#define TENON_SERVICE_ATTRS                                       \
  "task_refresh_interval_hint_ms: int = -1; " TENON_DATASET_TYPES \
  "; data_transfer_protocol: string = ''; target_workers: string = 'AUTO'; "

TENON_OP(kDataServiceDataset) = DefineDataset({.name = "DataServiceDataset",
                                               .inputs = "dataset_id: int64, " TENON_SERVICE_INPUTS TENON_SERVICE_LAST,
                                               .attrs = TENON_SERVICE_ATTRS "cross_trainer_cache_options: string = ''",
                                               .doc = kServiceDoc,
                                               .traits = TENON_OP_STATEFUL});
TENON_OP(kDataServiceDatasetV2) =
    DefineDataset({.name = "DataServiceDatasetV2",
                   .inputs = "dataset_id: int64, " TENON_SERVICE_INPUTS TENON_SERVICE_CONSUMERS TENON_SERVICE_LAST,
                   .attrs = TENON_SERVICE_ATTRS "cross_trainer_cache_options: string = ''",
                   .doc = kServiceDoc,
                   .traits = TENON_OP_STATEFUL});
TENON_OP(kDataServiceDatasetV3) =
    DefineDataset({.name = "DataServiceDatasetV3",
                   .inputs = "dataset_id: int64, " TENON_SERVICE_INPUTS TENON_SERVICE_CONSUMERS TENON_SERVICE_LAST,
                   .attrs = TENON_SERVICE_ATTRS
                   "uncompress: bool = false; uncompress_fn: func; cross_trainer_cache_options: string = ''",
                   .doc = kServiceDoc,
                   .traits = TENON_OP_STATEFUL});
TENON_OP(kDataServiceDatasetV4) =
    DefineDataset({.name = "DataServiceDatasetV4",
                   .inputs = "dataset_id: string, " TENON_SERVICE_INPUTS TENON_SERVICE_CONSUMERS TENON_SERVICE_LAST,
                   .attrs = TENON_SERVICE_ATTRS
                   "uncompress: bool = false; uncompress_fn: func; cross_trainer_cache_options: string = ''",
                   .doc = kServiceDoc,
                   .traits = TENON_OP_STATEFUL});
TENON_OP(kRegisterDataset) =
    DefineDataset({.name = "RegisterDataset",
                   .inputs = "dataset: variant, address: string, protocol: string",
                   .attrs = "external_state_policy: int; element_spec: string = ''; metadata: string = ''",
                   .doc = kServiceDoc,
                   .outputs = "dataset_id: int64"});
TENON_OP(kRegisterDatasetV2) = DefineDataset({.name = "RegisterDatasetV2",
                                              .inputs = "dataset: variant, address: string, protocol: string",
                                              .attrs = "external_state_policy: int; element_spec: string = ''; "
                                                       "requested_dataset_id: string = ''; metadata: string = ''",
                                              .doc = kServiceDoc,
                                              .outputs = "dataset_id: string"});
TENON_OP(kDummyIterationCounter) = DefineDataset({.name = "DummyIterationCounter",
                                                  .inputs = "",
                                                  .attrs = "",
                                                  .doc = kServiceDoc,
                                                  .traits = TENON_OP_STATEFUL,
                                                  .outputs = "handle: resource"});

TENON_OP(kSqlDataset) = DefineDataset({.name = "SqlDataset",
                                       .inputs = "driver_name: string, data_source_name: string, query: string",
                                       .attrs = TENON_DATASET_TYPES,
                                       .doc = kDatabaseDoc,
                                       .traits = TENON_OP_STATEFUL});
TENON_OP(kExperimentalSqlDataset) =
    DefineDataset({.name = "ExperimentalSqlDataset",
                   .inputs = "driver_name: string, data_source_name: string, query: string",
                   .attrs = TENON_DATASET_TYPES,
                   .doc = kDatabaseDoc,
                   .traits = TENON_OP_STATEFUL});
TENON_OP(kLMDBDataset) = DefineDataset({.name = "LMDBDataset",
                                        .inputs = "filenames: string",
                                        .attrs = TENON_DATASET_TYPES,
                                        .doc = kDatabaseDoc,
                                        .traits = TENON_OP_STATEFUL});
TENON_OP(kExperimentalLMDBDataset) = DefineDataset({.name = "ExperimentalLMDBDataset",
                                                    .inputs = "filenames: string",
                                                    .attrs = TENON_DATASET_TYPES,
                                                    .doc = kDatabaseDoc,
                                                    .traits = TENON_OP_STATEFUL});

TENON_OP(kDatasetToGraph) = DefineDataset(
    {.name = "DatasetToGraph",
     .inputs = "input_dataset: variant",
     .attrs =
         "stateful_whitelist: list(string) = []; allow_stateful: bool = false; strip_device_assignment: bool = false",
     .doc = kGraphDoc,
     .outputs = "graph: string"});
TENON_OP(kDatasetToGraphV2) =
    DefineDataset({.name = "DatasetToGraphV2",
                   .inputs = "input_dataset: variant",
                   .attrs = "external_state_policy: int = 0; strip_device_assignment: bool = false",
                   .doc = kGraphDoc,
                   .outputs = "graph: string"});
TENON_OP(kDatasetFromGraph) =
    DefineDataset({.name = "DatasetFromGraph", .inputs = "graph_def: string", .attrs = "", .doc = kGraphDoc});
TENON_OP(kDatasetFingerprint) = DefineDataset({.name = "DatasetFingerprint",
                                               .inputs = "input_dataset: variant",
                                               .attrs = "",
                                               .doc = "A number of the dataset's graph, which datasets do not keep.",
                                               .outputs = "fingerprint: uint64"});

static constexpr std::string_view kSnapshotDoc =
    "A pipeline's elements in a folder that TensorFlow's hash of its graph names.";

TENON_OP(kSnapshotDataset) = DefineDataset({
    .name = "SnapshotDataset",
    .inputs = "input_dataset: variant, path: string",
    .attrs = TENON_DATASET_TYPES
    "; compression: string = ''; reader_path_prefix: string = ''; writer_path_prefix: string = ''; shard_size_bytes: "
    "int = 10737418240; "
    "pending_snapshot_expiry_seconds: int = 86400; num_reader_threads: int = 1; reader_buffer_size: int = 1; "
    "num_writer_threads: int = 1; "
    "writer_buffer_size: int = 1; shuffle_on_read: bool = false; seed: int = 0; seed2: int = 0; mode: string = 'auto'; "
    "snapshot_name: string = ''",
    .constraints = "path(path)",
    .doc = kSnapshotDoc,
    .traits = TENON_OP_IO,
});
TENON_OP(kSnapshotDatasetV2) = DefineDataset({
    .name = "SnapshotDatasetV2",
    .inputs = "input_dataset: variant, path: string, reader_func_other_args: Treader_func_args, shard_func_other_args: "
              "Tshard_func_args",
    .attrs = TENON_DATASET_TYPES
    "; compression: string = ''; reader_prefix: string = ''; writer_prefix: string = ''; hash_valid: bool = false; "
    "hash: int = 0; reader_func: func; "
    "shard_func: func; Treader_func_args: list(type); Tshard_func_args: list(type)" TENON_DATASET_METADATA,
    .constraints = "path(path)",
    .doc = kSnapshotDoc,
    .traits = TENON_OP_IO,
});
TENON_OP(kSnapshotDatasetReader) = DefineDataset({.name = "SnapshotDatasetReader",
                                                  .inputs = "shard_dir: string, start_index: int64",
                                                  .attrs = TENON_DATASET_TYPES
                                                  "; compression: string = ''; version: int",
                                                  .constraints = "path(shard_dir)",
                                                  .doc = kSnapshotDoc,
                                                  .traits = TENON_OP_IO});
TENON_OP(kSnapshotNestedDatasetReader) = DefineDataset({.name = "SnapshotNestedDatasetReader",
                                                        .inputs = "inputs: N * variant",
                                                        .attrs = TENON_DATASET_TYPES "; N: int >= 1",
                                                        .doc = kSnapshotDoc});
TENON_OP(kSnapshotChunkDataset) = DefineDataset({.name = "SnapshotChunkDataset",
                                                 .inputs = "chunk_file: string",
                                                 .attrs = TENON_DATASET_TYPES "; compression: string = ''",
                                                 .constraints = "path(chunk_file)",
                                                 .doc = kSnapshotDoc,
                                                 .traits = TENON_OP_IO});
TENON_OP(kListSnapshotChunksDataset) = DefineDataset({.name = "ListSnapshotChunksDataset",
                                                      .inputs = "snapshot_path: string",
                                                      .attrs = TENON_DATASET_TYPES,
                                                      .constraints = "path(snapshot_path)",
                                                      .doc = kSnapshotDoc,
                                                      .traits = TENON_OP_STATEFUL | TENON_OP_IO});

static constexpr std::string_view kSummaryDoc = "Statistics of datasets, which are not collected.";

TENON_OP(kStatsAggregatorSummary) = DefineDataset({.name = "StatsAggregatorSummary",
                                                   .inputs = "iterator: resource",
                                                   .attrs = "",
                                                   .doc = kSummaryDoc,
                                                   .traits = TENON_OP_STATEFUL,
                                                   .outputs = "summary: string"});
TENON_OP(kExperimentalStatsAggregatorSummary) = DefineDataset({.name = "ExperimentalStatsAggregatorSummary",
                                                               .inputs = "iterator: resource",
                                                               .attrs = "",
                                                               .doc = kSummaryDoc,
                                                               .traits = TENON_OP_STATEFUL,
                                                               .outputs = "summary: string"});
TENON_OP(kStatsAggregatorSetSummaryWriter) = DefineOp({.name = "StatsAggregatorSetSummaryWriter",
                                                       .inputs = "stats_aggregator: resource, summary: resource",
                                                       .doc = kSummaryDoc,
                                                       .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT});
TENON_OP(kIteratorGetModelProto) = DefineDataset({.name = "IteratorGetModelProto",
                                                  .inputs = "iterator: resource",
                                                  .attrs = "",
                                                  .doc = "A model of a pipeline's speed, of which there is none.",
                                                  .traits = TENON_OP_STATEFUL,
                                                  .outputs = "model_proto: string"});
TENON_OP(kIteratorGetDevice) = DefineDataset({.name = "IteratorGetDevice",
                                              .inputs = "resource: resource",
                                              .attrs = "",
                                              .doc = "The device of an iterator, which kernels are not told.",
                                              .traits = TENON_OP_STATEFUL,
                                              .outputs = "device: string"});
TENON_OP(kExperimentalIteratorGetDevice) =
    DefineDataset({.name = "ExperimentalIteratorGetDevice",
                   .inputs = "resource: resource",
                   .attrs = "",
                   .doc = "The device of an iterator, which kernels are not told.",
                   .traits = TENON_OP_STATEFUL,
                   .outputs = "device: string"});

}  // namespace tenon::ops
