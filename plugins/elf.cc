// SPDX-License-Identifier: Apache-2.0
#include "plugins/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "tenon/abi.h"

namespace tenon::plugins {
namespace {

constexpr uint64_t kMaxTableBytes = 4u << 20;  // of section and program headers, and of .dynamic
constexpr uint64_t kMaxNeeded = 1024;
constexpr uint64_t kMaxNameBytes = 4096;
constexpr uint64_t kMaxChain = 1u << 16;  // symbols of one hash
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
  return {{state.st_dev, state.st_ino},
          static_cast<uint64_t>(state.st_size),
          nanoseconds(state.st_mtim),
          nanoseconds(state.st_ctim)};
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

// The dynamic section of a library, as the system's loader will read it.
class Dynamic {
 public:
  Dynamic(const File& file, const std::vector<Elf64_Phdr>& segments) : file_(file), segments_(segments) {}

  // Empty text: done; else what is wrong.
  std::string Read(ElfSummary* out) {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC) continue;
      if (!file_.ReadTable(segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn), &entries_))
        return "its dynamic section stands outside the file";
    }
    std::vector<uint64_t> needed;
    for (const Elf64_Dyn& entry : entries_) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) needed.push_back(entry.d_un.d_val);
    }
    if (needed.size() > kMaxNeeded) return "it names too many libraries";
    strings_size_ = Value(DT_STRSZ).value_or(0);
    strings_ = Place(DT_STRTAB);
    symbols_ = Place(DT_SYMTAB);
    if (strings_size_ == 0 && needed.empty()) return {};
    if (!strings_ || !file_.Contains(*strings_, strings_size_)) return "its string table stands outside the file";
    for (const uint64_t name : needed) {
      std::optional<std::string> text = Text(name);
      if (!text) return "the name of a needed library stands outside its string table";
      out->needed.push_back(*std::move(text));
    }
    if (!symbols_) return {};
    out->has_entry = Exports(TENON_QUERY_SYMBOL);
    return ReadWanted(&out->wanted);
  }

 private:
  std::optional<uint64_t> Value(int64_t tag) const {
    for (const Elf64_Dyn& entry : entries_) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == tag) return entry.d_un.d_val;
    }
    return std::nullopt;
  }
  std::optional<uint64_t> Place(int64_t tag) const {
    const std::optional<uint64_t> address = Value(tag);
    return address ? FileOffset(segments_, *address) : std::nullopt;
  }
  std::optional<std::string> Text(uint64_t name) const {
    return name < strings_size_ ? file_.ReadString(*strings_ + name, *strings_ + strings_size_) : std::nullopt;
  }
  template <typename T>
  std::optional<T> At(uint64_t offset) const {
    T value;
    return file_.Read(offset, sizeof(T), &value) ? std::optional<T>(value) : std::nullopt;
  }
  std::optional<Elf64_Sym> Symbol(uint64_t index) const { return At<Elf64_Sym>(*symbols_ + index * sizeof(Elf64_Sym)); }

  // Whether the symbol is a function of that name that others may call.
  bool IsExport(uint64_t index, std::string_view name) const {
    const std::optional<Elf64_Sym> symbol = Symbol(index);
    return symbol && symbol->st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
           Text(symbol->st_name) == name;
  }

  struct GnuTable {
    uint32_t buckets, first_symbol, bloom_words, shift;
  };

  // As dlsym looks for it: by the table of hashes, of either kind.
  bool Exports(std::string_view name) const {
    if (const auto at = Place(DT_GNU_HASH)) {
      const auto table = At<GnuTable>(*at);
      if (!table || table->buckets == 0) return false;
      uint32_t hash = 5381;
      for (const char letter : name) hash = hash * 33 + static_cast<unsigned char>(letter);
      const uint64_t buckets = *at + sizeof(GnuTable) + uint64_t{table->bloom_words} * sizeof(Elf64_Xword);
      const uint64_t chains = buckets + uint64_t{table->buckets} * sizeof(uint32_t);
      const auto first = At<uint32_t>(buckets + uint64_t{hash % table->buckets} * sizeof(uint32_t));
      if (!first || *first < table->first_symbol) return false;
      for (uint64_t index = *first; index < *first + kMaxChain; ++index) {
        const auto found = At<uint32_t>(chains + (index - table->first_symbol) * sizeof(uint32_t));
        if (!found) return false;
        if ((*found | 1) == (hash | 1) && IsExport(index, name)) return true;
        if ((*found & 1) != 0) return false;
      }
      return false;
    }
    const auto at = Place(DT_HASH);
    const auto counts = at ? At<std::array<uint32_t, 2>>(*at) : std::nullopt;  // of buckets, of symbols
    if (!counts || (*counts)[0] == 0) return false;
    uint32_t hash = 0;
    for (const char letter : name) {
      hash = (hash << 4) + static_cast<unsigned char>(letter);
      const uint32_t high = hash & 0xf0000000;
      hash = (hash ^ (high >> 24)) & ~high;
    }
    const uint64_t heads = *at + sizeof(*counts);
    auto index = At<uint32_t>(heads + uint64_t{hash % (*counts)[0]} * sizeof(uint32_t));
    for (uint64_t steps = 0; index && *index != 0 && steps < kMaxChain; ++steps) {
      if (IsExport(*index, name)) return true;
      index = At<uint32_t>(heads + (uint64_t{(*counts)[0]} + *index) * sizeof(uint32_t));
    }
    return false;
  }

  // Symbols that are undefined come before those that GNU's table finds; the other table counts them all.
  std::string ReadWanted(std::vector<std::string>* out) const {
    uint64_t count = 0;
    if (const auto at = Place(DT_GNU_HASH)) {
      const auto table = At<GnuTable>(*at);
      count = table ? table->first_symbol : 0;
    } else if (const auto counted = Place(DT_HASH)) {
      const auto counts = At<std::array<uint32_t, 2>>(*counted);
      count = counts ? (*counts)[1] : 0;
    }
    std::vector<Elf64_Sym> symbols;
    if (!file_.ReadTable(*symbols_, count, &symbols))
      return "its table of symbols stands outside the file or is too large";
    std::vector<Elf64_Half> versions;
    if (const auto at = Place(DT_VERSYM); at && !file_.ReadTable(*at, count, &versions))
      return "its table of versions stands outside the file";
    constexpr Elf64_Half kFirstNamed = 2;  // 0 and 1: of no version
    for (uint64_t i = 1; i < symbols.size(); ++i) {
      if (symbols[i].st_shndx != SHN_UNDEF || ELF64_ST_BIND(symbols[i].st_info) != STB_GLOBAL) continue;
      if (i < versions.size() && (versions[i] & 0x7fff) >= kFirstNamed) continue;
      std::optional<std::string> name = Text(symbols[i].st_name);
      if (!name) return "the name of a symbol stands outside its string table";
      if (!name->starts_with("__")) out->push_back(*std::move(name));
    }
    return {};
  }

  const File& file_;
  const std::vector<Elf64_Phdr>& segments_;
  std::vector<Elf64_Dyn> entries_;
  std::optional<uint64_t> strings_, symbols_;  // in the file
  uint64_t strings_size_ = 0;
};

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

