// SPDX-License-Identifier: Apache-2.0
// Sorted tables in LevelDB's file format, which the index of a checkpoint is: built in memory, read block by block.
//
// A file is data blocks, one empty meta-index block, an index block, and a footer of 48 bytes. Each block ends with
// one byte for its compression and the masked CRC-32C of both. Written uncompressed; Snappy blocks are read.
#ifndef TENON_OPS_IO_TABLE_H_
#define TENON_OPS_IO_TABLE_H_

#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "budget.h"
#include "tenon/sdk/file/file.h"

namespace tenon::ops::io {

struct TableEntry {
  std::string key;
  std::string value;
};

// The file's bytes. The keys must ascend, byte by byte.
std::string BuildTable(const std::vector<TableEntry>& entries);

// The same piece by piece, for values that are large: what is held is a block, and the index.
class TableBuilder {
 public:
  // put(bytes) writes the file's next bytes.
  explicit TableBuilder(std::function<void(std::string_view)> put,
                        std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  ~TableBuilder();
  void Add(std::string_view key, std::string_view value);
  void Finish();

 private:
  class Parts;
  void FinishBlock(const std::string& separator);
  std::unique_ptr<Parts> parts_;
};

// Where a table's bytes are read from.
class TableSource {
 public:
  virtual ~TableSource() = default;
  virtual uint64_t size() const = 0;
  virtual void ReadAt(uint64_t offset, char* target, uint64_t bytes) = 0;
};

class TableText final : public TableSource {
 public:
  explicit TableText(std::string_view text) : text_(text) {}
  uint64_t size() const override { return text_.size(); }
  void ReadAt(uint64_t offset, char* target, uint64_t bytes) override { text_.copy(target, bytes, offset); }

 private:
  const std::string_view text_;
};

class TableFile final : public TableSource {
 public:
  explicit TableFile(const sdk::File& file) : file_(file), size_(file.size()) {}
  uint64_t size() const override { return size_; }
  void ReadAt(uint64_t offset, char* target, uint64_t bytes) override {
    failed_ = true;
    file_.ReadAt(offset, target, bytes);
    failed_ = false;
  }
  // Reading has failed, which says nothing of what stands there.
  bool failed() const { return failed_; }

 private:
  const sdk::File& file_;
  const uint64_t size_;
  bool failed_ = false;
};

// All entries of a table, in order. DATA_LOSS names the path and the byte offset of what does not fit.
//
// Each block is read and summed once, and what the keys' shared prefixes and compression make of the file is bounded by
// its size, so that neither time nor memory is beyond what the file's bytes are worth.
class Table {
 public:
  struct Entry {
    std::string_view key, value;  // as long as the table
  };
  Table(TableSource& source, std::string_view path, const Budget& budget);
  const std::pmr::vector<Entry>& entries() const { return entries_; }

 private:
  std::unique_ptr<std::pmr::monotonic_buffer_resource> bytes_;
  std::pmr::vector<Entry> entries_;
};

// A table's entries one by one, by key: its index is read, and then the block where the key belongs. The same checks.
class TableLookup {
 public:
  TableLookup(TableSource& source, std::string path, const Budget& budget);
  // Valid until the next call.
  std::optional<std::string_view> Find(std::string_view key);
  uint64_t size() const { return source_.size(); }
  const std::string& path() const { return path_; }

 private:
  struct Place {
    std::string_view last_key;  // no key of the block is larger
    uint64_t offset, size;
  };
  TableSource& source_;
  const std::string path_;
  const Budget budget_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> keys_;
  std::pmr::vector<Place> places_;
  std::pmr::string block_;
  uint64_t block_offset_ = UINT64_MAX;  // of the one that was read last
};

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_TABLE_H_
