// SPDX-License-Identifier: Apache-2.0
// A file system with one runtime in the process: it comes and goes with that. Covers J12.
#include "tests/engine/engine.h"

namespace tenon::engine::files_alone_test {
namespace {

TEST(FilesystemLife, BelongsToTheRuntimesThatFoundIt) {
  EXPECT_EQ(File::OpenWrite("memory://a").status().code(), Code::kNotFound) << "no runtime, no plugin";
  File kept = [] {
    auto runtime = Runtime::Create();
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    auto file = File::OpenWrite("memory://a");
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->Write("one").ok());
    const Status used = runtime->UnloadPlugin("tenon.files.memory");
    EXPECT_EQ(used.code(), Code::kFailedPrecondition) << used;
    EXPECT_NE(used.message().find("open files"), std::string::npos) << used;
    return std::move(*file);
  }();
  const Status gone = kept.Write("two");
  EXPECT_EQ(gone.code(), Code::kFailedPrecondition);
  EXPECT_NE(gone.message().find("tenon.files.memory"), std::string::npos) << gone;
  EXPECT_EQ(kept.Close().code(), Code::kFailedPrecondition);
  EXPECT_FALSE(PathExists("memory://a"));

  auto runtime = Runtime::Create();
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  EXPECT_TRUE(PathExists("memory://a")) << "the memory is the process's";
  EXPECT_TRUE(runtime->UnloadPlugin("tenon.files.memory").ok());
  EXPECT_TRUE(PathExists("memory://a")) << "it is opened again when it is asked for";
}

}  // namespace
}  // namespace tenon::engine::files_alone_test
