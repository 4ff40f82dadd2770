// SPDX-License-Identifier: Apache-2.0
// What every file system must do, as cases over its built library: what is written is read, what is not there is said,
// and no path leads out. What survives a crash is each file system's own test's.
//
//   for (const SuiteCase<FilesystemSubject>& one : FilesystemCases()) {
//     const auto failures = FailuresOf([&] { one.run({library, "memory://"}); });
//   }
#ifndef TENON_TESTING_FILESYSTEM_SUITE_H_
#define TENON_TESTING_FILESYSTEM_SUITE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/ext/draft/filesystem.h"
#include "tenon/testing/library.h"

namespace tenon::testing {

// The library of a file system, and an existing folder of it that the cases may fill: "scheme://" or "scheme://path/".
struct FilesystemSubject {
  const Library& library;
  std::string root;
  Settings settings = {};
};

// A loaded file system and a new folder in it. Names are relative to the folder; results are "CODE: message", "" is
// success.
class Folder {
 public:
  explicit Folder(const FilesystemSubject& subject)
      : loaded_(subject.library, subject.settings),
        table(*subject.library.Capability<tenon_filesystem>(TENON_CAPABILITY_FILESYSTEM)),
        self(loaded_.self) {
    static std::atomic<int> last{0};
    path = subject.root + "case-" + std::to_string(++last);
    ExpectEq(Make(""), "");
  }
  std::string At(const std::string& name) const { return name.empty() ? path : path + "/" + name; }

