// SPDX-License-Identifier: Apache-2.0
#include "bundle.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tenon/bytes/crc32c.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/bytes/wire.h"

namespace tenon::ops::io {

using sdk::Fail;

namespace {

constexpr uint64_t kChunk = uint64_t{1} << 20;  // read or written and summed while it is in the cache
constexpr size_t kMostSlices = 16384;           // of a tensor, which are compared with one another
constexpr uint32_t kProducer = 1;               // version of the format that is written and read

// A sum over each length as 4 bytes, or 8 when it needs them.
uint32_t ExtendWithLength(uint32_t crc, uint64_t length) {
  const auto narrow = static_cast<uint32_t>(length);
  return narrow == length ? sdk::ExtendCrc32c(crc, &narrow, 4) : sdk::ExtendCrc32c(crc, &length, 8);
}

BundleIndex ParseIndex(TableSource& source, std::string_view path, const Budget& budget) {
  BundleIndex index{Table(source, path, budget), {}};
  const auto& all = index.table.entries();
  if (all.empty() || !all.front().key.empty()) Fail(TENON_DATA_LOSS, "the checkpoint index ", path, " has no header");
  index.header = BundleHeader::Parse(all.front().value, path);
  return index;
}

// Under its temporary name or its own.
bool ShardIsThere(const tenon_files& files, const std::string& path) {
  return sdk::File::IfThere(files, TemporaryPath(path)).has_value() || sdk::File::IfThere(files, path).has_value();
}

// The first that is not there ends it, so what an index claims costs no more than the folder has files.
bool AllShardsAreThere(const tenon_files& files, std::string_view prefix, int64_t shards, const Budget& budget) {
  for (int64_t shard = 0; shard < shards; ++shard) {
    budget.poll();
    if (!ShardIsThere(files, DataPath(prefix, shard, shards))) return false;
  }
  return true;
}

// The temporary index, if it is there and counts. Its writer may not have finished, and then what it would have
// replaced still does; that it cannot be read at the moment says nothing of that.
std::optional<BundleIndex> LoadTemporaryIndex(const tenon_files& files, std::string_view prefix, const Budget& budget) {
  const std::string path = TemporaryPath(IndexPath(prefix));
  const std::optional<sdk::File> file = sdk::File::IfThere(files, path);
  if (!file) return std::nullopt;
  TableFile source(*file);
  std::optional<BundleIndex> index;
  try {
    index.emplace(ParseIndex(source, path, budget));
  } catch (sdk::KernelError& error) {
    if (source.failed()) throw;
    sdk::IsNot(error.release(), TENON_DATA_LOSS);
    return std::nullopt;
  }
  if (!AllShardsAreThere(files, prefix, index->header.shards, budget)) index.reset();
  return index;
}

// The index that counts, and where it stands.
BundleIndex LoadIndex(const tenon_files& files, std::string_view prefix, const Budget& budget, std::string* out_path) {
  *out_path = TemporaryPath(IndexPath(prefix));
  if (auto index = LoadTemporaryIndex(files, prefix, budget)) return *std::move(index);
  *out_path = IndexPath(prefix);
  const std::optional<sdk::File> file = sdk::File::IfThere(files, *out_path);
  if (!file) Fail(TENON_NOT_FOUND, "there is no checkpoint ", prefix, ": ", *out_path, " does not exist");
  TableFile source(*file);
  return ParseIndex(source, *out_path, budget);
}

void NameShard(const tenon_files& files, std::string_view prefix, const std::string& data, Naming naming) {
  const std::string from = TemporaryPath(data);
  if (sdk::IsNot(files.rename(sdk::ToSpan(from), sdk::ToSpan(data)), TENON_NOT_FOUND)) return;
  if (naming == Naming::kBegun && sdk::File::IfThere(files, data)) return;
  WithdrawIndex(files, prefix);  // somebody has taken the data away, so that it would speak of what is older
  Fail(TENON_NOT_FOUND, "cannot rename '", from, "' to '", data, "': somebody has removed it since it was written");
}

// A number of data files; -1 when there cannot be so many.
int64_t TakeCount(uint64_t value) { return value <= INT32_MAX ? static_cast<int64_t>(value) : -1; }

}  // namespace

std::string IndexPath(std::string_view prefix) { return std::string(prefix) + ".index"; }

std::string DataPath(std::string_view prefix, int64_t shard, int64_t shards) {
  char numbers[64];
  std::snprintf(numbers, sizeof(numbers), ".data-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(shards));
  return std::string(prefix) + numbers;
}

std::string TemporaryPath(std::string_view path) { return std::string(path) + ".tmp"; }

// ---- Messages ----

std::string BundleHeader::Serialize() const {
  sdk::WireWriter version, header;
  version.Varint(1, kProducer);
  header.Varint(1, static_cast<uint64_t>(shards));
  header.Bytes(3, version.bytes());
  return header.bytes();
}

BundleHeader BundleHeader::Parse(std::string_view bytes, std::string_view path) {
  BundleHeader header;
  header.shards = 0;
  uint64_t endianness = 0, min_consumer = 0;
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) header.shards = TakeCount(reader.varint());
    if (reader.field() == 2) endianness = reader.varint();
    if (reader.field() != 3) continue;
    sdk::WireReader version(reader.delimited());
    while (version.Next()) {
      if (version.field() == 2) min_consumer = version.varint();
    }
  }
  if (!reader.ok() || header.shards < 1) Fail(TENON_DATA_LOSS, "the checkpoint index ", path, " has no valid header");
  if (endianness != 0) {
    Fail(TENON_UNIMPLEMENTED, "the checkpoint ", path,
         " was written on a big-endian machine; only little-endian ones are read");
  }
  if (min_consumer > kProducer) {
    Fail(TENON_UNIMPLEMENTED, "the checkpoint ", path, " needs a reader of version ", min_consumer, "; this one is ",
         kProducer);
  }
  return header;
}

