// SPDX-License-Identifier: Apache-2.0
// make_private_libraries copy FOLDER NAMES DEPFILE LIBRARY...
//     Copies shared libraries of the system, and those that they need, under names that nobody else in a process has:
//     libNAME.so.N becomes libtenon_NAME.so.N in FOLDER, and each symbol S that it exports becomes __wrap_S, which is
//     what `ld --wrap=S` makes of a call. NAMES lists both.
// make_private_libraries link NAMES FILE OBJECT|ARCHIVE...
//     Writes FILE for the linker (@FILE): it names the copies, and wraps those of their symbols that these objects want
//     and none of them defines.
// What is linked so calls its own copy, whatever else the process loaded first or exports.
//
// Why: the dynamic linker looks up names in the order in which libraries came into the process, and a library that is
// opened globally (a Python module of a large framework, a preloaded one) comes first. Debian's archives are compiled
// for programs: where they have thread-local variables no shared library can take them in.
//
// What the C and C++ libraries of the system define keeps its name, and they are shared, as are drivers: see kShared.
// ELF of 64 bits, little-endian.
#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "__wrap_";
constexpr uint64_t kPage = 0x1000;

// These stay what they are: the system's own, OpenMP's pool of threads, and the door to vendors' drivers.
constexpr std::string_view kShared[] = {"libc.so",     "libm.so",       "libmvec.so",  "libstdc++.so",
                                        "libgcc_s.so", "libpthread.so", "libdl.so",    "librt.so",
                                        "ld-linux",    "libgomp.so",    "libOpenCL.so"};

bool StaysShared(std::string_view name) {
  for (const std::string_view shared : kShared) {
    if (name.starts_with(shared)) return true;
  }
  return false;
}

// What linkers and loaders look for by name in each library.
bool IsOfTheLinker(std::string_view symbol) {
  return symbol == "_init" || symbol == "_fini" || symbol == "_edata" || symbol == "_end" || symbol == "__bss_start";
}

std::string PrivateName(const std::string& soname) {
  return "libtenon_" + (soname.starts_with("lib") ? soname.substr(3) : soname);
}

uint64_t Aligned(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

std::string ReadBytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteText(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text).flush()) throw std::runtime_error(path.string() + " cannot be written");
}

