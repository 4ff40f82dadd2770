// SPDX-License-Identifier: Apache-2.0
#include "plugins/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <type_traits>

namespace tenon::plugins {
namespace {

constexpr uint64_t kMaxTableBytes = 4u << 20;  // of section and program headers, and of .dynamic
constexpr uint64_t kMaxNeeded = 1024;
constexpr uint64_t kMaxNameBytes = 4096;
constexpr uint32_t kNoteType = 1;
constexpr char kNoteOwner[] = "Tenon";

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_NONE;  // any
#endif

FileStamp StampFrom(const struct stat& state) {
  const auto nanoseconds = [](const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; };
  return {{state.st_dev, state.st_ino}, static_cast<uint64_t>(state.st_size), nanoseconds(state.st_mtim), nanoseconds(state.st_ctim)};
}

// An open regular file, read by position.
class File {
 public:
  explicit File(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat state;
    if (descriptor_ < 0 || fstat(descriptor_, &state) != 0) {
      error_ = errno;
      return;
    }
    if (!S_ISREG(state.st_mode)) {
      error_ = S_ISDIR(state.st_mode) ? EISDIR : EINVAL;
      return;
    }
    size_ = static_cast<uint64_t>(state.st_size);
    stamp_ = StampFrom(state);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int error() const { return error_; }
  uint64_t size() const { return size_; }
  const FileStamp& stamp() const { return stamp_; }
  bool Contains(uint64_t offset, uint64_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }

  // Reads exactly `bytes`, or nothing.
  bool Read(uint64_t offset, uint64_t bytes, void* target) const {
    if (!Contains(offset, bytes)) return false;
    char* out = static_cast<char*>(target);
    while (bytes > 0) {
      const ssize_t got = pread(descriptor_, out, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      out += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
    }
    return true;
  }

  template <typename Row>
  bool ReadTable(uint64_t offset, uint64_t count, std::vector<Row>* out) const {
    static_assert(std::is_trivially_copyable_v<Row>);
    if (count > kMaxTableBytes / sizeof(Row) || !Contains(offset, count * sizeof(Row))) return false;
    out->resize(count);
    return Read(offset, count * sizeof(Row), out->data());
  }

  // The NUL-terminated string at offset, which must end before `end` and the file's end.
  std::optional<std::string> ReadString(uint64_t offset, uint64_t end) const {
    if (end > size_) end = size_;
    if (offset >= end) return std::nullopt;
    std::string text(std::min(end - offset, kMaxNameBytes), '\0');
    if (!Read(offset, text.size(), text.data())) return std::nullopt;
    const size_t length = text.find('\0');
    if (length == std::string::npos) return std::nullopt;
    text.resize(length);
    return text;
  }

 private:
  int descriptor_;
  int error_ = 0;
  uint64_t size_ = 0;
  FileStamp stamp_;
};

// Where the bytes that will be mapped at an address stand in the file.
std::optional<uint64_t> FileOffset(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

// Appends the names of DT_NEEDED. Empty text: done; else what is wrong.
std::string ReadNeeded(const File& file, const std::vector<Elf64_Phdr>& segments, std::vector<std::string>* out) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    std::vector<Elf64_Dyn> entries;
    if (!file.ReadTable(segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn), &entries)) {
      return "its dynamic section stands outside the file";
    }
    uint64_t strings_address = 0, strings_size = 0;
    std::vector<uint64_t> names;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_STRTAB) strings_address = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) strings_size = entry.d_un.d_val;
      if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
    }
    if (names.size() > kMaxNeeded) return "it names too many libraries";
    if (names.empty()) continue;
    const std::optional<uint64_t> strings = FileOffset(segments, strings_address);
    if (!strings || !file.Contains(*strings, strings_size)) return "its string table stands outside the file";
    for (const uint64_t name : names) {
      std::optional<std::string> text;
      if (name < strings_size) text = file.ReadString(*strings + name, *strings + strings_size);
      if (!text) return "the name of a needed library stands outside its string table";
      out->push_back(*std::move(text));
    }
  }
  return {};
}

// Looks for our note in one section of notes. Empty text: no error.
std::string ReadNotes(const File& file, const Elf64_Shdr& section, std::optional<std::string>* out) {
  if (section.sh_size > kMaxManifestBytes + 64 || !file.Contains(section.sh_offset, section.sh_size)) {
    return "a section of notes stands outside the file or is too large";
  }
  std::string bytes(section.sh_size, '\0');
  if (!file.Read(section.sh_offset, bytes.size(), bytes.data())) return "a section of notes cannot be read";
  const auto padded = [](uint64_t size) { return (size + 3) & ~uint64_t{3}; };
  uint64_t at = 0;
  while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    at += sizeof(header);
    const uint64_t description = padded(header.n_namesz);
    const uint64_t left = bytes.size() - at;
    if (description > left || header.n_descsz > left - description) return "a note is longer than its section";
    if (header.n_type == kNoteType && header.n_namesz == sizeof(kNoteOwner) &&
        std::memcmp(bytes.data() + at, kNoteOwner, sizeof(kNoteOwner)) == 0) {
      if (out->has_value()) return "it has two manifests";
      *out = bytes.substr(at + description, header.n_descsz);
    }
    at += std::min(description + padded(header.n_descsz), left);
  }
  return {};
}