std::string BundleEntry::Serialize() const {
  sdk::WireWriter shape, entry;
  for (int64_t dim : dims) {
    sdk::WireWriter one;
    one.Varint(1, static_cast<uint64_t>(dim));
    shape.Bytes(2, one.bytes());
  }
  entry.Varint(1, dtype);
  entry.Bytes(2, shape.bytes());
  entry.Varint(3, static_cast<uint64_t>(shard));
  entry.Varint(4, offset);
  entry.Varint(5, size);
  entry.Fixed32(6, crc);
  for (const std::string& slice : slices) entry.Bytes(7, slice);
  return entry.bytes();
}

BundleEntry BundleEntry::Parse(std::string_view bytes, std::string_view name, std::string_view path) {
  BundleEntry entry;
  bool good = true;
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: entry.dtype = static_cast<uint32_t>(reader.varint()); break;
      case 2: {
        sdk::WireReader shape(reader.delimited());
        while (shape.Next()) {
          if (shape.field() == 3 && shape.varint() != 0) good = false;  // unknown rank
          if (shape.field() != 2) continue;
          int64_t size = 0;
          sdk::WireReader dim(shape.delimited());
          while (dim.Next()) {
            if (dim.field() == 1) size = static_cast<int64_t>(dim.varint());
          }
          good = good && dim.ok() && size >= 0 && entry.dims.size() < TENON_MAX_RANK;
          entry.dims.push_back(size);
        }
        good = good && shape.ok();
        break;
      }
      case 3: entry.shard = TakeCount(reader.varint()); break;
      case 4: entry.offset = reader.varint(); break;
      case 5: entry.size = reader.varint(); break;
      case 6: entry.crc = reader.fixed32(); break;
      case 7: entry.slices.emplace_back(reader.delimited()); break;
      default: break;
    }
  }
  if (!good || !reader.ok() || entry.shard < 0 || entry.offset > INT64_MAX || entry.size > INT64_MAX) {
    Fail(TENON_DATA_LOSS, "the checkpoint index ", path, " has no valid entry for tensor '", name, "'");
  }
  return entry;
}

void WriteIndex(const tenon_files& files, std::string_view prefix, const BundleHeader& header,
                const std::map<std::string, BundleEntry, std::less<>>& entries) {
  std::vector<TableEntry> table;
  table.reserve(entries.size() + 1);
  table.push_back({"", header.Serialize()});
  for (const auto& [name, entry] : entries) table.push_back({name, entry.Serialize()});
  const std::string bytes = BuildTable(table);
  const std::string path = TemporaryPath(IndexPath(prefix));
  sdk::SyncFolderOf(files, path);  // it may not be there before the data are
  sdk::File file = sdk::File::ForWriting(files, path);
  file.Write(bytes.data(), bytes.size());
  file.SyncAndClose();
}

bool WithdrawIndex(const tenon_files& files, std::string_view prefix) noexcept {
  return sdk::RemoveDurably(files, TemporaryPath(IndexPath(prefix)));
}

