// SPDX-License-Identifier: Apache-2.0
// TensorFlow's tensor bundle: a checkpoint as <prefix>.index and <prefix>.data-00000-of-00001 (or more shards).
//
// The index is a table (table.h) from a tensor's name to where its bytes stand and what their checksum is; the data
// files are the bytes one after the other.
//
// Writing never harms what is there. Whoever writes holds a lock (write_lock.h). Data are written under temporary
// names, then the index is, then the data files get their names, then the index does; each of the four is durable,
// files and folder, before the next begins. A temporary index that is complete, with all its data files there, is the
// moment from which the new checkpoint counts: readers take it, with the data files that still have temporary names, so
// that no failure and no crash, whatever the disk had written by then, leaves a checkpoint half old and half new. Only
// contents that are no finished index are removed; where they cannot be read, that is the failure.
#ifndef TENON_OPS_IO_BUNDLE_H_
#define TENON_OPS_IO_BUNDLE_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "budget.h"
#include "slice.h"
#include "table.h"
#include "tenon/sdk/file/file.h"
#include "write_lock.h"

namespace tenon::ops::io {

std::string IndexPath(std::string_view prefix);
std::string DataPath(std::string_view prefix, int64_t shard, int64_t shards);
// Where a file is written before it gets its name.
std::string TemporaryPath(std::string_view path);

// What the index says of one tensor.
struct BundleEntry {
  uint32_t dtype = TENON_DT_INVALID;
  std::vector<int64_t> dims;
  int64_t shard = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t crc = 0;                 // masked
  std::vector<std::string> slices;  // serialized; not empty: the tensor is stored in parts

  std::string Serialize() const;
  static BundleEntry Parse(std::string_view bytes, std::string_view name, std::string_view path);
};

// What the index says under the key "": how many data files there are.
struct BundleHeader {
  int64_t shards = 1;

  std::string Serialize() const;
  static BundleHeader Parse(std::string_view bytes, std::string_view path);
};

// The names of the data files that were written are made durable, then the index of entries (the header not among them)
// is written under its temporary name, durably. Where it fails, WithdrawIndex comes before the data are touched.
void WriteIndex(const tenon_files& files, std::string_view prefix, const BundleHeader& header,
                const std::map<std::string, BundleEntry, std::less<>>& entries);

// True when there is certainly no temporary index any more, whatever happens: what it spoke of may be removed.
bool WithdrawIndex(const tenon_files& files, std::string_view prefix) noexcept;

// Gives the files that WriteIndex's index speaks of, and the index itself, their names. kBegun: some may have theirs
// already.
enum class Naming { kWhole, kBegun };
void Commit(const tenon_files& files, std::string_view prefix, const BundleHeader& header,
            Naming naming = Naming::kWhole);

// What a crash left of an earlier writing of the checkpoint: finished when it is complete, else removed. The caller
// holds the lock.
void Recover(const tenon_files& files, std::string_view prefix, const Budget& budget);

class BundleWriter {
 public:
  BundleWriter(const tenon_files& files, std::string_view prefix, Budget budget = {});
  // Without Finish nothing is left behind, and nothing changed.
  ~BundleWriter();
  BundleWriter(const BundleWriter&) = delete;
  BundleWriter& operator=(const BundleWriter&) = delete;

  // ALREADY_EXISTS for a name that stands there; UNIMPLEMENTED for types that have no bytes.
  void Add(std::string_view name, const tenon_tensor_view& tensor);
  // Variants, each as the bytes of its VariantTensorDataProto.
  void AddVariants(std::string_view name, sdk::Dims dims, std::span<const std::pmr::string> variants);
  // A box of a tensor of shape `dims`; its others may follow, or stand in another checkpoint that is merged with this
  // one.
  void AddSlice(std::string_view name, sdk::Dims dims, const Slice& slice, const tenon_tensor_view& tensor);
  void Finish();

 private:
  void Append(const void* data, uint64_t bytes);
  void Flush();
  void AddStrings(const tenon_tensor_view& tensor, BundleEntry& entry);
  BundleEntry Begin(std::string_view name, uint32_t dtype, sdk::Dims dims) const;
  void End(std::string_view name, BundleEntry entry);

  const tenon_files& files_;
  const std::string prefix_;
  const Budget budget_;
  std::optional<WriteLock> lock_;
  std::optional<sdk::File> data_;
  std::string buffer_;
  uint64_t written_ = 0;
  std::map<std::string, BundleEntry, std::less<>> entries_;
};

// A box of a tensor, and the entry of its bytes.
struct StoredSlice {
  Slice slice;
  std::string key;
  BundleEntry entry;
};

// An index that was read.
struct BundleIndex {
  Table table;
  BundleHeader header;
  std::span<const Table::Entry> entries() const { return std::span(table.entries()).subspan(1); }
};

class BundleReader {
 public:
  // NOT_FOUND without an index; DATA_LOSS when it is damaged.
  BundleReader(const tenon_files& files, std::string_view prefix, Budget budget = {});

  const BundleHeader& header() const { return index_->header; }
  std::span<const Table::Entry> raw_entries() const { return index_->entries(); }  // without the header
  const std::string& prefix() const { return prefix_; }
  const std::string& index_path() const { return index_path_; }

  // NOT_FOUND names the tensor and the checkpoint.
  BundleEntry Find(std::string_view name) const;

  // The stored boxes that together hold a box of a tensor of a plain type; their bytes are there. DATA_LOSS when some
  // of it is not stored, or twice.
  std::vector<StoredSlice> FindParts(const std::string& name, const BundleEntry& entry, const Slice& wanted);

  // The bytes of a tensor of a plain type, checked. target: entry.size bytes.
  void Read(std::string_view name, const BundleEntry& entry, void* target);
  // The elements of a string tensor, checked; they point into storage.
  std::pmr::vector<std::string_view> ReadStrings(std::string_view name, const BundleEntry& entry,
                                                 std::pmr::string* storage);
  // Those of a variant tensor, as AddVariants() got them.
  std::pmr::vector<std::string_view> ReadVariants(std::string_view name, const BundleEntry& entry,
                                                  std::pmr::string* storage);
  // How many elements the shape has; DATA_LOSS when that does not fit the bytes that the entry names.
  int64_t CheckedCount(std::string_view name, const BundleEntry& entry) const;
  // DATA_LOSS when the data file is too short for the entry.
  void CheckBounds(std::string_view name, const BundleEntry& entry) { Shard(name, entry); }
  // Somebody has written the checkpoint anew since: what was read may be of both.
  bool Superseded() const;

 private:
  const sdk::File& Shard(std::string_view name, const BundleEntry& entry);
  const sdk::File& ReadBytes(std::string_view name, const BundleEntry& entry, std::pmr::string* storage);
  [[noreturn]] static void Damaged(std::string_view name, const BundleEntry& entry, const sdk::File& file,
                                   std::string_view what);
  sdk::File OpenShard(int64_t shard) const;

  const tenon_files& files_;
  const std::string prefix_;
  const Budget budget_;
  std::string index_path_;
  std::optional<BundleIndex> index_;
  std::map<int64_t, sdk::File> shards_;
};

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_BUNDLE_H_
