// SPDX-License-Identifier: Apache-2.0
// Covers E1.
#include "core/place/device_name.h"

#include <gtest/gtest.h>

namespace tenon::place::device_name_test {
namespace {

DeviceName Name(std::string_view text) {
  auto name = DeviceName::Parse(text);
  EXPECT_TRUE(name.ok()) << name.status().ToString();
  return name.ok() ? *name : DeviceName();
}

TEST(DeviceName, IsReadInEverySpelling) {
  const struct {
    const char *text, *printed;
  } cases[] = {
      {"/job:localhost/replica:0/task:0/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"},
      {"/job:localhost/device:cpu:0", "/job:localhost/device:cpu:0"},
      {"/job:worker/task:17/device:gpu:3", "/job:worker/task:17/device:gpu:3"},
      {"/task:17/job:worker_2", "/job:worker_2/task:17"},
      {"/device:GPU:3", "/device:GPU:3"},
      {"/device:GPU", "/device:GPU:*"},
      {"/device:GPU:*", "/device:GPU:*"},
      {"/device:*:1", "/device:*:1"},
      {"/device:*", ""},
      {"/gpu:3", "/device:GPU:3"},
      {"/CPU:0", "/device:CPU:0"},
      {"/cpu:*", "/device:CPU:*"},
      {"/job:a/cpu:0", "/job:a/device:CPU:0"},
      {"/tpu_sim:1", "/device:TPU_SIM:1"},
      {"/job:*/replica:*/task:*/device:*:*", ""},
      {"GPU:3", "/device:GPU:3"},
      {"Tpu", "/device:Tpu:*"},
      {"", ""},
      {"/", ""},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Name(c.text).ToString(), c.printed) << c.text;
    EXPECT_EQ(Name(c.printed), Name(c.text)) << c.text << ": what is printed is read again";
  }
}

TEST(DeviceName, SaysWhatIsWrongWithABadOne) {
  const struct {
    const char *text, *says;
  } cases[] = {
      {"/job:9lives", "a job is letters, digits and '_', not '9lives'"},
      {"/job:", "a job is letters, digits and '_', not ''"},
      {"/job:a-b", "not 'a-b'"},
      {"/replica:x", "the replica is a number, not 'x'"},
      {"/task:-1", "the task is a number, not '-1'"},
      {"/task:99999999999", "the task is a number, not '99999999999'"},
      {"/task:1x", "not '1x'"},
      {"/device:GPU:", "the device's index is a number, not ''"},
      {"/device:GPU:1:2", "the device's index is a number, not '1:2'"},
      {"/device:", "a device type is letters, digits and '_', not ''"},
      {"/gpu", "'/gpu' has no ':'"},
      {"//cpu:0", "'/' has no ':'"},
      {"/cpu:0/", "'/' has no ':'"},
      {"/job:a/job:b", "it says its job twice"},
      {"/cpu:0/device:GPU:0", "it says its device type twice"},
      {"0", "a device type is letters, digits and '_', not '0'"},
  };
  for (const auto& c : cases) {
    const auto name = DeviceName::Parse(c.text);
    ASSERT_FALSE(name.ok()) << c.text;
    EXPECT_EQ(name.status().code(), Code::kInvalidArgument);
    EXPECT_NE(name.status().message().find(c.says), std::string::npos) << name.status().message();
    EXPECT_TRUE(name.status().message().starts_with(StrCat("'", c.text, "' is no device name: ")))
        << name.status().message();
  }
}

TEST(DeviceName, APartialNameMatchesWhatItDoesNotContradict) {
  const DeviceName device = Name("/job:worker/replica:0/task:17/device:GPU:3");
  for (const char* pattern : {"", "/job:worker", "/task:17", "/device:GPU", "/device:gpu:3", "/gpu:*", "/device:*:3",
                              "gpu", "/job:worker/replica:0/task:17/device:GPU:3"})
    EXPECT_TRUE(Name(pattern).Matches(device)) << pattern;
  for (const char* pattern : {"/job:Worker", "/task:1", "/device:CPU", "/gpu:2", "/replica:1", "/device:GP"})
    EXPECT_FALSE(Name(pattern).Matches(device)) << pattern;
  EXPECT_FALSE(device.Matches(Name("/device:GPU:3"))) << "a name that says less is not what it asks for";
}

TEST(DeviceName, MergesWhatTwoNamesSay) {
  DeviceName name = Name("/job:a/gpu:*");
  ASSERT_TRUE(name.Merge(Name("/task:1/device:GPU:2"), false).ok());
  EXPECT_EQ(name.ToString(), "/job:a/task:1/device:GPU:2");
  DeviceName more = Name("/task:2");
  more.Complete(name);
  EXPECT_EQ(more.ToString(), "/job:a/task:2/device:GPU:2");
  EXPECT_FALSE(more.complete());
}

TEST(DeviceName, AContradictionNamesBothUnlessItIsSoft) {
  const DeviceName name = Name("/job:a/device:GPU:1");
  for (const char* other : {"/device:CPU", "/gpu:2"}) {
    DeviceName hard = name;
    const Status status = hard.Merge(Name(other), false);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("/job:a/device:GPU:1"), std::string::npos);
    EXPECT_EQ(hard, name) << "unchanged";
  }
  DeviceName type = name, id = name, job = name;
  ASSERT_TRUE(type.Merge(Name("/device:CPU:1"), true).ok());
  EXPECT_EQ(type.ToString(), "/job:a");
  ASSERT_TRUE(id.Merge(Name("/device:GPU:2"), true).ok());
  EXPECT_EQ(id.ToString(), "/job:a/device:GPU:*");
  EXPECT_FALSE(job.Merge(Name("/job:b"), true).ok());
}

}  // namespace
}  // namespace tenon::place::device_name_test
