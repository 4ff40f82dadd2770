// SPDX-License-Identifier: Apache-2.0
// MergeV2Checkpoints: several checkpoints become one with as many shards. No data are copied: the files are renamed.
#include "bundle.h"
#include "tenon/sdk/op.h"
#include "tenon/sdk/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Renames that are taken back when something fails before they are kept.
class Moves {
 public:
  explicit Moves(const tenon_files& files) : files_(files) {}
  ~Moves() {
    for (; !moves_.empty(); moves_.pop_back()) {
      if (tenon_status* status = files_.rename(ToSpan(moves_.back().second), ToSpan(moves_.back().first))) {
        tenon_plugin_host->status_release(status);
      }
    }
  }
  void Move(std::string from, std::string to) {
    Rename(files_, from, to);
    moves_.emplace_back(std::move(from), std::move(to));
  }
  void Keep() { moves_.clear(); }

 private:
  const tenon_files& files_;
  std::vector<std::pair<std::string, std::string>> moves_;
};

struct Merge {
  explicit Merge(CreateContext& c)
      : delete_old_dirs(c.Bool("delete_old_dirs")), allow_missing_files(c.Bool("allow_missing_files")) {}

  void Run(RunContext c) const {
    const tenon_files& files = HostFiles();
    if (Count(c.input_view(1)) != 1) Fail(TENON_INVALID_ARGUMENT, "destination_prefix must be one string");
    const std::string_view destination = StringAt(c.input_view(1), 0);

    // What each of them holds; nothing is changed before all of it is read and fits together.
    std::vector<std::string> prefixes;
    std::vector<int64_t> shards;
    std::map<std::string, io::BundleEntry, std::less<>> merged;
    io::BundleHeader header{0};
    for (std::string_view prefix : StringsOf(c.input_view(0))) {
      if (allow_missing_files && files.exists(ToSpan(io::IndexPath(prefix))) == 0) continue;
      const io::BundleReader reader(files, prefix);
      for (const io::TableEntry& raw : reader.raw_entries()) {
        io::BundleEntry entry = io::BundleEntry::Parse(raw.value, raw.key, reader.index_path());
        entry.shard += entry.slices.empty() ? header.shards : 0;
        AddEntry(merged, raw.key, std::move(entry), prefix);
      }
      prefixes.emplace_back(prefix);
      shards.push_back(reader.header().shards);
      header.shards += reader.header().shards;
    }
    if (prefixes.empty()) Fail(TENON_INVALID_ARGUMENT, "there is no checkpoint to merge into ", destination);

    // A step that has ended meanwhile, on a machine that stood still, must not touch what came after it.
    if (c.cancelled()) Fail(TENON_CANCELLED, "the step was cancelled before it merged ", destination);
    MakeFolders(files, FolderOf(destination));
    io::Recover(files, destination);
    Moves moves(files);
    int64_t shard = 0;
    for (size_t i = 0; i < prefixes.size(); ++i) {
      for (int64_t k = 0; k < shards[i]; ++k) {
        moves.Move(io::DataPath(prefixes[i], k, shards[i]),
                   io::TemporaryPath(io::DataPath(destination, shard++, header.shards)));
      }
    }
    io::WriteIndex(files, destination, header, merged);
    moves.Keep();
    io::Commit(files, destination, header);

    for (const std::string& prefix : prefixes) {
      if (prefix != destination) RemoveIfThere(files, io::IndexPath(prefix));
    }
    if (!delete_old_dirs) return;
    for (const std::string& prefix : prefixes) {
      // Removes the folder only if it is empty; that it is not is no failure.
      const std::string_view folder = FolderOf(prefix);
      if (!folder.empty() && folder != FolderOf(destination)) RemoveIfThere(files, folder);
    }
  }

  // A tensor may stand in one checkpoint only, unless each has other slices of it.
  static void AddEntry(std::map<std::string, io::BundleEntry, std::less<>>& merged, const std::string& key,
                       io::BundleEntry entry, std::string_view prefix) {
    const auto at = merged.find(key);
    if (at == merged.end()) {
      merged.emplace(key, std::move(entry));
      return;
    }
    io::BundleEntry& first = at->second;
    if (first.slices.empty() || entry.slices.empty() || first.dtype != entry.dtype || first.dims != entry.dims) {
      Fail(TENON_INVALID_ARGUMENT, "tensor '", key, "' of ", prefix,
           " stands in another of the checkpoints to merge as well");
    }
    first.slices.insert(first.slices.end(), entry.slices.begin(), entry.slices.end());
  }

  bool delete_old_dirs;
  bool allow_missing_files;
};

void MergeShape(ShapeContext& c) {
  c.WithRank(0, 1);
  c.WithRank(1, 0);
}

}  // namespace

extern constinit const tenon_kernel_registration kMergeV2CheckpointsKernel =
    Registration<Merge>("MergeV2Checkpoints", {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});

extern const tenon_op_definition kMergeV2Checkpoints = DefineOp({
    .name = "MergeV2Checkpoints",
    .inputs = "checkpoint_prefixes: string, destination_prefix: string",
    .attrs = "delete_old_dirs: bool = true; allow_missing_files: bool = false",
    .constraints = "path(checkpoint_prefixes); path(destination_prefix); rank(checkpoint_prefixes) == 1; rank(destination_prefix) == 0",
    .doc = "Makes one checkpoint of several by renaming their data files and writing one index.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<MergeShape>,
});

}  // namespace tenon::ops
