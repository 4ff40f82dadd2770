// SPDX-License-Identifier: Apache-2.0
// MergeV2Checkpoints: several checkpoints become one with as many shards. No data are copied: the files are renamed.
#include <algorithm>

#include "bundle.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Renames that are taken back when something fails before they are kept.
class Moves {
 public:
  Moves(const tenon_files& files, std::string_view destination) : files_(files), destination_(destination) {}
  ~Moves() {
    // Where the index that speaks of them may still be there, they are where it says.
    if (moves_.empty() || !io::WithdrawIndex(files_, destination_)) return;
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
  const std::string_view destination_;
  std::vector<std::pair<std::string, std::string>> moves_;
};

// What the checkpoints to merge hold, with the shards that each brings.
struct Parts {
  std::vector<std::string> prefixes;
  std::vector<int64_t> shards;
  std::map<std::string, io::BundleEntry, std::less<>> entries;
  io::BundleHeader header{0};

  // A tensor may stand in one checkpoint only, unless each has other slices of it.
  void AddEntry(const io::Table::Entry& raw, const io::BundleReader& reader) {
    io::BundleEntry entry = io::BundleEntry::Parse(raw.value, raw.key, reader.index_path());
    if (entry.shard >= reader.header().shards)
      Fail(TENON_DATA_LOSS, "tensor '", raw.key, "' stands in shard ", entry.shard, " of ", reader.header().shards,
           ", as ", reader.index_path(), " says");
    entry.shard += entry.slices.empty() ? header.shards : 0;
    const auto at = entries.find(raw.key);
    if (at == entries.end()) {
      entries.emplace(raw.key, std::move(entry));
      return;
    }
    io::BundleEntry& first = at->second;
    if (first.slices.empty() || entry.slices.empty() || first.dtype != entry.dtype || first.dims != entry.dims) {
      Fail(TENON_INVALID_ARGUMENT, "tensor '", raw.key, "' of ", reader.prefix(),
           " stands in another of the checkpoints to merge as well");
    }
    first.slices.insert(first.slices.end(), entry.slices.begin(), entry.slices.end());
  }
  void Add(const io::BundleReader& reader, const io::Budget& budget) {
    for (const io::Table::Entry& raw : reader.raw_entries()) {
      budget.poll();
      AddEntry(raw, reader);
    }
    prefixes.push_back(reader.prefix());
    shards.push_back(reader.header().shards);
    header.shards += reader.header().shards;  // of at most 2^31 checkpoints, each less than 2^31
    if (header.shards > INT32_MAX)
      Fail(TENON_INVALID_ARGUMENT, "the checkpoints to merge have ", header.shards,
           " data files; no index can name so many");
  }
};

struct Merge {
  explicit Merge(CreateContext& c)
      : delete_old_dirs(c.Bool("delete_old_dirs")), allow_missing_files(c.Bool("allow_missing_files")) {}

  void Run(RunContext c) const {
    const tenon_files& files = HostFiles();
    if (Count(c.input_view(1)) != 1) Fail(TENON_INVALID_ARGUMENT, "destination_prefix must be one string");
    const std::string_view destination = StringAt(c.input_view(1), 0);
    if (destination.empty()) Fail(TENON_INVALID_ARGUMENT, "destination_prefix is empty");
    sdk::StepMemory memory(c);
    const io::Budget budget = io::BudgetOf(c, memory, "merged", destination);
    const std::vector<std::string_view> sources = StringsOf(c.input_view(0));
    if (sources.size() == 1 && sources[0] == destination)
      return void(io::BundleReader(files, destination, budget));  // nothing to do
    if (std::find(sources.begin(), sources.end(), destination) != sources.end())
      Fail(TENON_INVALID_ARGUMENT, "destination_prefix ", destination,
           " is one of the checkpoints to merge, which would be lost if merging failed");
    const Parts parts = ReadParts(files, sources, destination, budget);
    MoveTogether(files, parts, destination, budget);
    RemoveSources(files, parts, destination);
  }

 private:
  // Finished, or written and not yet named.
  static bool IsThere(const tenon_files& files, std::string_view prefix) {
    const std::string index = io::IndexPath(prefix);
    return File::IfThere(files, index).has_value() || File::IfThere(files, io::TemporaryPath(index)).has_value();
  }
  // Nothing is changed before all of it is read and fits together.
  Parts ReadParts(const tenon_files& files, const std::vector<std::string_view>& sources, std::string_view destination,
                  const io::Budget& budget) const {
    Parts parts;
    for (std::string_view prefix : sources) {
      budget.poll();
      if (allow_missing_files && !IsThere(files, prefix)) continue;
      parts.Add(io::BundleReader(files, prefix, budget), budget);
    }
    if (parts.prefixes.empty()) Fail(TENON_INVALID_ARGUMENT, "there is no checkpoint to merge into ", destination);
    return parts;
  }

  // A step that has ended meanwhile, on a machine that stood still, must not touch what came after it.
  static void MoveTogether(const tenon_files& files, const Parts& parts, std::string_view destination,
                           const io::Budget& budget) {
    budget.poll();
    MakeFolders(files, FolderOf(destination));
    io::WriteLock lock(files, destination);
    io::Recover(files, destination, budget);
    Moves moves(files, destination);
    int64_t shard = 0;
    for (size_t i = 0; i < parts.prefixes.size(); ++i) {
      for (int64_t k = 0; k < parts.shards[i]; ++k) {
        budget.poll();
        moves.Move(io::DataPath(parts.prefixes[i], k, parts.shards[i]),
                   io::TemporaryPath(io::DataPath(destination, shard++, parts.header.shards)));
      }
    }
    io::WriteIndex(files, destination, parts.header, parts.entries);
    moves.Keep();
    io::Commit(files, destination, parts.header);
    lock.Release();
  }

  void RemoveSources(const tenon_files& files, const Parts& parts, std::string_view destination) const {
    for (const std::string& prefix : parts.prefixes) RemoveIfThere(files, io::IndexPath(prefix));
    for (const std::string& prefix : parts.prefixes) {
      // Removes the folder only if it is empty; that it is not is no failure.
      const std::string_view folder = FolderOf(prefix);
      if (delete_old_dirs && !folder.empty() && folder != FolderOf(destination)) RemoveIfThere(files, folder);
    }
  }

  bool delete_old_dirs;
  bool allow_missing_files;
};

void MergeShape(ShapeContext& c) {
  c.WithRank(0, 1);
  c.WithRank(1, 0);
}

}  // namespace

TENON_KERNEL(kMergeV2CheckpointsKernel) =
    Registration<Merge>("MergeV2Checkpoints", {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});

TENON_OP(kMergeV2Checkpoints) = DefineOp({
    .name = "MergeV2Checkpoints",
    .inputs = "checkpoint_prefixes: string, destination_prefix: string",
    .attrs = "delete_old_dirs: bool = true; allow_missing_files: bool = false",
    .constraints = "path(checkpoint_prefixes); path(destination_prefix); rank(checkpoint_prefixes) == 1; "
                   "rank(destination_prefix) == 0",
    .doc = "Makes one checkpoint of several by renaming their data files and writing one index.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<MergeShape>,
});

}  // namespace tenon::ops
