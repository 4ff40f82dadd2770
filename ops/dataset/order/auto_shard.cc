// SPDX-License-Identifier: Apache-2.0
// AutoShardDataset: what one of several workers gets of a dataset.
//
// By the policies of TensorFlow: -1 (off) and 3 (hint) the dataset itself; 1 (file) each num_workers-th file; 2 (data)
// each num_workers-th element; 0 (auto) files where that can be, otherwise elements. TensorFlow rewrites the pipeline's
// graph, so that it finds the files below any of its datasets; a dataset here has no graph, and files are dealt where
// the dataset itself is what reads them (Dataset::ShardOfFiles). So a pipeline over files is dealt by elements in
// policy 0: each worker reads all files, and all elements are dealt once all the same.
#include "base/op.h"
#include "base/over_one.h"
#include "order/repeat.h"

namespace tenon::ops {
using namespace sdk;

namespace {

enum Policy : int64_t { kOff = -1, kAuto = 0, kFile = 1, kData = 2, kHint = 3 };

struct AutoShard {
  explicit AutoShard(CreateContext& c) : node(c), policy(c.Int("auto_shard_policy")) {
    if (c.ok() && (policy < kOff || policy > kHint))
      c.Invalid(node.who, ": auto_shard_policy is ", policy,
                "; it is one of -1 (off), 0 (auto), 1 (file), 2 (data), 3 (hint)");
  }
  void Run(RunContext c) const {
    DatasetPtr input = DatasetOf(c, 0);
    const int64_t workers = IntOf(c, 1), index = IntOf(c, 2);
    if (workers <= 0) Fail(TENON_INVALID_ARGUMENT, node.who, ": num_workers must be greater than zero.");
    if (index < 0 || index >= workers)
      Fail(TENON_INVALID_ARGUMENT, node.who, ": index must be between 0 and ", workers - 1);
    SetDataset(
        c, 0,
        workers == 1 || policy == kOff || policy == kHint ? std::move(input) : Part(std::move(input), workers, index));
  }
  DatasetPtr Part(DatasetPtr input, int64_t workers, int64_t index) const {
    if (policy != kData) {
      if (DatasetPtr files = input->ShardOfFiles(workers, index)) return files;
    }
    if (policy == kFile)
      Fail(TENON_NOT_FOUND, node.who, ": Found an unshardable source dataset: ", input->who(),
           " does not read files itself. Give AutoShardDataset the dataset that reads them, deal the names of the "
           "files with ShardDataset, or use policy 2 (data).");
    return NewShard(node, std::move(input), workers, index);
  }
  Dataset::Node node;
  int64_t policy;
};

}  // namespace

TENON_KERNEL(kAutoShardDatasetKernel) = Registration<AutoShard>("AutoShardDataset", kMakesDataset);
TENON_KERNEL(kExperimentalAutoShardDatasetKernel) = Registration<AutoShard>("ExperimentalAutoShardDataset",
                                                                            kMakesDataset);

static constexpr std::string_view kAutoShardDoc =
    "What worker `index` of num_workers gets of the dataset, by auto_shard_policy: -1, 3 all of it; 1 each "
    "num_workers-th file of a dataset that reads files; 2 each num_workers-th element; "
    "0 files where that can be, else elements.";

TENON_OP(kAutoShardDataset) = DefineDataset({
    .name = "AutoShardDataset",
    .inputs = "input_dataset: variant, num_workers: int64, index: int64",
    .attrs = "auto_shard_policy: int = 0; " TENON_DATASET_TYPES "; num_replicas: int = 0",
    .constraints = "rank(num_workers) == 0; rank(index) == 0",
    .doc = kAutoShardDoc,
});

TENON_OP(kExperimentalAutoShardDataset) = DefineDataset({
    .name = "ExperimentalAutoShardDataset",
    .inputs = "input_dataset: variant, num_workers: int64, index: int64",
    .attrs = "auto_shard_policy: int = 0; " TENON_DATASET_TYPES,
    .constraints = "rank(num_workers) == 0; rank(index) == 0",
    .doc = kAutoShardDoc,
});

}  // namespace tenon::ops