void Commit(const tenon_files& files, std::string_view prefix, const BundleHeader& header, Naming naming) {
  const std::string index = IndexPath(prefix);
  sdk::SyncFolderOf(files, index);  // from here on it counts, and no old data may be written over before
  for (int64_t shard = 0; shard < header.shards; ++shard)
    NameShard(files, prefix, DataPath(prefix, shard, header.shards), naming);
  sdk::SyncFolderOf(files, index);  // the index may not have its name before the data do
  sdk::Rename(files, TemporaryPath(index), index);
  sdk::SyncFolderOf(files, index);
}

void Recover(const tenon_files& files, std::string_view prefix, const Budget& budget) {
  const std::string path = TemporaryPath(IndexPath(prefix));
  if (!sdk::File::IfThere(files, path)) return;
  if (const auto index = LoadTemporaryIndex(files, prefix, budget)) {
    sdk::File::ForAppending(files, path).SyncAndClose();  // its writer may have ended before it was durable
    return Commit(files, prefix, index->header, Naming::kBegun);
  }
  sdk::Check(files.remove(sdk::ToSpan(path)));
  sdk::SyncFolderOf(files, path);
}

// ---- Writing ----

BundleWriter::BundleWriter(const tenon_files& files, std::string_view prefix, Budget budget)
    : files_(files), prefix_(prefix), budget_(std::move(budget)) {
  if (prefix_.empty()) Fail(TENON_INVALID_ARGUMENT, "the prefix of a checkpoint is empty");
  sdk::MakeFolders(files_, sdk::FolderOf(prefix_));
  lock_.emplace(files_, prefix_);
  Recover(files_, prefix_, budget_);
  // Made anew, for a crash may have left its file under another name too.
  const std::string data = TemporaryPath(DataPath(prefix_, 0, 1));
  sdk::RemoveIfThere(files_, data);
  data_.emplace(sdk::File::ForWriting(files_, data));
}

BundleWriter::~BundleWriter() {
  data_.reset();
  // Once the data have their name, the temporary index is what belongs to them; it stays for readers and Recover.
  const std::string data = TemporaryPath(DataPath(prefix_, 0, 1));
  if (files_.exists(sdk::ToSpan(data)) == 0) return;
  // The index first: it must never stand beside the old data.
  if (WithdrawIndex(files_, prefix_)) sdk::RemoveIfThere(files_, data);
}

void BundleWriter::Append(const void* data, uint64_t bytes) {
  written_ += bytes;
  if (buffer_.size() + bytes > kChunk) Flush();
  if (bytes >= kChunk) {
    data_->Write(data, bytes);
  } else {
    buffer_.append(static_cast<const char*>(data), bytes);
  }
}

void BundleWriter::Flush() {
  data_->Write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void BundleWriter::AddStrings(const tenon_tensor_view& tensor, BundleEntry& entry) {
  const std::vector<std::string_view> strings = sdk::StringsOf(tensor);
  std::string lengths;
  uint32_t crc = 0;
  for (std::string_view text : strings) {
    sdk::PutVarint(lengths, text.size());
    crc = ExtendWithLength(crc, text.size());
  }
  const uint32_t lengths_crc = sdk::MaskCrc32c(crc);
  sdk::PutFixed32(lengths, lengths_crc);
  crc = sdk::ExtendCrc32c(crc, &lengths_crc, 4);
  Append(lengths.data(), lengths.size());
  for (std::string_view text : strings) {
    crc = sdk::ExtendCrc32c(crc, text.data(), text.size());
    Append(text.data(), text.size());
  }
  entry.crc = sdk::MaskCrc32c(crc);
}

void BundleWriter::Add(std::string_view name, const tenon_tensor_view& tensor) {
  BundleEntry entry = Begin(name, sdk::BaseType(tensor.dtype), sdk::DimsOf(tensor));
  if (entry.dtype == TENON_DT_STRING) {
    AddStrings(tensor, entry);
  } else {
    const uint64_t element = sdk::ElementSize(entry.dtype);
    if (element == 0) {
      Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' of type ", sdk::TypeName(entry.dtype),
           " cannot be saved; numbers, booleans and strings can");
    }
    const uint64_t bytes = static_cast<uint64_t>(sdk::Multiply(sdk::Count(tensor), static_cast<int64_t>(element)));
    const char* data = sdk::Data<const char>(tensor);
    uint32_t crc = 0;
    for (uint64_t at = 0; at < bytes; at += kChunk) {
      const uint64_t part = std::min(kChunk, bytes - at);
      budget_.poll();
      crc = sdk::ExtendCrc32c(crc, data + at, part);
      Append(data + at, part);
    }
    entry.crc = sdk::MaskCrc32c(crc);
  }
  End(name, std::move(entry));
}