// A shared library in memory, read through its headers; every access is inside the file or throws.
class Library {
 public:
  explicit Library(fs::path path) : path_(std::move(path)) {
    bytes_ = ReadBytes(path_);
    const auto& header = At<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN) {
      throw std::runtime_error("is no shared library of 64 bits, little-endian");
    }
    for (uint16_t i = 0; i < header.e_shnum; ++i) {
      auto& section = At<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type == SHT_DYNAMIC) dynamic_ = &section;
      if (section.sh_type == SHT_DYNSYM) symbols_ = &section;
      if (section.sh_type == SHT_GNU_HASH || section.sh_type == SHT_HASH) hash_ = &section;
    }
    if (dynamic_ == nullptr || symbols_ == nullptr || hash_ == nullptr)
      throw std::runtime_error("has no headers of its dynamic sections");
    strings_ = &At<Elf64_Shdr>(header.e_shoff + symbols_->sh_link * sizeof(Elf64_Shdr));
    for (const Elf64_Dyn& entry : Dynamic()) {
      if (entry.d_tag == DT_NEEDED) needed_.push_back(Text(entry.d_un.d_val));
      if (entry.d_tag == DT_SONAME) soname_ = Text(entry.d_un.d_val);
    }
    if (soname_.empty()) throw std::runtime_error("has no name of its own (DT_SONAME)");
  }

  const fs::path& path() const { return path_; }
  const std::string& soname() const { return soname_; }
  const std::vector<std::string>& needed() const { return needed_; }

  // The names that it exports, or those that it wants of others.
  std::set<std::string> Names(bool defined) const {
    std::set<std::string> names;
    for (uint64_t i = 1; i < SymbolCount(); ++i) {
      const Elf64_Sym& symbol = Symbol(i);
      if (IsGlobal(symbol) && (symbol.st_shndx != SHN_UNDEF) == defined) names.insert(Text(symbol.st_name));
    }
    return names;
  }

  // Writes the copy: every global symbol of `renamed` has its new name, and the needed libraries of `ours` have theirs.
  void Write(const fs::path& to, const std::set<std::string>& renamed, const std::set<std::string>& ours) {
    std::string strings(bytes_.data() + strings_->sh_offset, strings_->sh_size);
    const auto add = [&](const std::string& text) {
      const uint64_t at = strings.size();
      strings.append(text).push_back('\0');
      return at;
    };
    for (uint64_t i = 1; i < SymbolCount(); ++i) {
      Elf64_Sym& symbol = Symbol(i);
      if (const std::string name = Text(symbol.st_name); IsGlobal(symbol) && renamed.contains(name))
        symbol.st_name = static_cast<Elf64_Word>(add(kPrefix + name));
    }
    RenameVersions(ours, add);
    std::vector<Elf64_Dyn> dynamic;
    for (Elf64_Dyn entry : Dynamic()) {
      if (entry.d_tag == DT_NULL || entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH) continue;
      if (entry.d_tag == DT_NEEDED && ours.contains(Text(entry.d_un.d_val)))
        entry.d_un.d_val = add(PrivateName(Text(entry.d_un.d_val)));
      if (entry.d_tag == DT_SONAME) entry.d_un.d_val = add(PrivateName(soname_));
      if (entry.d_tag == DT_GNU_HASH) entry.d_tag = DT_HASH;
      dynamic.push_back(entry);
    }
    dynamic.push_back({DT_RUNPATH, {add("$ORIGIN")}});
    dynamic.push_back({DT_NULL, {0}});
    Append(strings, dynamic);
    const fs::path fresh = to.string() + ".new";
    WriteText(fresh, bytes_);
    fs::rename(fresh, to);
  }

 private:
  static bool IsGlobal(const Elf64_Sym& symbol) {
    return ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && symbol.st_name != 0;
  }

  template <typename T>
  T& At(uint64_t offset) {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) throw std::runtime_error("is cut off");
    return *reinterpret_cast<T*>(bytes_.data() + offset);
  }
  template <typename T>
  const T& At(uint64_t offset) const {
    return const_cast<Library*>(this)->At<T>(offset);
  }

  uint64_t SymbolCount() const { return symbols_->sh_size / sizeof(Elf64_Sym); }
  Elf64_Sym& Symbol(uint64_t i) { return At<Elf64_Sym>(symbols_->sh_offset + i * sizeof(Elf64_Sym)); }
  const Elf64_Sym& Symbol(uint64_t i) const { return At<Elf64_Sym>(symbols_->sh_offset + i * sizeof(Elf64_Sym)); }

  std::string Text(uint64_t offset) const {
    if (offset >= strings_->sh_size || strings_->sh_offset + strings_->sh_size > bytes_.size())
      throw std::runtime_error("has a name outside of its names");
    const char* begin = bytes_.data() + strings_->sh_offset + offset;
    return std::string(begin, strnlen(begin, strings_->sh_size - offset));
  }

  std::vector<Elf64_Dyn> Dynamic() const {
    std::vector<Elf64_Dyn> entries;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic_->sh_size; at += sizeof(Elf64_Dyn))
      entries.push_back(At<Elf64_Dyn>(dynamic_->sh_offset + at));
    return entries;
  }

  // Versions that are wanted say of which file.
  template <typename Add>
  void RenameVersions(const std::set<std::string>& ours, const Add& add) {
    const auto& header = At<Elf64_Ehdr>(0);
    for (uint16_t i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr section = At<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_GNU_verneed) continue;
      for (uint64_t at = section.sh_offset, left = section.sh_info; left > 0; --left) {
        auto& need = At<Elf64_Verneed>(at);
        if (const std::string file = Text(need.vn_file); ours.contains(file))
          need.vn_file = static_cast<Elf64_Word>(add(PrivateName(file)));
        at += need.vn_next;
      }
    }
  }

  // The table by which System V's loaders find a symbol: any order of symbols will do, which GNU's does not allow.
  std::vector<Elf64_Word> HashTable(const std::string& strings) const {
    const auto hash = [&](uint64_t name) {
      uint32_t value = 0;
      for (const char* at = strings.c_str() + name; *at != '\0'; ++at) {
        value = (value << 4) + static_cast<unsigned char>(*at);
        const uint32_t high = value & 0xf0000000;
        value = (value ^ (high >> 24)) & ~high;
      }
      return value;
    };
    const auto count = static_cast<Elf64_Word>(SymbolCount());
    const Elf64_Word buckets = count / 2 + 1;
    std::vector<Elf64_Word> table(2 + buckets + count, 0);
    table[0] = buckets;
    table[1] = count;
    for (Elf64_Word i = 1; i < count; ++i) {
      if (!IsGlobal(Symbol(i)) || Symbol(i).st_shndx == SHN_UNDEF) continue;
      Elf64_Word& head = table[2 + hash(Symbol(i).st_name) % buckets];
      table[2 + buckets + i] = head;
      head = i;
    }
    return table;
  }

  // Puts names, dynamic entries, the table and the program headers into a segment of their own behind the others.
  void Append(const std::string& strings, std::vector<Elf64_Dyn> dynamic) {
    const Elf64_Ehdr header = At<Elf64_Ehdr>(0);
    std::vector<Elf64_Phdr> segments;
    uint64_t end = 0;
    for (uint16_t i = 0; i < header.e_phnum; ++i) {
      segments.push_back(At<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
      if (segments.back().p_type == PT_LOAD) end = std::max(end, segments.back().p_vaddr + segments.back().p_memsz);
    }
    const std::vector<Elf64_Word> table = HashTable(strings);
    const uint64_t offset = Aligned(bytes_.size(), kPage);
    const uint64_t address = Aligned(end, kPage);
    const uint64_t headers_size = (segments.size() + 1) * sizeof(Elf64_Phdr);
    const uint64_t dynamic_at = Aligned(headers_size, 16);
    const uint64_t table_at = Aligned(dynamic_at + dynamic.size() * sizeof(Elf64_Dyn), 16);
    const uint64_t strings_at = table_at + table.size() * sizeof(Elf64_Word);
    const uint64_t size = strings_at + strings.size();
    for (Elf64_Dyn& entry : dynamic) {
      if (entry.d_tag == DT_STRTAB) entry.d_un.d_ptr = address + strings_at;
      if (entry.d_tag == DT_STRSZ) entry.d_un.d_val = strings.size();
      if (entry.d_tag == DT_HASH) entry.d_un.d_ptr = address + table_at;
    }
    for (Elf64_Phdr& segment : segments) {
      const uint64_t at = segment.p_type == PT_DYNAMIC ? dynamic_at : 0;
      const uint64_t bytes = segment.p_type == PT_DYNAMIC ? dynamic.size() * sizeof(Elf64_Dyn) : headers_size;
      if (segment.p_type != PT_DYNAMIC && segment.p_type != PT_PHDR) continue;
      segment.p_offset = offset + at;
      segment.p_vaddr = segment.p_paddr = address + at;
      segment.p_filesz = segment.p_memsz = bytes;
    }
    // Segments that are loaded stand in the order of their addresses.
    size_t last = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      if (segments[i].p_type == PT_LOAD) last = i;
    }
    segments.insert(segments.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                    Elf64_Phdr{PT_LOAD, PF_R | PF_W, offset, address, address, size, size, kPage});

    Place(dynamic_, offset + dynamic_at, address + dynamic_at, dynamic.size() * sizeof(Elf64_Dyn));
    Place(strings_, offset + strings_at, address + strings_at, strings.size());
    Place(hash_, offset + table_at, address + table_at, table.size() * sizeof(Elf64_Word));
    if (hash_->sh_type == SHT_GNU_HASH)
      hash_->sh_name += std::strlen(".gnu");  // ".hash", as who edits it later (patchelf) looks for it
    hash_->sh_type = SHT_HASH;
    hash_->sh_entsize = sizeof(Elf64_Word);
    auto& written = At<Elf64_Ehdr>(0);
    written.e_phoff = offset;
    written.e_phnum = static_cast<Elf64_Half>(segments.size());

    std::string added(size, '\0');
    std::memcpy(added.data(), segments.data(), segments.size() * sizeof(Elf64_Phdr));
    std::memcpy(added.data() + dynamic_at, dynamic.data(), dynamic.size() * sizeof(Elf64_Dyn));
    std::memcpy(added.data() + table_at, table.data(), table.size() * sizeof(Elf64_Word));
    std::memcpy(added.data() + strings_at, strings.data(), strings.size());
    bytes_.resize(offset, '\0');
    bytes_ += added;
  }

  static void Place(Elf64_Shdr* section, uint64_t offset, uint64_t address, uint64_t size) {
    section->sh_offset = offset;
    section->sh_addr = address;
    section->sh_size = size;
  }

  fs::path path_;
  std::string bytes_;
  Elf64_Shdr* dynamic_ = nullptr;
  Elf64_Shdr* symbols_ = nullptr;
  Elf64_Shdr* strings_ = nullptr;
  Elf64_Shdr* hash_ = nullptr;
  std::string soname_;
  std::vector<std::string> needed_;
};

