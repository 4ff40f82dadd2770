// SPDX-License-Identifier: Apache-2.0
// Tree: files and folders in memory, which know what of them is durable.
//
// Idea: beside the tree as it is there stands the tree as a loss of power would leave it. A file's bytes enter that one
// by Sync, its name by SyncDirectory of its folder, and nothing by itself; truncating a file counts at once. Crash()
// goes back to it.
//
// Rules. Any thread. A file has one writer at a time (OpenMode::kWrite; a second is ABORTED), unless the tree was made
// without that. An open file is used by one thread at a time when it is written. A file that was removed or renamed
// stays usable by who has it open; after Crash() no file that was open is. Only files are renamed, not folders.
#ifndef TENON_FILES_MEMORY_TREE_H_
#define TENON_FILES_MEMORY_TREE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/file/filesystem.h"

namespace tenon::memory_files {

class Tree {
 public:
  // Of a file system whose writers may vanish without a word, files are any number's to write.
  enum class Writers { kOne, kMany };
  explicit Tree(Writers writers = Writers::kOne) : writers_(writers) {}
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  class File;
  // What tenon/ext/files.h says of the functions of these names.
  tenon_status* Open(std::string_view path, sdk::OpenMode mode, std::unique_ptr<File>* out_file);
  tenon_status* Rename(std::string_view from, std::string_view to);
  tenon_status* Remove(std::string_view path);
  tenon_status* MakeDirectory(std::string_view path);
  tenon_status* SyncDirectory(std::string_view path);
  tenon_status* List(std::string_view path, std::vector<std::string>* out_names);
  bool Exists(std::string_view path);

  // What is not durable is gone, and files that are open are lost to who has them.
  void Crash();

 private:
  struct Content {
    std::mutex mutex;
    std::string bytes;
    size_t durable = 0;  // of them
    bool written = false;  // by somebody who has it open
  };
  // By path inside ("a/b"); nullptr: a folder. The root is not among them.
  using Entries = std::map<std::string, std::shared_ptr<Content>, std::less<>>;

  bool IsFolder(std::string_view inside) const;
  tenon_status* NeedFolderOf(std::string_view what, std::string_view path, std::string_view inside) const;
  // The names of a folder's own entries.
  static std::vector<std::string> NamesIn(const Entries& entries, std::string_view folder);

  const Writers writers_;
  std::mutex mutex_;  // before a content's
  Entries now_, durable_;
  std::atomic<int64_t> crashes_{0};
};

class Tree::File {
 public:
  File(std::string path, sdk::OpenMode mode, std::shared_ptr<Content> content, const std::atomic<int64_t>& crashes)
      : path_(std::move(path)), mode_(mode), content_(std::move(content)), crashes_(crashes), born_(crashes) {}
  ~File();

  tenon_status* Size(uint64_t* out_size);
  tenon_status* ReadAt(uint64_t offset, void* target, uint64_t bytes);
  tenon_status* Write(const void* source, uint64_t bytes);
  tenon_status* Sync();
  tenon_status* Close() { return Usable("close"); }

 private:
  tenon_status* Usable(std::string_view what) const;

  const std::string path_;
  const sdk::OpenMode mode_;
  const std::shared_ptr<Content> content_;
  const std::atomic<int64_t>& crashes_;
  const int64_t born_;  // after so many crashes
};

}  // namespace tenon::memory_files

#endif  // TENON_FILES_MEMORY_TREE_H_