BundleEntry BundleWriter::Begin(std::string_view name, uint32_t dtype, sdk::Dims dims) const {
  if (name.empty()) Fail(TENON_INVALID_ARGUMENT, "a tensor without a name cannot be saved");
  if (entries_.count(name) != 0) Fail(TENON_ALREADY_EXISTS, "tensor '", name, "' is to be saved twice in ", prefix_);
  BundleEntry entry;
  entry.dtype = dtype;
  entry.dims.assign(dims.begin(), dims.end());
  entry.offset = written_;
  return entry;
}
void BundleWriter::End(std::string_view name, BundleEntry entry) {
  entry.size = written_ - entry.offset;
  entries_.emplace(name, std::move(entry));
}

// Of each its length, its bytes and the checksum of all so far; the length counts as 8 bytes in that.
void BundleWriter::AddVariants(std::string_view name, sdk::Dims dims, std::span<const std::pmr::string> variants) {
  BundleEntry entry = Begin(name, TENON_DT_VARIANT, dims);
  uint32_t crc = 0;
  for (const std::pmr::string& bytes : variants) {
    std::string length;
    sdk::PutVarint(length, bytes.size());
    Append(length.data(), length.size());
    const uint64_t size = bytes.size();
    crc = sdk::ExtendCrc32c(crc, &size, sizeof size);
    for (uint64_t at = 0; at < size; at += kChunk) {
      budget_.poll();
      Append(bytes.data() + at, std::min(kChunk, size - at));
    }
    crc = sdk::ExtendCrc32c(crc, bytes.data(), bytes.size());
    const uint32_t masked = sdk::MaskCrc32c(crc);
    Append(&masked, sizeof masked);
    crc = sdk::ExtendCrc32c(crc, &masked, sizeof masked);
  }
  entry.crc = sdk::MaskCrc32c(crc);
  End(name, std::move(entry));
}

void BundleWriter::AddSlice(std::string_view name, sdk::Dims dims, const Slice& slice,
                            const tenon_tensor_view& tensor) {
  BundleEntry whole;
  whole.dtype = sdk::BaseType(tensor.dtype);
  whole.dims.assign(dims.begin(), dims.end());
  const auto [at, fresh] = entries_.emplace(name, whole);
  BundleEntry& entry = at->second;
  const std::string key = slice.Key(name);
  if (!fresh &&
      (entry.slices.empty() || entry.dtype != whole.dtype || entry.dims != whole.dims || entries_.count(key) != 0)) {
    Fail(TENON_ALREADY_EXISTS, "tensor '", name, "' is to be saved twice in ", prefix_);
  }
  entry.slices.push_back(slice.Serialize());
  Add(key, tensor);
}

void BundleWriter::Finish() {
  Flush();
  data_->SyncAndClose();
  const BundleHeader header{1};
  budget_.poll();
  WriteIndex(files_, prefix_, header, entries_);
  budget_.poll();
  Commit(files_, prefix_, header);
  lock_->Release();
}

// ---- Reading ----

BundleReader::BundleReader(const tenon_files& files, std::string_view prefix, Budget budget)
    : files_(files), prefix_(prefix), budget_(std::move(budget)) {
  index_.emplace(LoadIndex(files_, prefix_, budget_, &index_path_));
}

bool BundleReader::Superseded() const {
  std::string path;
  const BundleIndex now = LoadIndex(files_, prefix_, budget_, &path);
  const auto same = [](const Table::Entry& a, const Table::Entry& b) { return a.key == b.key && a.value == b.value; };
  return !std::ranges::equal(now.table.entries(), index_->table.entries(), same);
}

BundleEntry BundleReader::Find(std::string_view name) const {
  const auto entries = raw_entries();
  const auto at = std::lower_bound(entries.begin(), entries.end(), name,
                                   [](const Table::Entry& entry, std::string_view key) { return entry.key < key; });
  if (at == entries.end() || at->key != name) {
    Fail(TENON_NOT_FOUND, "tensor '", name, "' is not in the checkpoint ", prefix_, ", which has ", entries.size(),
         " tensors", at == entries.end() ? std::string() : "; the next name there is '" + std::string(at->key) + "'");
  }
  return BundleEntry::Parse(at->value, name, index_path_);
}

