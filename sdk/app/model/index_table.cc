// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/model/index_table.h"

#include <algorithm>
#include <string>

#include "tenon/bytes/table.h"

namespace tenon::model {
namespace {

using Taker = std::function<Status(std::string_view key, std::string_view value)>;

constexpr uint64_t kLongestKey = 1 << 16;
constexpr uint64_t kKeysPerByte =
    64;  // keys share beginnings, so that all of them are larger than the file; a damaged one could make terabytes

Status Damaged(const std::string& what) { return Status(Code::kDataLoss, "the index is damaged: " + what); }

// A block's bytes without its trailer.
Result<std::string_view> BlockAt(std::string_view file, sdk::TableBlock at) {
  const std::string where = "the block at byte " + std::to_string(at.offset);
  if (at.offset > file.size() || at.size > file.size() - at.offset ||
      file.size() - at.offset - at.size < sdk::kTableTrailer)
    return Damaged(where + " leads out of it");
  if (!sdk::SumOfTableBlock(file.substr(at.offset, at.size + sdk::kTableTrailer)).ok())
    return Damaged(where + " has another checksum than stands behind it");
  if (file[at.offset + at.size] != sdk::kTableUncompressed)
    return Status(Code::kUnimplemented, "the index is compressed, which no checkpoint of TensorFlow is");
  return file.substr(at.offset, at.size);
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file), keys_left_(file.size() * kKeysPerByte) {}

  Status Run(const Taker& take) {
    const size_t footer = std::min(file_.size(), sdk::kTableFooter);
    sdk::TableBlock index;
    if (!sdk::TakeTableIndex(file_.substr(file_.size() - footer), &index)) return Damaged("it has no end of a table");
    return Block(index, [&](std::string_view, std::string_view value) -> Status {
      sdk::TableBlock data;
      if (!sdk::TakeTableBlock(value, &data)) return Damaged("an entry names no block");
      if (data.offset < after_) return Damaged("its blocks do not follow one another");  // each is read once
      after_ = data.offset + data.size;
      return Block(data, take);
    });
  }

 private:
  Status Block(sdk::TableBlock at, const Taker& take) {
    TENON_TRY_ASSIGN(const std::string_view block, BlockAt(file_, at));
    Status status;
    const auto visit = [&](std::string_view key, std::string_view value) {
      const bool fits = key.size() <= kLongestKey && key.size() <= keys_left_;
      keys_left_ -= fits ? key.size() : 0;
      status = fits ? take(key, value) : Damaged("its names are longer than any");
      return status.ok();
    };
    const auto entries = sdk::ForEachTableEntry(block, std::string(), visit);
    switch (entries) {
      case sdk::TableEntries::kNoRestarts: return Damaged("a block has no list of its beginnings");
      case sdk::TableEntries::kBeyondTheBlock: return Damaged("an entry leads out of its block");
      default: return status;
    }
  }

  const std::string_view file_;
  uint64_t keys_left_, after_ = 0;
};

}  // namespace

Status ReadTable(std::string_view file, const Taker& take) { return Reader(file).Run(take); }

}  // namespace tenon::model
