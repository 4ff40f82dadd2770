// SPDX-License-Identifier: Apache-2.0
// What the tests of this room share: a folder that goes away, the fixture libraries, and a host table that remembers.
#ifndef TENON_TESTS_FAKES_PLUGINS_FIXTURE_H_
#define TENON_TESTS_FAKES_PLUGINS_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tenon/abi.h"

namespace tenon::plugins {

inline std::string FixturePath(const std::string& name) {
  return std::string(TENON_TEST_BUILD_DIR) + "/tests/fakes/plugins/tenon_fixture_" + name + ".so";
}

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/tenon_plugins_XXXXXX";
    if (mkdtemp(name) != nullptr) path_ = std::filesystem::canonical(name).string();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  std::string At(const std::string& name) const { return path_ + "/" + name; }
  // A copy is another file; a link is the same one under another name.
  std::string Copy(const std::string& fixture, const std::string& as = "") const {
    const std::string target = At(as.empty() ? fixture + ".so" : as);
    std::filesystem::copy_file(FixturePath(fixture), target);
    return target;
  }
  std::string Link(const std::string& fixture, const std::string& as = "") const {
    const std::string target = At(as.empty() ? fixture + ".so" : as);
    std::filesystem::create_symlink(FixturePath(fixture), target);
    return target;
  }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(At(name), std::ios::binary) << bytes;
    return At(name);
  }

 private:
  std::string path_;
};

inline std::vector<std::string>& HostLog() {
  static std::vector<std::string> log;
  return log;
}

inline const tenon_host& TestHost() {
  static const tenon_host host = [] {
    tenon_host table = {};
    table.struct_size = sizeof(table);
    table.abi_major = TENON_ABI_MAJOR;
    table.abi_minor = TENON_ABI_MINOR;
    table.layout_hash = TENON_LAYOUT_HASH;
    table.version = TENON_SPAN("test");
    table.status_new = [](uint32_t code, tenon_span message) {
      return Status(static_cast<Code>(code), std::string(View(message))).release();
    };
    table.status_code = [](const tenon_status* status) { return status->code; };
    table.status_message = [](const tenon_status* status) { return Span(status->message); };
    table.status_release = [](tenon_status* status) { ReleaseStatus(status); };
    table.log = [](uint32_t, tenon_span message) { HostLog().emplace_back(View(message)); };
    table.get_extension = [](tenon_span) -> const void* { return nullptr; };
    return table;
  }();
  return host;
}

}  // namespace tenon::plugins

#endif  // TENON_TESTS_FAKES_PLUGINS_FIXTURE_H_