Library Read(const fs::path& path) {
  try {
    return Library(path);
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + " " + error.what());
  }
}

// The libraries of a build, and what they need that is not the system's own.
class Set {
 public:
  void Add(const fs::path& given) {
    const fs::path path = fs::canonical(given);
    Library library = Read(path);
    const std::string name = library.soname();
    if (libraries_.contains(name)) return;
    const std::vector<std::string> needed = library.needed();
    const fs::path folder = given.parent_path();
    libraries_.emplace(name, std::move(library));
    for (const std::string& other : needed) {
      const fs::path found = Find(other, folder);
      if (StaysShared(other)) {
        if (!found.empty()) system_.insert(found);
      } else if (found.empty()) {
        throw std::runtime_error(path.string() + " needs " + other + ", which is not beside it");
      } else {
        Add(found);
      }
    }
  }

  // The copies, and the list of their names: a line "symbol S" or "library PATH" each.
  void Write(const fs::path& folder, const fs::path& names) const {
    std::set<std::string> of_the_system;
    for (const fs::path& path : system_) of_the_system.merge(Read(path).Names(true));
    std::set<std::string> renamed;
    std::set<std::string> ours;
    for (const auto& [name, library] : libraries_) {
      ours.insert(name);
      for (const std::string& symbol : library.Names(true)) {
        if (!IsOfTheLinker(symbol) && !of_the_system.contains(symbol)) renamed.insert(symbol);
      }
    }
    fs::create_directories(folder);
    std::set<fs::path> written;
    std::string text;
    for (const auto& [name, library] : libraries_) {
      const fs::path to = folder / PrivateName(name);
      Read(library.path()).Write(to, renamed, ours);
      written.insert(to);
      text += "library " + to.string() + "\n";
    }
    for (const std::string& symbol : renamed) text += "symbol " + symbol + "\n";
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!written.contains(entry.path())) fs::remove(entry.path());  // of a library that is no longer asked for
    }
    WriteText(names, text);
  }

  void WriteDepfile(const fs::path& depfile, const fs::path& names) const {
    std::string text = names.string() + ":";
    for (const auto& [name, library] : libraries_) text += " " + library.path().string();
    WriteText(depfile, text + "\n");
  }

 private:
  static fs::path Find(const std::string& name, const fs::path& beside) {
    for (const fs::path& folder : {beside, fs::path("/lib/x86_64-linux-gnu"), fs::path("/lib64"),
                                   fs::path("/usr/lib64"), fs::path("/lib/aarch64-linux-gnu")}) {
      if (fs::exists(folder / name)) return folder / name;
    }
    return {};
  }

  std::map<std::string, Library> libraries_;
  std::set<fs::path> system_;
};

