// SPDX-License-Identifier: Apache-2.0
// PrivateFolder: a new folder that nobody but this user may enter, gone with all that it has when the object ends; and
// files that no planted link leads elsewhere.
#ifndef TENON_CLI_CLUSTER_PRIVATE_FOLDER_H_
#define TENON_CLI_CLUSTER_PRIVATE_FOLDER_H_

#include <string>
#include <string_view>

#include "tenon/tenon.h"

namespace tenon::cli {

class PrivateFolder {
 public:
  // Below XDG_RUNTIME_DIR, else below the system's temporary folder: "<there>/<name>_XXXXXX".
  static host::Result<PrivateFolder> Make(const std::string& name);
  ~PrivateFolder();
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  PrivateFolder& operator=(PrivateFolder&& other) noexcept {
    path_.swap(other.path_);
    return *this;
  }

  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// A file that is not there yet; ALREADY_EXISTS otherwise, be it a link that leads nowhere. For this user alone.
host::Status WriteNewFile(const std::string& path, std::string_view bytes);
// Takes the place of what stands there: of a link too, and not of what it leads to.
host::Status PutFile(const std::string& path, std::string_view bytes);
// So many random bytes, as hexadecimal digits.
host::Result<std::string> RandomDigits(size_t bytes);

}  // namespace tenon::cli

#endif  // TENON_CLI_CLUSTER_PRIVATE_FOLDER_H_