std::vector<StoredSlice> BundleReader::FindParts(const std::string& name, const BundleEntry& entry,
                                                 const Slice& wanted) {
  std::vector<StoredSlice> parts;
  if (entry.slices.empty()) parts.push_back({Slice::Whole(entry.dims), name, entry});
  if (entry.slices.size() > kMostSlices) {
    Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' is stored in ", entry.slices.size(), " slices in ", index_path_,
         "; at most ", kMostSlices, " are read");
  }
  int64_t found = 0;
  for (const std::string& bytes : entry.slices) {
    budget_.poll();
    const Slice slice = Slice::Parse(bytes, entry.dims, name);
    Slice common;
    if (!slice.Intersect(wanted, &common)) continue;
    Slice overlap;
    const bool twice = std::any_of(parts.begin(), parts.end(),
                                   [&](const StoredSlice& part) { return part.slice.Intersect(common, &overlap); });
    if (twice) Fail(TENON_DATA_LOSS, "slices of tensor '", name, "' in ", index_path_, " overlap");
    const std::string key = slice.Key(name);
    parts.push_back({slice, key, Find(key)});
    if (parts.back().entry.dtype != entry.dtype || parts.back().entry.dims != slice.length) {
      Fail(TENON_DATA_LOSS, "a slice of tensor '", name, "' in ", index_path_, " is not what the tensor's entry says");
    }
    found += common.elements();
  }
  for (const StoredSlice& part : parts) {
    budget_.poll();
    CheckedCount(part.key, part.entry);
    CheckBounds(part.key, part.entry);
  }
  if (!entry.slices.empty() && found != wanted.elements()) {
    Fail(TENON_DATA_LOSS, "of tensor '", name, "' in ", index_path_, " ", found, " of ", wanted.elements(),
         " elements are stored");
  }
  return parts;
}

int64_t BundleReader::CheckedCount(std::string_view name, const BundleEntry& entry) const {
  int64_t count = 1;
  for (int64_t dim : entry.dims) {
    if (__builtin_mul_overflow(count, dim, &count)) count = -1;
    if (count < 0) break;
  }
  if (std::find(entry.dims.begin(), entry.dims.end(), 0) != entry.dims.end()) count = 0;
  const uint64_t element = sdk::ElementSize(entry.dtype);
  uint64_t bytes = 0;
  const bool overflow = count < 0 || __builtin_mul_overflow(static_cast<uint64_t>(count), element, &bytes);
  // Each string takes one byte for its length at least, and all together 4 for the lengths' checksum; each variant has
  // one of its own.
  const bool fits = entry.dtype == TENON_DT_STRING ? entry.size >= 4 && static_cast<uint64_t>(count) <= entry.size - 4
                    : entry.dtype == TENON_DT_VARIANT ? static_cast<uint64_t>(count) <= entry.size / 5
                                                      : bytes == entry.size;
  if (overflow || !fits) {
    Fail(TENON_DATA_LOSS, "tensor '", name, "' of type ", sdk::TypeName(entry.dtype), " and shape ", entry.dims,
         " cannot take ", entry.size, " bytes, as ", index_path_, " says");
  }
  return count;
}

sdk::File BundleReader::OpenShard(int64_t shard) const {
  const std::string path = DataPath(prefix_, shard, header().shards);
  const bool committing = index_path_ != IndexPath(prefix_);
  if (committing) {
    if (auto file = sdk::File::IfThere(files_, TemporaryPath(path))) return *std::move(file);
  }
  return sdk::File::ForReading(files_, path);
}

const sdk::File& BundleReader::Shard(std::string_view name, const BundleEntry& entry) {
  if (entry.shard >= header().shards) {
    Fail(TENON_DATA_LOSS, "tensor '", name, "' stands in shard ", entry.shard, " of ", header().shards, ", as ",
         index_path_, " says");
  }
  auto at = shards_.find(entry.shard);
  if (at == shards_.end()) {
    at = shards_.emplace(entry.shard, OpenShard(entry.shard)).first;
  }
  const uint64_t size = at->second.size();
  if (entry.offset > size || entry.size > size - entry.offset) {
    Fail(TENON_DATA_LOSS, "tensor '", name, "' stands in ", at->second.path(), " at bytes ", entry.offset, " to ",
         entry.offset + entry.size, ", but the file ends at ", size);
  }
  return at->second;
}

