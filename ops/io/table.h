// SPDX-License-Identifier: Apache-2.0
// Sorted tables in LevelDB's file format, which the index of a checkpoint is: built in and parsed from memory.
//
// A file is data blocks, one empty meta-index block, an index block, and a footer of 48 bytes. Each block ends with
// one byte for its compression and the masked CRC-32C of both. Written uncompressed; Snappy blocks are read.
#ifndef TENON_OPS_IO_TABLE_H_
#define TENON_OPS_IO_TABLE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::ops::io {

struct TableEntry {
  std::string key;
  std::string value;
};

// The file's bytes. The keys must ascend, byte by byte.
std::string BuildTable(const std::vector<TableEntry>& entries);

// All entries, in order. DATA_LOSS names the path and the byte offset of what does not fit.
std::vector<TableEntry> ParseTable(std::string_view file, std::string_view path);

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_TABLE_H_
