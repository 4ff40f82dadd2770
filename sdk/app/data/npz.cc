// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/npz.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>

#include "tenon/data/file.h"
#include "tenon/data/npy.h"

namespace tenon::data {
namespace {

// ZIP's records, by their signatures (APPNOTE.TXT 6.3.10, section 4.3).
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kEnd64Locator = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64LocatorSize = 20, kEnd64Size = 56;
constexpr uint16_t kStored = 0, kDeflated = 8, kZip64Extra = 1;
constexpr uint32_t kIn64 = 0xffffffff;
constexpr uint64_t kMaxDeflateRatio = 1032;  // no deflated byte gives more

Status BadArchive(const std::string& text) { return Status(Code::kInvalidArgument, "not a usable .npz file: " + text); }

// Little-endian numbers at places that were checked to exist.
template <typename T>
T Get(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

using Member = NpzMember;

// Where the central directory is, and how many members it has.
struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

Result<Directory> FindDirectory(std::string_view bytes) {
  if (bytes.empty()) return BadArchive("it is empty");
  if (bytes.starts_with("\x93NUMPY")) return BadArchive("it is one array, as .npy files are; name it NAME=FILE.npy");
  if (bytes.size() < kEndSize) return BadArchive("it is too short for a ZIP archive");
  // The end record stands before a comment of at most 64 KiB.
  const size_t first = bytes.size() > kEndSize + 0xffff ? bytes.size() - kEndSize - 0xffff : 0;
  size_t at = bytes.size() - kEndSize;
  while (Get<uint32_t>(bytes, at) != kEnd) {
    if (at == first) return BadArchive("it has no end of a ZIP archive; was it cut off?");
    --at;
  }
  Directory directory{Get<uint32_t>(bytes, at + 16), Get<uint32_t>(bytes, at + 12), Get<uint16_t>(bytes, at + 10)};
  const bool split = Get<uint16_t>(bytes, at + 4) != 0;
  if (split) return BadArchive("it is one part of a split archive");
  if (at >= kEnd64LocatorSize && Get<uint32_t>(bytes, at - kEnd64LocatorSize) == kEnd64Locator) {
    const auto end64 = Get<uint64_t>(bytes, at - kEnd64LocatorSize + 8);
    if (bytes.size() < kEnd64Size || end64 > bytes.size() - kEnd64Size || Get<uint32_t>(bytes, end64) != kEnd64) {
      return BadArchive("its ZIP64 end record is missing");
    }
    directory = {Get<uint64_t>(bytes, end64 + 48), Get<uint64_t>(bytes, end64 + 40), Get<uint64_t>(bytes, end64 + 32)};
  }
  if (directory.offset > bytes.size() || directory.size > bytes.size() - directory.offset) {
    return BadArchive("its directory lies outside the file");
  }
  return directory;
}

// Sizes beyond 32 bits stand in an extra field, each only where the short field says so.
Status ReadZip64(std::string_view extra, Member& member, bool in64_size, bool in64_packed, bool in64_local) {
  size_t at = 0;
  while (at + 4 <= extra.size()) {
    const auto id = Get<uint16_t>(extra, at);
    const size_t size = Get<uint16_t>(extra, at + 2);
    at += 4;
    if (size > extra.size() - at) break;
    if (id == kZip64Extra) {
      std::string_view field = extra.substr(at, size);
      for (auto [wanted, value] :
           {std::pair{in64_size, &member.size}, {in64_packed, &member.packed}, {in64_local, &member.local}}) {
        if (!wanted) continue;
        if (field.size() < 8) return BadArchive("a ZIP64 field is too short");
        *value = Get<uint64_t>(field, 0);
        field.remove_prefix(8);
      }
      return Status();
    }
    at += size;
  }
  return BadArchive("a ZIP64 field is missing");
}

Result<std::vector<Member>> ReadDirectory(std::string_view bytes) {
  TENON_TRY_ASSIGN(const Directory directory, FindDirectory(bytes));
  std::string_view rest = bytes.substr(directory.offset, directory.size);
  std::vector<Member> members;
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kCentralSize || Get<uint32_t>(rest, 0) != kCentral) return BadArchive("its directory is damaged");
    Member member;
    member.flags = Get<uint16_t>(rest, 8);
    member.method = Get<uint16_t>(rest, 10);
    member.crc = Get<uint32_t>(rest, 16);
    member.packed = Get<uint32_t>(rest, 20);
    member.size = Get<uint32_t>(rest, 24);
    member.local = Get<uint32_t>(rest, 42);
    const size_t name = Get<uint16_t>(rest, 28), extra = Get<uint16_t>(rest, 30), comment = Get<uint16_t>(rest, 32);
    if (rest.size() - kCentralSize < name + extra + comment) return BadArchive("its directory is damaged");
    member.name = rest.substr(kCentralSize, name);
    const bool in64[] = {member.size == kIn64, member.packed == kIn64, member.local == kIn64};
    if (in64[0] || in64[1] || in64[2]) {
      TENON_TRY(ReadZip64(rest.substr(kCentralSize + name, extra), member, in64[0], in64[1], in64[2]));
    }
    members.push_back(member);
    rest.remove_prefix(kCentralSize + name + extra + comment);
  }
  return members;
}

Result<std::string> Inflate(std::string_view packed, uint64_t size) {
  if (size / kMaxDeflateRatio > packed.size())
    return BadArchive("a member claims to be larger than deflate can make it");
  std::string out(size, '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Status(Code::kResourceExhausted, "zlib could not start");
  int outcome = Z_OK;
  size_t in = 0, written = 0;
  char beyond = 0;  // somewhere to write when `out` is full, so that a member that is too long is seen
  while (outcome == Z_OK) {
    const size_t feed = std::min<size_t>(packed.size() - in, 1u << 30);
    const size_t room = std::min<size_t>(out.size() - written, 1u << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
    stream.avail_in = static_cast<uInt>(feed);
    stream.next_out = reinterpret_cast<Bytef*>(room > 0 ? out.data() + written : &beyond);
    stream.avail_out = static_cast<uInt>(room > 0 ? room : 1);
    outcome = inflate(&stream, Z_NO_FLUSH);
    in += feed - stream.avail_in;
    if (room == 0 && stream.avail_out == 0) break;
    if (room > 0) written += room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (outcome != Z_STREAM_END || written != size) return BadArchive("a member's deflated bytes are damaged");
  return out;
}

Status CheckCrc(std::string_view bytes, uint32_t wanted, std::string_view name) {
  uLong crc = crc32(0, nullptr, 0);
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc == wanted) return Status();
  return Status(Code::kDataLoss, "member '" + std::string(name) + "': its checksum is wrong; the file is damaged");
}

// Where the member's packed bytes begin.
Result<uint64_t> DataOf(std::string_view bytes, const Member& member) {
  if (bytes.size() < kLocalSize || member.local > bytes.size() - kLocalSize ||
      Get<uint32_t>(bytes, member.local) != kLocal) {
    return BadArchive("member '" + std::string(member.name) + "' is not where the directory says");
  }
  const size_t names = size_t{Get<uint16_t>(bytes, member.local + 26)} + Get<uint16_t>(bytes, member.local + 28);
  const uint64_t data = member.local + kLocalSize + names;
  if (data > bytes.size() || member.packed > bytes.size() - data) {
    return BadArchive("member '" + std::string(member.name) + "' goes beyond the end of the file");
  }
  return data;
}

// No byte of the file is two members'.
Status CheckOverlap(std::string_view bytes, const std::vector<Member>& members) {
  std::vector<const Member*> by_place;
  for (const Member& member : members) by_place.push_back(&member);
  std::sort(by_place.begin(), by_place.end(), [](const Member* a, const Member* b) { return a->local < b->local; });
  uint64_t end = 0;
  for (const Member* member : by_place) {
    TENON_TRY_ASSIGN(const uint64_t data, DataOf(bytes, *member));
    if (member->local < end) return BadArchive("member '" + std::string(member->name) + "' overlaps another one");
    end = data + member->packed;
  }
  return Status();
}

Result<Tensor> ReadMember(std::string_view bytes, const Member& member, ReadLimit& limit) {
  if ((member.flags & 1) != 0) return BadArchive("member '" + std::string(member.name) + "' is encrypted");
  TENON_TRY_ASSIGN(const uint64_t data, DataOf(bytes, member));
  const std::string_view packed = bytes.substr(data, member.packed);
  if (member.method == kStored) {
    if (member.packed != member.size) return BadArchive("a stored member has two sizes");
    TENON_TRY(limit.Check(member.size, "it"));
    TENON_TRY(CheckCrc(packed, member.crc, member.name));
    return ParseNpy(packed, limit);
  }
  if (member.method != kDeflated) {
    return BadArchive("member '" + std::string(member.name) + "' is packed by method " + std::to_string(member.method) +
               "; 0 (stored) and 8 (deflated) can be read");
  }
  TENON_TRY(limit.Check(member.size, "it, unpacked,"));
  TENON_TRY_ASSIGN(const std::string unpacked, Inflate(packed, member.size));
  TENON_TRY(CheckCrc(unpacked, member.crc, member.name));
  return ParseNpy(unpacked, limit);
}

// Appends numbers as ZIP holds them.
class ZipWriter {
 public:
  ZipWriter& U16(uint64_t value) { return Number(value, 2); }
  ZipWriter& U32(uint64_t value) { return Number(value, 4); }
  ZipWriter& U64(uint64_t value) { return Number(value, 8); }
  ZipWriter& Text(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  ZipWriter& Number(uint64_t value, size_t size) {
    bytes_.append(reinterpret_cast<const char*>(&value), size);
    return *this;
  }
  std::string bytes_;
};

constexpr uint64_t kVersion = 45;         // needed to extract: ZIP64
constexpr uint64_t kDate = (1 << 5) | 1;  // 1 January 1980, so that equal arrays give equal files

// The local header, or the directory's entry, of a stored member; sizes always in the ZIP64 field.
std::string MemberHeader(const Member& member, bool central) {
  ZipWriter out;
  out.U32(central ? kCentral : kLocal);
  if (central) out.U16(kVersion);
  out.U16(kVersion).U16(0).U16(kStored).U16(0).U16(kDate).U32(member.crc).U32(kIn64).U32(kIn64);
  out.U16(member.name.size()).U16(central ? 28 : 20);
  if (central) out.U16(0).U16(0).U16(0).U32(0).U32(kIn64);
  out.Text(member.name).U16(kZip64Extra).U16(central ? 24 : 16).U64(member.size).U64(member.packed);
  if (central) out.U64(member.local);
  return out.bytes();
}

std::string EndRecords(uint64_t count, uint64_t offset, uint64_t size) {
  ZipWriter out;
  out.U32(kEnd64)
      .U64(kEnd64Size - 12)
      .U16(kVersion)
      .U16(kVersion)
      .U32(0)
      .U32(0)
      .U64(count)
      .U64(count)
      .U64(size)
      .U64(offset);
  out.U32(kEnd64Locator).U32(0).U64(offset + size).U32(1);
  const uint64_t short_count = std::min<uint64_t>(count, 0xffff);
  out.U32(kEnd).U16(0).U16(0).U16(short_count).U16(short_count).U32(std::min<uint64_t>(size, kIn64));
  out.U32(std::min<uint64_t>(offset, kIn64)).U16(0);
  return out.bytes();
}

}  // namespace

Result<NpzArchive> NpzArchive::Parse(std::string_view bytes) {
  NpzArchive archive;
  archive.bytes_ = bytes;
  TENON_TRY_ASSIGN(archive.members_, ReadDirectory(bytes));
  TENON_TRY(CheckOverlap(bytes, archive.members_));
  return archive;
}

Result<NpzArchive> NpzArchive::Open(const std::string& path, const ReadLimit& limit) {
  TENON_TRY_ASSIGN(MappedFile mapped, MappedFile::Open(path, limit));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  Result<NpzArchive> archive = Parse(file->bytes());
  if (!archive.ok()) return archive.status().Annotate("'" + path + "'");
  archive->path_ = path;
  archive->file_ = file;
  return archive;
}

std::string_view NpzArchive::name(size_t index) const {
  const std::string_view name = members_[index].name;
  return name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

Status NpzArchive::Annotate(const Status& status, size_t index) const {
  const Status named = status.Annotate("array '" + std::string(name(index)) + "'");
  return path_.empty() ? named : named.Annotate("'" + path_ + "'");
}

Result<Tensor> NpzArchive::Read(size_t index, ReadLimit& limit) const {
  Result<Tensor> tensor = ReadMember(bytes_, members_[index], limit);
  if (!tensor.ok()) return Annotate(tensor.status(), index);
  return tensor;
}

Result<NamedTensors> NpzArchive::ReadAll(ReadLimit& limit) const {
  NamedTensors tensors;
  for (size_t i = 0; i < members_.size(); ++i) {
    TENON_TRY_ASSIGN(Tensor tensor, Read(i, limit));
    tensors.emplace_back(name(i), std::move(tensor));
  }
  return tensors;
}

Result<NamedTensors> ParseNpz(std::string_view bytes) {
  ReadLimit limit;
  TENON_TRY_ASSIGN(const NpzArchive archive, NpzArchive::Parse(bytes));
  return archive.ReadAll(limit);
}

Result<NamedTensors> ReadNpz(const std::string& path) {
  ReadLimit limit;
  TENON_TRY_ASSIGN(const NpzArchive archive, NpzArchive::Open(path, limit));
  return archive.ReadAll(limit);
}

Status WriteNpz(const std::string& path, const NamedTensors& tensors) {
  std::deque<std::string> texts;  // what the pieces point into
  std::vector<std::string_view> pieces;
  std::string directory;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    Result<std::string> header = NpyHeader(tensor);
    if (!header.ok()) return header.status().Annotate("'" + path + "', array '" + name + "'");
    const std::string_view head = texts.emplace_back(*std::move(header));
    const std::string_view elements = NpyElements(tensor, &texts.emplace_back());
    const std::string& member_name = texts.emplace_back(name + ".npy");
    Member member;
    member.name = member_name;
    uLong crc = crc32_z(crc32(0, nullptr, 0), reinterpret_cast<const Bytef*>(head.data()), head.size());
    crc = elements.empty() ? crc : crc32_z(crc, reinterpret_cast<const Bytef*>(elements.data()), elements.size());
    member.crc = static_cast<uint32_t>(crc);
    member.size = member.packed = head.size() + elements.size();
    member.local = offset;
    directory += MemberHeader(member, true);
    const std::string& local = texts.emplace_back(MemberHeader(member, false));
    pieces.insert(pieces.end(), {local, head, elements});
    offset += local.size() + member.size;
  }
  const std::string& end = texts.emplace_back(EndRecords(tensors.size(), offset, directory.size()));
  pieces.insert(pieces.end(), {directory, end});
  return ReplaceFile(path, pieces, Durability::kQuick);
}

}  // namespace tenon::data
