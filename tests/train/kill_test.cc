// SPDX-License-Identifier: Apache-2.0
// Training that is killed (SIGKILL) at random moments resumes each time, and ends with the very weights of a run that
// nobody disturbed. Covers J4, J6.
//
// A checkpoint is written at each step, so that most kills fall into the writing of one. The moments are random in
// time; nothing waits longer than the child runs, and no outcome depends on how fast the machine is.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tenon/data/file.h"
#include "tenon/train/event_file.h"
#include "tenon/train/saver.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/fakes/whole.h"
#include "tests/train/child.h"

namespace tenon::train {
namespace {

const int kKills = fakes::IsWhole() ? 200 : 20;
const int kSteps = 16 * kKills + 40;  // more than the killed runs get through together

std::string TemporaryFolder() { return fakes::TemporaryFolder("kill"); }

std::vector<std::string> Arguments(const std::string& folder, const std::string& checkpoint_steps) {
  return {"digits", "--folder", folder,      "--steps", std::to_string(kSteps), "--checkpoint-steps", checkpoint_steps,
          "--keep", "2",        "--threads", "1"};
}

void ExpectReadableEvents(const std::string& folder) {
  const Result<std::vector<std::string>> files = data::ListFolder(folder + "/events");
  ASSERT_TRUE(files.ok()) << files.status();
  for (const std::string& file : *files) {
    const Result<std::string> bytes = data::ReadFile(folder + "/events/" + file);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    RecordReader reader(*bytes);
    while (true) {
      const Result<std::optional<std::string_view>> record = reader.Next();
      ASSERT_TRUE(record.ok()) << file << ": " << record.status();
      if (!record->has_value()) break;
    }
  }
}

TEST(Kill, TrainingResumesEachTimeAndEndsWithTheSameWeights) {
  const std::string folder = TemporaryFolder();
  std::mt19937 random(std::random_device{}());
  int kills = 0, resumed = 0;
  int64_t newest = 0;
  while (kills < kKills) {
    Child child(Arguments(folder, "1"));
    // A random moment after the start, but none later than a few new checkpoints, so that the steps last for all kills.
    ASSERT_TRUE(child.ReadUntil("Teaching")) << child.output();
    for (auto left = static_cast<int>(random() % 200); left > 0 && NewestStep(folder) < newest + 4; left -= 5)
      child.ReadFor(5);
    child.Kill();
    const int code = child.Wait();
    if (code == 0) break;  // it was done before it could be killed
    ASSERT_EQ(-SIGKILL, code) << child.output();
    ++kills;
    // What was complete before is never lost, and a checkpoint that is named can be read: no run had to fall back.
    EXPECT_EQ(std::string::npos, child.output().find("warning")) << child.output();
    EXPECT_GE(NewestStep(folder), newest) << child.output();
    newest = NewestStep(folder);
    resumed += child.output().find("resumed from") != std::string::npos;
  }
  EXPECT_GE(kills, kKills / 2);
  EXPECT_GE(resumed, 1);

  Child last(Arguments(folder, "1000000"));
  ASSERT_EQ(0, last.Wait()) << last.output();
  EXPECT_EQ(kSteps, NewestStep(folder));
  ExpectReadableEvents(folder);

  const std::string undisturbed = TemporaryFolder();
  Child whole(Arguments(undisturbed, "1000000"));
  ASSERT_EQ(0, whole.Wait()) << whole.output();
  // Weights and slots: the tensors of the last checkpoint.
  const std::string data = "/checkpoints/model.ckpt-" + std::to_string(kSteps) + ".data-00000-of-00001";
  const Result<std::string> one = data::ReadFile(folder + data), two = data::ReadFile(undisturbed + data);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE(*one == *two) << "the weights differ";
  std::printf("%d kills, %d of the killed runs had resumed, the last at step %lld of %d\n", kills, resumed,
              static_cast<long long>(newest), kSteps);
}

}  // namespace
}  // namespace tenon::train
