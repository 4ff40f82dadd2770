// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <algorithm>
#include <array>

#include "snappy.h"
#include "tenon/bytes/table.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops::io {
namespace {

using sdk::kTableFooter;
using sdk::kTableTrailer;
using sdk::PutFixed32;
using sdk::PutVarint;
using sdk::TableBlock;

constexpr size_t kBlockSize = 262144;
constexpr int kRestartInterval = 16;
constexpr uint64_t kMostBlock = uint64_t{1} << 31;   // bytes of one block; of an index are written some 2^18
constexpr uint64_t kMostTableGrowth = 64;            // keys and values may be so many times as large as the file, and
constexpr uint64_t kAlwaysAllowed = uint64_t{1} << 16;  // so many bytes more
constexpr uint64_t kTableChunk = uint64_t{1} << 20;       // read and summed between two polls
constexpr uint64_t kEntriesBetweenPolls = 1024;

// ---- Building ----

// Entries with the prefix that each shares with the one before left out, except at restarts.
class Block {
 public:
  Block(int restart_interval, std::pmr::memory_resource* memory) : restart_interval_(restart_interval), text_(memory) {}

  void Add(std::string_view key, std::string_view value) {
    size_t shared = 0;
    if (since_restart_ < restart_interval_) {
      const size_t limit = std::min(key.size(), last_key_.size());
      while (shared < limit && key[shared] == last_key_[shared]) ++shared;
    } else {
      restarts_.push_back(static_cast<uint32_t>(text_.size()));
      since_restart_ = 0;
    }
    std::string head;
    PutVarint(head, shared);
    PutVarint(head, key.size() - shared);
    PutVarint(head, value.size());
    text_ += head;
    text_ += key.substr(shared);
    text_ += value;
    last_key_ = key;
    ++since_restart_;
  }
  bool empty() const { return text_.empty(); }
  size_t size() const { return text_.size() + 4 * (restarts_.size() + 1); }

  // Writes the finished block, which stands at `offset`, and begins anew.
  template <class Put>
  TableBlock Finish(uint64_t offset, const Put& put) {
    std::string end;
    for (uint32_t restart : restarts_) PutFixed32(end, restart);
    PutFixed32(end, static_cast<uint32_t>(restarts_.size()));
    const TableBlock written{offset, text_.size() + end.size()};
    end.push_back(sdk::kTableUncompressed);
    PutFixed32(end, sdk::MaskCrc32c(sdk::ExtendCrc32c(sdk::Crc32c(text_), end.data(), end.size())));
    put(std::string_view(text_));
    put(std::string_view(end));
    text_.clear();
    restarts_ = {0};
    since_restart_ = 0;
    last_key_.clear();
    return written;
  }

 private:
  const int restart_interval_;
  int since_restart_ = 0;
  std::pmr::string text_;
  std::string last_key_;
  std::vector<uint32_t> restarts_ = {0};
};

std::string Encode(const TableBlock& block) {
  std::string text;
  PutVarint(text, block.offset);
  PutVarint(text, block.size);
  return text;
}

// A short key in [last, next) for the index, as LevelDB shortens it.
std::string SeparatorOf(std::string_view last, std::string_view next) {
  size_t same = 0;
  while (same < last.size() && same < next.size() && last[same] == next[same]) ++same;
  if (same < last.size() && same < next.size()) {
    const auto byte = static_cast<unsigned char>(last[same]);
    if (byte < 0xff && byte + 1 < static_cast<unsigned char>(next[same])) {
      std::string text(last.substr(0, same + 1));
      text.back() = static_cast<char>(byte + 1);
      return text;
    }
  }
  return std::string(last);
}

// A short key not before `last`.
std::string SuccessorOf(std::string_view last) {
  for (size_t i = 0; i < last.size(); ++i) {
    if (static_cast<unsigned char>(last[i]) == 0xff) continue;
    std::string text(last.substr(0, i + 1));
    text.back() = static_cast<char>(static_cast<unsigned char>(last[i]) + 1);
    return text;
  }
  return std::string(last);
}

}  // namespace

class TableBuilder::Parts {
 public:
  Parts(std::function<void(std::string_view)> put, std::pmr::memory_resource* memory)
      : put_(std::move(put)), data(kRestartInterval, memory), index(1, memory) {}
  TableBlock Finish(Block& block) { return block.Finish(written_, [this](std::string_view bytes) { Put(bytes); }); }
  void Put(std::string_view bytes) {
    put_(bytes);
    written_ += bytes.size();
  }

 private:
  const std::function<void(std::string_view)> put_;
  uint64_t written_ = 0;

 public:
  Block data, index;
  std::string last_key;
  bool full = false;  // the block ends before the next entry
};

