// SPDX-License-Identifier: Apache-2.0
// CodeCache: what was compiled, in a folder on disk, by the text that it was compiled from.
//
// A file holds the whole text and the code; one whose text is another's is not used, so that a hash that meets another
// does no harm. The folder is this user's alone. Files come into being by renaming: whoever reads sees all of one or
// none. Failures to read or write only cost time.
#ifndef TENON_DEVICES_GPU_FUSE_CACHE_H_
#define TENON_DEVICES_GPU_FUSE_CACHE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::gpu {

// Any thread, any process.
class CodeCache {
 public:
  // folder "": keeps nothing.
  // One that others may write, or own, is not used, since what it has is run: that is said once. One that is not there
  // is made when something is kept, for this user alone.
  explicit CodeCache(std::string folder);
  // What the option `cache` means: "auto" is tenon/gpu in the user's cache folder, "off" none, else the folder itself.
  static std::string FolderOf(const std::string& option);

  std::optional<std::vector<char>> Find(std::string_view text) const;
  void Keep(std::string_view text, const std::vector<char>& code) const;

 private:
  std::string PathOf(std::string_view text) const;
  std::string folder_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_CACHE_H_
