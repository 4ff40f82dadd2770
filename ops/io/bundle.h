// SPDX-License-Identifier: Apache-2.0
// TensorFlow's tensor bundle: a checkpoint as <prefix>.index and <prefix>.data-00000-of-00001 (or more shards).
//
// The index is a table (table.h) from a tensor's name to where its bytes stand and what their checksum is; the data
// files are the bytes one after the other.
//
// Writing never harms what is there: data and index are written under temporary names and made durable, the index
// last; then the data files get their names, then the index. A temporary index that is complete is the moment from
// which the new checkpoint counts: readers take it, with the data files that still have temporary names, so that no
// failure and no crash between two renames leaves a checkpoint of the same name half old and half new.
#ifndef TENON_OPS_IO_BUNDLE_H_
#define TENON_OPS_IO_BUNDLE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/file.h"
#include "slice.h"
#include "table.h"

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

// Writes the index of entries (the header not among them) under its temporary name, durably.
void WriteIndex(const tenon_files& files, std::string_view prefix, const BundleHeader& header,
                const std::map<std::string, BundleEntry, std::less<>>& entries);

// Gives the files that WriteIndex's index speaks of, and the index itself, their names.
void Commit(const tenon_files& files, std::string_view prefix, const BundleHeader& header);

// What a crash left of an earlier writing of the checkpoint: finished when it is complete, else removed.
void Recover(const tenon_files& files, std::string_view prefix);

class BundleWriter {
 public:
  BundleWriter(const tenon_files& files, std::string_view prefix);
  // Without Finish nothing is left behind, and nothing changed.
  ~BundleWriter();
  BundleWriter(const BundleWriter&) = delete;
  BundleWriter& operator=(const BundleWriter&) = delete;

  // ALREADY_EXISTS for a name that stands there; UNIMPLEMENTED for types that have no bytes.
  void Add(std::string_view name, const tenon_tensor_view& tensor);
  // A box of a tensor of shape `dims`; its others may follow, or stand in another checkpoint that is merged with this one.
  void AddSlice(std::string_view name, sdk::Dims dims, const Slice& slice, const tenon_tensor_view& tensor);
  void Finish();

 private:
  void Append(const void* data, uint64_t bytes);
  void Flush();
  void AddStrings(const tenon_tensor_view& tensor, BundleEntry& entry);

  const tenon_files& files_;
  const std::string prefix_;
  std::unique_ptr<sdk::File> data_;
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

class BundleReader {
 public:
  // NOT_FOUND without an index; DATA_LOSS when it is damaged.
  BundleReader(const tenon_files& files, std::string_view prefix);

  const BundleHeader& header() const { return header_; }
  const std::vector<TableEntry>& raw_entries() const { return table_; }  // without the header
  const std::string& prefix() const { return prefix_; }
  const std::string& index_path() const { return index_path_; }

  // NOT_FOUND names the tensor and the checkpoint.
  BundleEntry Find(std::string_view name) const;

  // The stored boxes that together hold a box of a tensor of a plain type; their bytes are there. DATA_LOSS when some of it is not stored, or
  // twice.
  std::vector<StoredSlice> FindParts(const std::string& name, const BundleEntry& entry, const Slice& wanted);

  // The bytes of a tensor of a plain type, checked. target: entry.size bytes.
  void Read(std::string_view name, const BundleEntry& entry, void* target);
  // The elements of a string tensor, checked; they point into storage.
  std::vector<std::string_view> ReadStrings(std::string_view name, const BundleEntry& entry, std::string* storage);
  // How many elements the shape has; DATA_LOSS when that does not fit the bytes that the entry names.
  int64_t CheckedCount(std::string_view name, const BundleEntry& entry) const;
  // DATA_LOSS when the data file is too short for the entry.
  void CheckBounds(std::string_view name, const BundleEntry& entry) { Shard(name, entry); }

 private:
  const sdk::File& Shard(std::string_view name, const BundleEntry& entry);
  sdk::File OpenShard(int64_t shard) const;

  const tenon_files& files_;
  const std::string prefix_;
  std::string index_path_;
  BundleHeader header_;
  std::vector<TableEntry> table_;
  std::map<int64_t, sdk::File> shards_;
};

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_BUNDLE_H_