// What object files want and have.
class Objects {
 public:
  void Add(const fs::path& path) {
    const std::string bytes = ReadBytes(path);
    constexpr std::string_view kArchive = "!<arch>\n";
    if (!bytes.starts_with(kArchive)) return AddObject(path, bytes);
    constexpr size_t kHead = 60;  // name 16, date 12, owner 6, group 6, mode 8, size 10, end 2
    for (size_t at = kArchive.size(); at + kHead <= bytes.size();) {
      const size_t size = std::stoull(bytes.substr(at + 48, 10));
      if (bytes[at] != '/' || std::isdigit(static_cast<unsigned char>(bytes[at + 1])) != 0)
        AddObject(path, std::string_view(bytes).substr(at + kHead, size));
      at = Aligned(at + kHead + size, 2);
    }
  }

  bool WantsOfOthers(const std::string& symbol) const { return wanted_.contains(symbol) && !defined_.contains(symbol); }

 private:
  void AddObject(const fs::path& path, std::string_view bytes) {
    const auto at = [&]<typename T>(uint64_t offset, T) {
      if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
        throw std::runtime_error(path.string() + " is cut off");
      T value;
      std::memcpy(&value, bytes.data() + offset, sizeof(T));
      return value;
    };
    const auto header = at(0, Elf64_Ehdr{});
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
      throw std::runtime_error(path.string() + " is no object file");
    for (uint16_t i = 0; i < header.e_shnum; ++i) {
      const auto section = at(header.e_shoff + i * sizeof(Elf64_Shdr), Elf64_Shdr{});
      if (section.sh_type != SHT_SYMTAB) continue;
      const auto strings = at(header.e_shoff + section.sh_link * sizeof(Elf64_Shdr), Elf64_Shdr{});
      for (uint64_t symbol_at = section.sh_offset; symbol_at < section.sh_offset + section.sh_size;
           symbol_at += sizeof(Elf64_Sym)) {
        const auto symbol = at(symbol_at, Elf64_Sym{});
        if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || symbol.st_name >= strings.sh_size ||
            strings.sh_offset + strings.sh_size > bytes.size())
          continue;
        const char* name = bytes.data() + strings.sh_offset + symbol.st_name;
        (symbol.st_shndx == SHN_UNDEF ? wanted_ : defined_)
            .emplace(name, strnlen(name, strings.sh_size - symbol.st_name));
      }
    }
  }

  std::set<std::string> wanted_;
  std::set<std::string> defined_;
};

