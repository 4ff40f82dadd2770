// SPDX-License-Identifier: Apache-2.0
// Writers of event files: when events reach the file, what a full disk does to them, and that nothing is written over.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"
#include "tenon/testing/memory_files.h"

namespace tenon::ops {
extern const tenon_kernel_registration kSummaryWriterKernel, kCreateSummaryFileWriterKernel, kFlushSummaryWriterKernel,
    kCloseSummaryWriterKernel, kWriteScalarSummaryKernel, kWriteRawProtoSummaryKernel;
}  // namespace tenon::ops

namespace tenon::ops::writer_test {
namespace {

using testing::KernelRunner;
using testing::MemoryFiles;
using testing::Node;
using testing::Outcome;
using testing::Tensor;

class Writer : public ::testing::Test {
 protected:
  Writer() {
    Node node = {"Maker", {{"container", ""}, {"shared_name", "w"}}, {}, {TENON_DT_RESOURCE}};
    EXPECT_TRUE(step_.Run(kSummaryWriterKernel, node, {}).ok());
    handle_ = std::make_unique<Tensor>(std::move(step_.outputs[0]));
  }
  Outcome Create(int32_t most = 0, int32_t longest = 1'000'000, const std::string& folder = "run") {
    const Tensor logdir = testing::Strings({}, {folder}), queue = testing::Scalar(most),
                 millis = testing::Scalar(longest), suffix = testing::Strings({}, {".v2"});
    return step_.Run(kCreateSummaryFileWriterKernel, {}, {handle_.get(), &logdir, &queue, &millis, &suffix});
  }
  Outcome Add(int64_t at) {
    const Tensor step = testing::Scalar(at), tag = testing::Strings({}, {"loss"}), value = testing::Scalar(2.5f);
    return step_.Run(kWriteScalarSummaryKernel, {"", {{"T", testing::Type{TENON_DT_FLOAT}}}},
                     {handle_.get(), &step, &tag, &value});
  }
  Outcome Flush() { return step_.Run(kFlushSummaryWriterKernel, {}, {handle_.get()}); }
  Outcome Close() { return step_.Run(kCloseSummaryWriterKernel, {}, {handle_.get()}); }
  // Events of all files, which must be whole.
  size_t Events() {
    size_t count = 0;
    for (const auto& [path, bytes] : disk.files) {
      size_t at = 0;
      for (; at + 16 <= bytes.size(); ++count) {
        uint64_t length = 0;
        std::memcpy(&length, bytes.data() + at, sizeof(length));
        at += 16 + length;
      }
      EXPECT_EQ(at, bytes.size()) << path;
    }
    return count;
  }

  MemoryFiles disk;
  testing::UseFiles use{&disk};
  KernelRunner step_;
  std::unique_ptr<Tensor> handle_;
};

TEST_F(Writer, NeedsAFileAndThenWritesAtOnceOrWhenEnoughWait) {
  EXPECT_EQ(Add(1).code, TENON_NOT_FOUND);
  ASSERT_TRUE(Create().ok());
  EXPECT_EQ(Events(), 1u);  // which says the format
  ASSERT_TRUE(Add(1).ok());
  EXPECT_EQ(Events(), 2u);
  ASSERT_TRUE(Close().ok());
  EXPECT_EQ(Add(2).code, TENON_NOT_FOUND);
  EXPECT_EQ(Close().code, TENON_NOT_FOUND);

  ASSERT_TRUE(Create(2).ok());
  EXPECT_EQ(disk.files.size(), 2u);  // another one, also within the same second
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Add(i).ok());
  EXPECT_EQ(Events(), 3u);
  ASSERT_TRUE(Add(3).ok());
  EXPECT_EQ(Events(), 6u);
  ASSERT_TRUE(Add(4).ok());
  ASSERT_TRUE(Flush().ok());
  EXPECT_EQ(Events(), 7u);
  ASSERT_TRUE(Create(9).ok());  // it keeps the file that it has
  EXPECT_EQ(disk.files.size(), 2u);
}

TEST_F(Writer, WhatWaitsIsWrittenWhenTheWriterGoes) {
  ASSERT_TRUE(Create(100).ok());
  ASSERT_TRUE(Add(1).ok());
  EXPECT_EQ(Events(), 1u);
  step_.ClearHandles();
  EXPECT_EQ(Events(), 2u);
}

TEST_F(Writer, AFullDiskIsToldAndNothingFollowsATornRecord) {
  ASSERT_TRUE(Create().ok());
  disk.fail_at = disk.operations + 1;
  EXPECT_EQ(Add(1).code, TENON_RESOURCE_EXHAUSTED);
  disk.fail_at = 0;
  const Outcome after = Add(2);
  EXPECT_EQ(after.code, TENON_FAILED_PRECONDITION);
  EXPECT_NE(after.message.find("could not be written before"), std::string::npos) << after.message;
  EXPECT_FALSE(Close().ok());
}

TEST_F(Writer, NamesThatLeaveTheFolderAndNoMessagesAreRefused) {
  EXPECT_EQ(Create(0, 0, "").code, TENON_INVALID_ARGUMENT);
  ASSERT_TRUE(Create().ok());
  const Tensor step = testing::Scalar(int64_t{1}), bad = testing::Strings({1}, {"\xff\xff"});
  EXPECT_EQ(step_.Run(kWriteRawProtoSummaryKernel, {}, {handle_.get(), &step, &bad}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Events(), 1u);
}

}  // namespace
}  // namespace tenon::ops::writer_test
