// SPDX-License-Identifier: Apache-2.0
// A sorted table in LevelDB's file format, which the index of a checkpoint is, as far as all who read one agree: data
// blocks, one empty meta-index block, an index block (of each data block a key and its place), and a footer. A block is
// entries (of the key what it does not share with the one before), where keys stand whole, and how many these are;
// behind it stand one byte for its compression, and the masked CRC-32C of both.
#ifndef TENON_BYTES_TABLE_H_
#define TENON_BYTES_TABLE_H_

#include <cstdint>
#include <string_view>

#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"

namespace tenon::sdk {

inline constexpr size_t kTableFooter = 48, kTableTrailer = 5;                      // bytes
inline constexpr std::string_view kTableEnd = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";  // the footer's last 8
inline constexpr char kTableUncompressed = 0, kTableSnappy = 1;                    // a trailer's first byte

// Where a block stands; size: without its trailer.
struct TableBlock {
  uint64_t offset = 0, size = 0;
};
inline bool TakeTableBlock(std::string_view& in, TableBlock* out) {
  return TakeVarint(in, &out->offset) && TakeVarint(in, &out->size);
}

// The index block's place, by the file's last kTableFooter bytes.
inline bool TakeTableIndex(std::string_view footer, TableBlock* out) {
  TableBlock meta;
  return footer.size() == kTableFooter && footer.ends_with(kTableEnd) && TakeTableBlock(footer, &meta) &&
         TakeTableBlock(footer, out);
}

// What the bytes of a block and its trailer, at least kTableTrailer, say of themselves.
struct TableSum {
  uint32_t found, stored;
  bool ok() const { return found == stored; }
};
inline TableSum SumOfTableBlock(std::string_view with_trailer) {
  const size_t summed = with_trailer.size() - (kTableTrailer - 1);
  std::string_view trailer = with_trailer.substr(summed);
  uint32_t stored = 0;
  (void)TakeFixed32(trailer, &stored);
  return {Crc32c(with_trailer.substr(0, summed)), UnmaskCrc32c(stored)};
}

enum class TableEntries { kAll, kEnded, kNoRestarts, kBeyondTheBlock };

// visit(key, value) for each entry of an uncompressed block; false ends it. key: an empty string to build keys in, none
// longer than the block; together they may be as long as its square.
template <class String, class Visit>
TableEntries ForEachTableEntry(std::string_view block, String&& key, Visit&& visit) {
  std::string_view tail = block.size() < 4 ? std::string_view() : block.substr(block.size() - 4);
  uint32_t restarts = 0;
  if (!TakeFixed32(tail, &restarts) || restarts > block.size() / 4 - 1) return TableEntries::kNoRestarts;
  block.remove_suffix(4 * (size_t{restarts} + 1));
  while (!block.empty()) {
    uint64_t shared = 0, own = 0, size = 0;
    const bool read = TakeVarint(block, &shared) && TakeVarint(block, &own) && TakeVarint(block, &size);
    if (!read || shared > key.size() || own > block.size() || size > block.size() - own)
      return TableEntries::kBeyondTheBlock;
    key.resize(shared);
    key += block.substr(0, own);
    const std::string_view value = block.substr(own, size);
    block.remove_prefix(own + size);
    if (!visit(std::string_view(key), value)) return TableEntries::kEnded;
  }
  return TableEntries::kAll;
}

}  // namespace tenon::sdk

#endif  // TENON_BYTES_TABLE_H_