// "64 bits, little-endian, machine 62 (x86-64)"
std::string KindOf(bool wide, bool little, uint16_t machine) {
  const char* name = machine == EM_X86_64    ? " (x86-64)"
                     : machine == EM_AARCH64 ? " (aarch64)"
                     : machine == EM_386     ? " (i386)"
                     : machine == EM_ARM     ? " (arm)"
                     : machine == EM_RISCV   ? " (RISC-V)"
                                             : "";
  return StrCat(wide ? "64" : "32", " bits, ", little ? "little" : "big", "-endian, machine ", machine, name);
}
std::string Kind(const Elf64_Ehdr& header) {
  const bool little = header.e_ident[EI_DATA] != ELFDATA2MSB;
  const auto swapped = static_cast<uint16_t>(header.e_machine << 8 | header.e_machine >> 8);
  return KindOf(header.e_ident[EI_CLASS] == ELFCLASS64, little, little ? header.e_machine : swapped);
}
std::string OwnKind() { return KindOf(true, true, kMachine); }

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
                  StrCat("it was built for another machine: ", Kind(header), "; this one takes ", OwnKind()));
  }
  if (header.e_type != ET_DYN)
    return Refuse(report, path, Reason::kNotALibrary, "it is an ELF file but no shared library");

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
  std::string wrong = Dynamic(file, segments).Read(&summary);
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
