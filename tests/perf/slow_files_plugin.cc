// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.perf.slow_files: the system's files as "slow://PATH", to be read alone; each read waits 5 ms before
// it begins, as one from far away does.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tenon/sdk/file/filesystem.h"

namespace tenon::perf {
namespace {

using sdk::Failure;

constexpr std::chrono::milliseconds kWait{5};

class SlowFile {
 public:
  explicit SlowFile(int descriptor) : descriptor_(descriptor) {}
  ~SlowFile() { close(descriptor_); }
  SlowFile(const SlowFile&) = delete;
  SlowFile& operator=(const SlowFile&) = delete;
  tenon_status* Size(uint64_t* out_size) {
    struct stat found {};
    if (fstat(descriptor_, &found) != 0) return Failure(TENON_UNAVAILABLE, "the file's size cannot be had");
    *out_size = static_cast<uint64_t>(found.st_size);
    return nullptr;
  }
  tenon_status* ReadAt(uint64_t offset, void* target, uint64_t bytes) {
    std::this_thread::sleep_for(kWait);
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t read =
          pread(descriptor_, static_cast<char*>(target) + done, bytes - done, static_cast<off_t>(offset + done));
      if (read <= 0) return Failure(TENON_OUT_OF_RANGE, "there are no ", bytes, " bytes at byte ", offset);
      done += static_cast<uint64_t>(read);
    }
    return nullptr;
  }
  tenon_status* Write(const void*, uint64_t) { return ReadOnly(); }
  tenon_status* Sync() { return ReadOnly(); }
  tenon_status* Close() { return nullptr; }
  static tenon_status* ReadOnly() { return Failure(TENON_UNIMPLEMENTED, "slow:// is for reading alone"); }

 private:
  const int descriptor_;
};

struct SlowFiles {
  static constexpr tenon_span kScheme = TENON_SPAN("slow");
  using File = SlowFile;
  static SlowFiles& Of(tenon_plugin_self*) {
    static SlowFiles files;
    return files;
  }
  static std::string Real(std::string_view path) { return "/" + sdk::PathInside(path); }
  tenon_status* Open(std::string_view path, sdk::OpenMode mode, std::unique_ptr<File>* out_file) {
    if (mode != sdk::OpenMode::kRead) return SlowFile::ReadOnly();
    const int descriptor = open(Real(path).c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return Failure(TENON_NOT_FOUND, "cannot open '", path, "'");
    *out_file = std::make_unique<File>(descriptor);
    return nullptr;
  }
  tenon_status* Rename(std::string_view, std::string_view) { return SlowFile::ReadOnly(); }
  tenon_status* Remove(std::string_view) { return SlowFile::ReadOnly(); }
  tenon_status* MakeDirectory(std::string_view) { return SlowFile::ReadOnly(); }
  tenon_status* SyncDirectory(std::string_view) { return SlowFile::ReadOnly(); }
  tenon_status* List(std::string_view, std::vector<std::string>*) { return SlowFile::ReadOnly(); }
  bool Exists(std::string_view path) { return access(Real(path).c_str(), R_OK) == 0; }
};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(FILESYSTEM, &sdk::kFilesystemTable<SlowFiles>)};

}  // namespace
}  // namespace tenon::perf

TENON_PLUGIN("tenon.perf.slow_files", "0.1.0", "The system's files, each read 5 ms late, slow://PATH.",
             tenon::perf::kCapabilities)