void BundleReader::Read(std::string_view name, const BundleEntry& entry, void* target) {
  const sdk::File& file = Shard(name, entry);
  uint32_t crc = 0;
  for (uint64_t at = 0; at < entry.size; at += kChunk) {
    const uint64_t part = std::min(kChunk, entry.size - at);
    budget_.poll();
    file.ReadAt(entry.offset + at, static_cast<char*>(target) + at, part);
    crc = sdk::ExtendCrc32c(crc, static_cast<char*>(target) + at, part);
  }
  if (crc != sdk::UnmaskCrc32c(entry.crc)) {
    Fail(TENON_DATA_LOSS, "tensor '", name, "' in ", file.path(), " at byte ", entry.offset, " (", entry.size,
         " bytes) is damaged: its checksum is ", crc, ", but ", sdk::UnmaskCrc32c(entry.crc), " was stored");
  }
}

std::pmr::vector<std::string_view> BundleReader::ReadStrings(std::string_view name, const BundleEntry& entry,
                                                             std::pmr::string* storage) {
  const int64_t count = CheckedCount(name, entry);
  const sdk::File& file = ReadBytes(name, entry, storage);
  const auto damaged = [&](const char* what) { Damaged(name, entry, file, what); };
  std::string_view rest = *storage;
  std::pmr::vector<uint64_t> lengths(static_cast<size_t>(count), budget_.memory);
  uint32_t crc = 0;
  for (uint64_t& length : lengths) {
    if (!sdk::TakeVarint(rest, &length)) damaged("the lengths of its strings do not fit");
    crc = ExtendWithLength(crc, length);
  }
  uint32_t stored = 0;
  if (!sdk::TakeFixed32(rest, &stored)) damaged("the checksum of the strings' lengths is missing");
  if (crc != sdk::UnmaskCrc32c(stored)) damaged("the checksum of the strings' lengths differs");
  crc = sdk::ExtendCrc32c(crc, &stored, 4);
  crc = sdk::ExtendCrc32c(crc, rest.data(), rest.size());
  if (crc != sdk::UnmaskCrc32c(entry.crc)) damaged("its checksum differs");
  std::pmr::vector<std::string_view> strings(budget_.memory);
  strings.reserve(lengths.size());
  for (uint64_t length : lengths) {
    if (length > rest.size()) damaged("a string is longer than what is there");
    strings.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) damaged("there are bytes after the last string");
  return strings;
}

const sdk::File& BundleReader::ReadBytes(std::string_view name, const BundleEntry& entry, std::pmr::string* storage) {
  const sdk::File& file = Shard(name, entry);
  storage->resize(entry.size);
  for (uint64_t at = 0; at < entry.size; at += kChunk) {
    budget_.poll();
    file.ReadAt(entry.offset + at, storage->data() + at, std::min(kChunk, entry.size - at));
  }
  return file;
}

void BundleReader::Damaged(std::string_view name, const BundleEntry& entry, const sdk::File& file,
                           std::string_view what) {
  Fail(TENON_DATA_LOSS, "tensor '", name, "' in ", file.path(), " at byte ", entry.offset, " (", entry.size,
       " bytes) is damaged: ", what);
}

std::pmr::vector<std::string_view> BundleReader::ReadVariants(std::string_view name, const BundleEntry& entry,
                                                              std::pmr::string* storage) {
  const int64_t count = CheckedCount(name, entry);
  const sdk::File& file = ReadBytes(name, entry, storage);
  std::string_view rest = *storage;
  std::pmr::vector<std::string_view> variants(budget_.memory);
  uint32_t crc = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t size = 0;
    if (!sdk::TakeVarint(rest, &size) || size > rest.size())
      Damaged(name, entry, file, "a variant is longer than what is there");
    variants.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
    crc = sdk::ExtendCrc32c(crc, &size, sizeof size);
    crc = sdk::ExtendCrc32c(crc, variants.back().data(), size);
    uint32_t stored = 0;
    if (!sdk::TakeFixed32(rest, &stored) || crc != sdk::UnmaskCrc32c(stored))
      Damaged(name, entry, file, "a variant's checksum differs");
    crc = sdk::ExtendCrc32c(crc, &stored, sizeof stored);
  }
  if (!rest.empty()) Damaged(name, entry, file, "there are bytes after the last variant");
  if (crc != sdk::UnmaskCrc32c(entry.crc)) Damaged(name, entry, file, "its checksum differs");
  return variants;
}

}  // namespace tenon::ops::io