  std::string Make(const std::string& name) const { return Text(table.make_directory(self, Span(At(name)))); }
  std::string Remove(const std::string& name) const { return Text(table.remove(self, Span(At(name)))); }
  std::string Rename(const std::string& from, const std::string& to) const {
    return Text(table.rename(self, Span(At(from)), Span(At(to))));
  }
  std::string SyncFolder(const std::string& name) const { return Text(table.sync_directory(self, Span(At(name)))); }
  bool Exists(const std::string& name) const { return table.exists(self, Span(At(name))) != 0; }
  std::string OpenRead(const std::string& name, tenon_file** out) const {
    return Text(table.open_read(self, Span(At(name)), out));
  }
  // A file with these bytes, and no others.
  std::string Write(const std::string& name, const std::string& bytes) const {
    tenon_file* file = nullptr;
    std::string text = Text(table.open_write(self, Span(At(name)), &file));
    return text.empty() ? Put(file, bytes) : text;
  }
  std::string Append(const std::string& name, const std::string& bytes) const {
    tenon_file* file = nullptr;
    std::string text = Text(table.open_append(self, Span(At(name)), &file));
    return text.empty() ? Put(file, bytes) : text;
  }
  // Its bytes, or the failure.
  std::string Read(const std::string& name) const {
    tenon_file* file = nullptr;
    std::string text = OpenRead(name, &file);
    if (!text.empty()) return text;
    uint64_t size = 0;
    ExpectEq(Text(table.size(file, &size)), "");
    std::string bytes(size, '\0');
    ExpectEq(Text(table.read_at(file, 0, bytes.data(), size)), "");
    ExpectEq(Text(table.close(file)), "");
    return bytes;
  }
  // In their order.
  std::vector<std::string> List(const std::string& name) const {
    std::vector<std::string> names;
    const auto take = [](void* argument, tenon_span each) {
      static_cast<std::vector<std::string>*>(argument)->push_back(String(each));
    };
    ExpectEq(Text(table.list(self, Span(At(name)), take, &names)), "");
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string Put(tenon_file* file, const std::string& bytes) const {
    std::string text = Text(table.write(file, bytes.data(), bytes.size()));
    if (text.empty()) text = Text(table.sync(file));
    const std::string closed = Text(table.close(file));
    return text.empty() ? closed : text;
  }

  const Loaded loaded_;

 public:
  const tenon_filesystem& table;
  tenon_plugin_self* const self;
  std::string path;
};

namespace filesystem_suite {

using Names = std::vector<std::string>;

inline void KeepsWhatIsWritten(const FilesystemSubject& subject) {
  const Folder folder(subject);
  ExpectEq(folder.Make("a"), "");
  ExpectEq(folder.Write("a/x", "one"), "");
  ExpectEq(folder.Read("a/x"), "one");
  ExpectEq(folder.Append("a/x", " two"), "");
  ExpectEq(folder.Read("a/x"), "one two");
  ExpectEq(folder.Write("a/x", "new"), "");
  ExpectEq(folder.Read("a/x"), "new");
  ExpectEq(folder.Write("a-b", ""), "");
  ExpectEq(folder.List(""), (Names{"a", "a-b"}));
  ExpectEq(folder.List("a"), Names{"x"});
}

inline void RenamesAndRemoves(const FilesystemSubject& subject) {
  const Folder folder(subject);
  ExpectEq(folder.Write("old", "1"), "");
  ExpectEq(folder.Write("new", "before"), "");
  ExpectEq(folder.Rename("old", "new"), "");
  ExpectEq(folder.SyncFolder(""), "");
  ExpectEq(folder.Read("new"), "1", "a rename takes the place of what was there");
  ExpectEq(folder.List(""), Names{"new"});
  ExpectEq(folder.Remove("new"), "");
  Expect(!folder.Exists("new"), "it was removed");
}

inline void NoPathLeadsOut(const FilesystemSubject& subject) {
  const Folder folder(subject);
  const std::string up = "../../../../../../../../" + folder.path.substr(folder.path.find("://") + 3);
  ExpectEq(folder.Write("top", "here"), "");
  ExpectEq(folder.Read("nowhere/.././/top"), "here");
  ExpectEq(folder.Read(up + "/top"), "here", "above the root is the root");
}

inline void SaysWhatIsNotThere(const FilesystemSubject& subject) {
  const Folder folder(subject);
  tenon_file* file = nullptr;
  ExpectEq(CodeOf(folder.OpenRead("a/x", &file)), "NOT_FOUND");
  ExpectEq(CodeOf(folder.Remove("a")), "NOT_FOUND");
  ExpectEq(CodeOf(folder.Rename("a", "b")), "NOT_FOUND");
  Expect(!folder.Exists("a"), "it was never made");
  Expect(folder.Exists(""), "the folder was made");
}

inline void AFileIsNoFolderAndAFolderNoFile(const FilesystemSubject& subject) {
  const Folder folder(subject);
  ExpectEq(folder.Write("f", "x"), "");
  ExpectEq(folder.Make("d"), "");
  ExpectNe(folder.Write("f/x", "y"), "");
  tenon_file* file = nullptr;
  ExpectNe(folder.OpenRead("d", &file), "");
  ExpectEq(CodeOf(folder.Make("f")), "ALREADY_EXISTS");
  ExpectEq(folder.Make("d"), "", "it is there already");
  ExpectEq(folder.Write("d/x", "x"), "");
  ExpectEq(CodeOf(folder.Remove("d")), "FAILED_PRECONDITION", "it is not empty");
}

inline void ReadsNothingThatIsNotThere(const FilesystemSubject& subject) {
  const Folder folder(subject);
  ExpectEq(folder.Write("x", "12345"), "");
  tenon_file* file = nullptr;
  if (!ExpectEq(folder.OpenRead("x", &file), "")) return;
  char target[8] = "-------";
  ExpectEq(CodeOf(Text(folder.table.read_at(file, 3, target, 3))), "OUT_OF_RANGE");
  ExpectEq(CodeOf(Text(folder.table.read_at(file, UINT64_MAX, target, 2))), "OUT_OF_RANGE");
  ExpectEq(CodeOf(Text(folder.table.read_at(file, 1, target, UINT64_MAX))), "OUT_OF_RANGE");
  ExpectEq(Text(folder.table.read_at(file, 1, target, 4)), "");
  ExpectEq(std::string(target), "2345---");
  ExpectEq(Text(folder.table.close(file)), "");
}

}  // namespace filesystem_suite

// All cases; each loads the library anew.
inline std::vector<SuiteCase<FilesystemSubject>> FilesystemCases() {
#define TENON_TESTING_CASE(name) {#name, filesystem_suite::name}
  return {
      TENON_TESTING_CASE(KeepsWhatIsWritten),
      TENON_TESTING_CASE(RenamesAndRemoves),
      TENON_TESTING_CASE(NoPathLeadsOut),
      TENON_TESTING_CASE(SaysWhatIsNotThere),
      TENON_TESTING_CASE(AFileIsNoFolderAndAFolderNoFile),
      TENON_TESTING_CASE(ReadsNothingThatIsNotThere),
  };
#undef TENON_TESTING_CASE
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_FILESYSTEM_SUITE_H_