TableBuilder::TableBuilder(std::function<void(std::string_view)> put, std::pmr::memory_resource* memory)
    : parts_(std::make_unique<Parts>(std::move(put), memory)) {}
TableBuilder::~TableBuilder() = default;

void TableBuilder::FinishBlock(const std::string& separator) {
  parts_->index.Add(separator, Encode(parts_->Finish(parts_->data)));
  parts_->full = false;
}

void TableBuilder::Add(std::string_view key, std::string_view value) {
  if (parts_->full) FinishBlock(SeparatorOf(parts_->last_key, key));
  parts_->data.Add(key, value);
  parts_->last_key = key;
  parts_->full = parts_->data.size() >= kBlockSize;
}

void TableBuilder::Finish() {
  if (!parts_->data.empty()) FinishBlock(SuccessorOf(parts_->last_key));
  Block meta(kRestartInterval, std::pmr::get_default_resource());
  const TableBlock meta_block = parts_->Finish(meta);
  const TableBlock index_block = parts_->Finish(parts_->index);
  std::string footer = Encode(meta_block) + Encode(index_block);
  footer.resize(kTableFooter - sdk::kTableEnd.size(), '\0');
  parts_->Put(footer += sdk::kTableEnd);
}

std::string BuildTable(const std::vector<TableEntry>& entries) {
  std::string file;
  TableBuilder builder([&file](std::string_view bytes) { file += bytes; });
  for (const TableEntry& entry : entries) builder.Add(entry.key, entry.value);
  builder.Finish();
  return file;
}

// ---- Parsing ----

namespace {

template <class... Parts>
[[noreturn]] void Damaged(std::string_view path, uint64_t offset, const Parts&... parts) {
  sdk::Fail(TENON_DATA_LOSS, "the checkpoint index ", path, " is damaged at byte ", offset, ": ", parts...);
}

TableBlock TakeBlock(std::string_view in, std::string_view path, uint64_t where) {
  TableBlock block;
  if (!sdk::TakeTableBlock(in, &block)) Damaged(path, where, "no position of a block stands there");
  return block;
}

// What is read with, and of.
struct Reading {
  TableSource& source;
  std::string_view path;
  const Budget& budget;
};

// The contents of the block, checked and uncompressed.
std::pmr::string ReadBlock(const Reading& reading, const TableBlock& at) {
  const uint64_t limit = reading.source.size() - kTableFooter;
  if (at.offset > limit || at.size > limit - at.offset || limit - at.offset - at.size < kTableTrailer) {
    Damaged(reading.path, at.offset, "a block of ", at.size, " bytes does not fit into the file of ",
            reading.source.size());
  }
  if (at.size > kMostBlock) {
    Damaged(reading.path, at.offset, "a block has ", at.size, " bytes; at most ", kMostBlock, " are read");
  }
  std::pmr::string block(at.size + kTableTrailer, '\0', reading.budget.memory);
  for (uint64_t from = 0; from < block.size(); from += kTableChunk) {
    reading.budget.poll();
    reading.source.ReadAt(at.offset + from, block.data() + from, std::min(kTableChunk, block.size() - from));
  }
  if (const sdk::TableSum sum = sdk::SumOfTableBlock(block); !sum.ok()) {
    Damaged(reading.path, at.offset, "the block's checksum is ", sum.found, ", but ", sum.stored, " was stored");
  }
  const char compression = block[at.size];
  block.resize(at.size);
  if (compression == sdk::kTableUncompressed) return block;
  std::pmr::string out(reading.budget.memory);
  if (compression != sdk::kTableSnappy) {
    Damaged(reading.path, at.offset, "compression ", static_cast<int>(compression),
            " is unknown; 0 and 1 (Snappy) are read");
  }
  if (!SnappyUncompress(block, &out)) Damaged(reading.path, at.offset, "the block is no Snappy block");
  return out;
}

// Calls visit(key, value) for each entry of the block.
template <class Visit>
void ForEachEntry(std::string_view block, std::string_view path, uint64_t offset, std::pmr::memory_resource* memory,
                  Visit&& visit) {
  const auto entries =
      sdk::ForEachTableEntry(block, std::pmr::string(memory), [&](std::string_view key, std::string_view value) {
        visit(key, value);
        return true;
      });
  if (entries == sdk::TableEntries::kNoRestarts) Damaged(path, offset, "the block has no list of restarts");
  if (entries == sdk::TableEntries::kBeyondTheBlock) Damaged(path, offset, "an entry of the block does not fit");
}

TableBlock ReadFooter(const Reading& reading) {
  const uint64_t size = reading.source.size();
  if (size < kTableFooter) Damaged(reading.path, 0, "it has ", size, " bytes; a table has 48 at least");
  std::array<char, kTableFooter> bytes;
  reading.source.ReadAt(size - kTableFooter, bytes.data(), bytes.size());
  const std::string_view footer(bytes.data(), bytes.size());
  if (!footer.ends_with(sdk::kTableEnd))
    Damaged(reading.path, size - 8, "a table ends with other bytes; is it complete, and an index file?");
  TableBlock index;
  if (!sdk::TakeTableIndex(footer, &index))
    Damaged(reading.path, size - kTableFooter, "no position of a block stands there");
  return index;
}

std::string_view Keep(std::string_view text, std::pmr::memory_resource& memory) {
  if (text.empty()) return {};
  char* const kept = static_cast<char*>(memory.allocate(text.size(), 1));
  text.copy(kept, text.size());
  return {kept, text.size()};
}

}  // namespace

