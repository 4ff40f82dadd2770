// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/model/index_table.h"

#include <string>

#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using sdk::TakeFixed32;
using sdk::TakeVarint;
using Taker = std::function<Status(std::string_view key, std::string_view value)>;

constexpr size_t kTrailer = 5;  // of a block: how it is compressed, and its sum
constexpr uint64_t kLongestKey = 1 << 16;
constexpr uint64_t kKeysPerByte =
    64;  // keys share beginnings, so that all of them are larger than the file; a damaged one could make terabytes

Status Damaged(const std::string& what) { return Status(Code::kDataLoss, "the index is damaged: " + what); }

struct Handle {
  uint64_t offset = 0, size = 0;
};

bool TakeHandle(std::string_view& in, Handle* out) {
  return TakeVarint(in, &out->offset) && TakeVarint(in, &out->size);
}

// A block's bytes without its trailer.
Result<std::string_view> BlockAt(std::string_view file, Handle at) {
  const std::string where = "the block at byte " + std::to_string(at.offset);
  if (at.offset > file.size() || at.size > file.size() - at.offset || file.size() - at.offset - at.size < kTrailer)
    return Damaged(where + " leads out of it");
  const std::string_view whole = file.substr(at.offset, at.size + 1);
  std::string_view trailer = file.substr(at.offset + at.size + 1, 4);
  uint32_t sum = 0;
  TakeFixed32(trailer, &sum);
  if (sdk::UnmaskCrc32c(sum) != sdk::Crc32c(whole))
    return Damaged(where + " has another checksum than stands behind it");
  if (whole.back() != 0)
    return Status(Code::kUnimplemented, "the index is compressed, which no checkpoint of TensorFlow is");
  return whole.substr(0, at.size);
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file), keys_left_(file.size() * kKeysPerByte) {}

  Status Run(const Taker& take) {
    std::string_view footer =
        file_.size() < kTableFooter ? std::string_view() : file_.substr(file_.size() - kTableFooter);
    Handle meta, index;
    if (!footer.ends_with(kTableEnd) || !TakeHandle(footer, &meta) || !TakeHandle(footer, &index))
      return Damaged("it has no end of a table");
    return Block(index, [&](std::string_view, std::string_view value) -> Status {
      Handle data;
      if (!TakeHandle(value, &data)) return Damaged("an entry names no block");
      if (data.offset < after_) return Damaged("its blocks do not follow one another");  // each is read once
      after_ = data.offset + data.size;
      return Block(data, take);
    });
  }

 private:
  Status Block(Handle at, const Taker& take) {
    TENON_TRY_ASSIGN(std::string_view block, BlockAt(file_, at));
    std::string_view restarts = block.size() < 4 ? std::string_view() : block.substr(block.size() - 4);
    uint32_t count = 0;
    if (!TakeFixed32(restarts, &count) || count > block.size() / 4 - 1)
      return Damaged("a block has no list of its beginnings");
    block.remove_suffix(4 * (size_t{count} + 1));
    std::string key;
    while (!block.empty()) TENON_TRY(Entry(block, key, take));
    return Status();
  }

  Status Entry(std::string_view& block, std::string& key, const Taker& take) {
    uint64_t shared = 0, own = 0, size = 0;
    const bool read = TakeVarint(block, &shared) && TakeVarint(block, &own) && TakeVarint(block, &size);
    if (!read || shared > key.size() || own > block.size() || size > block.size() - own)
      return Damaged("an entry leads out of its block");
    if (shared + own > kLongestKey || shared + own > keys_left_) return Damaged("its names are longer than any");
    keys_left_ -= shared + own;
    key.resize(shared);
    key += block.substr(0, own);
    const std::string_view value = block.substr(own, size);
    block.remove_prefix(own + size);
    return take(key, value);
  }

  const std::string_view file_;
  uint64_t keys_left_, after_ = 0;
};

}  // namespace

Status ReadTable(std::string_view file, const Taker& take) { return Reader(file).Run(take); }

}  // namespace tenon::model