void Copy(const std::vector<fs::path>& words) {
  Set set;
  for (size_t i = 3; i < words.size(); ++i) set.Add(words[i]);
  set.Write(words[0], words[1]);
  set.WriteDepfile(words[2], words[1]);
}

void Link(const std::vector<fs::path>& words) {
  Objects objects;
  for (size_t i = 2; i < words.size(); ++i) objects.Add(words[i]);
  std::ifstream names(words[0]);
  if (!names) throw std::runtime_error(words[0].string() + " cannot be read");
  std::string wrapped;
  std::string libraries;
  for (std::string kind, name; names >> kind && std::getline(names >> std::ws, name);) {
    if (kind == "library") libraries += "\"" + name + "\"\n";
    if (kind == "symbol" && objects.WantsOfOthers(name)) wrapped += "--wrap=" + name + "\n";
  }
  WriteText(words[1], wrapped + libraries);
}

}  // namespace

int main(int count, char** words) {
  const std::vector<fs::path> given(words + std::min(count, 2), words + count);
  const std::string_view what = count > 1 ? words[1] : "";
  try {
    if (what == "copy" && given.size() > 3) {
      Copy(given);
    } else if (what == "link" && given.size() > 2) {
      Link(given);
    } else {
      throw std::runtime_error("usage: copy FOLDER NAMES DEPFILE LIBRARY... | link NAMES FILE OBJECT...");
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "make_private_libraries: " << error.what() << "\n";
    return 1;
  }
}