std::optional<ElfSummary> Refuse(LoadReport* report, const std::string& path, Reason reason, std::string text) {
  const char* hint = reason == Reason::kDamaged             ? "build or copy the library again"
                     : reason == Reason::kWrongArchitecture ? "build the library for this machine"
                     : reason == Reason::kNotALibrary       ? "name a shared library that tenon_add_plugin built"
                                                            : "check the path and its permissions";
  *report = Reject(path, reason, std::move(text), hint);
  return std::nullopt;
}

std::optional<ElfSummary> ReadOpened(const File& file, const std::string& path, LoadReport* report) {
  Elf64_Ehdr header;
  if (file.size() < SELFMAG || !file.Read(0, std::min<uint64_t>(file.size(), sizeof(header)), &header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return Refuse(report, path, Reason::kNotALibrary, "it is not an ELF file");
  }
  if (file.size() < sizeof(header)) return Refuse(report, path, Reason::kDamaged, "it ends within its ELF header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      (kMachine != EM_NONE && header.e_machine != kMachine)) {
    return Refuse(report, path, Reason::kWrongArchitecture,
                  StrCat("it was built for another machine (ELF machine ", header.e_machine, ", this is ", kMachine, ")"));
  }
  if (header.e_type != ET_DYN) return Refuse(report, path, Reason::kNotALibrary, "it is an ELF file but no shared library");

  ElfSummary summary;
  summary.identity = file.stamp().identity;
  summary.stamp = file.stamp();
  std::vector<Elf64_Phdr> segments;
  if (header.e_phentsize != sizeof(Elf64_Phdr) || !file.ReadTable(header.e_phoff, header.e_phnum, &segments)) {
    return Refuse(report, path, Reason::kDamaged, "its program headers stand outside the file");
  }
  for (const Elf64_Phdr& segment : segments) {
    // The system maps such a file and sends SIGBUS at the first touch.
    if (segment.p_type == PT_LOAD && !file.Contains(segment.p_offset, segment.p_filesz)) {
      return Refuse(report, path, Reason::kDamaged, "it is cut off: a segment ends after the file");
    }
  }
  std::string wrong = ReadNeeded(file, segments, &summary.needed);
  if (!wrong.empty()) return Refuse(report, path, Reason::kDamaged, std::move(wrong));

  if (header.e_shnum == 0) return summary;  // stripped of sections: no note
  std::vector<Elf64_Shdr> sections;
  if (header.e_shentsize != sizeof(Elf64_Shdr) || !file.ReadTable(header.e_shoff, header.e_shnum, &sections)) {
    return Refuse(report, path, Reason::kDamaged, "it is cut off: its section headers stand outside the file");
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_NOTE) continue;
    wrong = ReadNotes(file, section, &summary.note);
    if (!wrong.empty()) return Refuse(report, path, Reason::kDamaged, std::move(wrong));
  }
  return summary;
}

}  // namespace

std::optional<FileStamp> StampOf(const std::string& path) {
  struct stat state;
  if (stat(path.c_str(), &state) != 0) return std::nullopt;
  return StampFrom(state);
}

std::optional<ElfSummary> ReadElf(const std::string& path, LoadReport* out_report) {
  const File file(path);
  if (file.error() == ENOENT || file.error() == ENOTDIR) {
    return Refuse(out_report, path, Reason::kNotFound, "there is no such file");
  }
  if (file.error() != 0) {
    return Refuse(out_report, path, Reason::kUnreadable, StrCat("it cannot be read: ", std::strerror(file.error())));
  }
  return ReadOpened(file, path, out_report);
}

std::optional<std::string> ReadSmallFile(const std::string& path, bool* out_exists, std::string* out_error) {
  const File file(path);
  *out_exists = file.error() != ENOENT && file.error() != ENOTDIR;
  if (file.error() != 0) {
    *out_error = std::strerror(file.error());
    return std::nullopt;
  }
  if (file.size() > kMaxManifestBytes) {
    *out_error = StrCat("it has ", file.size(), " bytes; at most ", kMaxManifestBytes, " are read");
    return std::nullopt;
  }
  std::string text(file.size(), '\0');
  if (!file.Read(0, text.size(), text.data())) {
    *out_error = "it changed while it was read";
    return std::nullopt;
  }
  return text;
}

}  // namespace tenon::plugins