Table::Table(TableSource& source, std::string_view path, const Budget& budget)
    : bytes_(std::make_unique<std::pmr::monotonic_buffer_resource>(budget.memory)), entries_(budget.memory) {
  const Reading reading{source, path, budget};
  const TableBlock index = ReadFooter(reading);
  uint64_t room = kAlwaysAllowed;
  if (__builtin_mul_overflow(source.size(), kMostTableGrowth, &room) ||
      __builtin_add_overflow(room, kAlwaysAllowed, &room))
    room = UINT64_MAX;
  uint64_t free_from = 0;  // blocks before it have been read

  const std::pmr::string index_block = ReadBlock(reading, index);
  ForEachEntry(index_block, path, index.offset, budget.memory, [&](std::string_view, std::string_view position) {
    const TableBlock data = TakeBlock(position, path, index.offset);
    if (data.offset < free_from)
      Damaged(path, data.offset, "a block begins before the end of the block before it, at ", free_from);
    const std::pmr::string block = ReadBlock(reading, data);
    free_from = data.offset + data.size + kTableTrailer;
    ForEachEntry(block, path, data.offset, budget.memory, [&](std::string_view key, std::string_view value) {
      if (entries_.size() % kEntriesBetweenPolls == 0) budget.poll();
      if (!entries_.empty() && entries_.back().key >= key) Damaged(path, data.offset, "the keys do not ascend");
      if (key.size() > room || value.size() > room - key.size())
        Damaged(path, data.offset, "its keys and values are far larger than the file");
      room -= key.size() + value.size();
      entries_.push_back({Keep(key, *bytes_), Keep(value, *bytes_)});
    });
  });
}

TableLookup::TableLookup(TableSource& source, std::string path, const Budget& budget)
    : source_(source),
      path_(std::move(path)),
      budget_(budget),
      keys_(std::make_unique<std::pmr::monotonic_buffer_resource>(budget.memory)),
      places_(budget.memory),
      block_(budget.memory) {
  const Reading reading{source_, path_, budget_};
  const TableBlock index = ReadFooter(reading);
  const std::pmr::string index_block = ReadBlock(reading, index);
  uint64_t free_from = 0;
  ForEachEntry(index_block, path_, index.offset, budget_.memory, [&](std::string_view key, std::string_view position) {
    if (places_.size() % kEntriesBetweenPolls == 0) budget_.poll();
    const TableBlock data = TakeBlock(position, path_, index.offset);
    if (data.offset < free_from)
      Damaged(path_, data.offset, "a block begins before the end of the block before it, at ", free_from);
    if (data.size > source_.size() || data.offset > source_.size() - data.size)
      Damaged(path_, data.offset, "a block of ", data.size, " bytes does not fit into the file of ",
              source_.size());
    if (!places_.empty() && places_.back().last_key >= key)
      Damaged(path_, index.offset, "the keys of the index do not ascend");
    free_from = data.offset + data.size + kTableTrailer;
    places_.push_back({Keep(key, *keys_), data.offset, data.size});
  });
}

std::optional<std::string_view> TableLookup::Find(std::string_view key) {
  const auto place =
      std::lower_bound(places_.begin(), places_.end(), key,
                       [](const Place& each, std::string_view wanted) { return each.last_key < wanted; });
  if (place == places_.end()) return std::nullopt;
  if (block_offset_ != place->offset) {
    block_offset_ = UINT64_MAX;
    block_ = {};  // not both at once
    block_ = ReadBlock({source_, path_, budget_}, {place->offset, place->size});
    block_offset_ = place->offset;
  }
  std::optional<std::string_view> found;
  ForEachEntry(block_, path_, place->offset, budget_.memory, [&](std::string_view each, std::string_view value) {
    if (each == key) found = value;
  });
  return found;
}

}  // namespace tenon::ops::io
