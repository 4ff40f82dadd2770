// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/checkpoint_state.h"

#include <gtest/gtest.h>

#include "tenon/train/saver.h"

namespace tenon::train::checkpoint_state_test {
namespace {

TEST(CheckpointState, WritesTensorFlowsText) {
  CheckpointState state{{"model.ckpt-10", "model.ckpt-20"}, {1.5, 2.5}};
  EXPECT_EQ(
      "model_checkpoint_path: \"model.ckpt-20\"\n"
      "all_model_checkpoint_paths: \"model.ckpt-10\"\n"
      "all_model_checkpoint_paths: \"model.ckpt-20\"\n"
      "all_model_checkpoint_timestamps: 1.5\n"
      "all_model_checkpoint_timestamps: 2.5\n",
      state.Format());
}

TEST(CheckpointState, ReadsWhatTensorFlowWrites) {
  Result<CheckpointState> state = CheckpointState::Parse(
      "model_checkpoint_path: \"model.ckpt-200\"\n"
      "all_model_checkpoint_paths: \"model.ckpt-100\"\n"
      "all_model_checkpoint_paths: \"model.ckpt-200\"\n"
      "all_model_checkpoint_timestamps: 1577836800.1234567\n"
      "all_model_checkpoint_timestamps: 1577836900\n"
      "last_preserved_timestamp: 1577836700.5\n");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ((std::vector<std::string>{"model.ckpt-100", "model.ckpt-200"}), state->paths);
  EXPECT_EQ(2u, state->timestamps.size());
}

TEST(CheckpointState, PutsTheNewestLastWhereverItStood) {
  Result<CheckpointState> state = CheckpointState::Parse(
      "model_checkpoint_path: \"b\" all_model_checkpoint_paths: \"b\" all_model_checkpoint_paths: \"c\"");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ((std::vector<std::string>{"c", "b"}), state->paths);
}

TEST(CheckpointState, KeepsStrangeNames) {
  CheckpointState state{{"a \"quoted\" \\ \n\x01 name", "/absolute/\xc3\xa9"}, {}};
  Result<CheckpointState> read = CheckpointState::Parse(state.Format());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(state.paths, read->paths);
}

TEST(CheckpointState, AnEmptyFileNamesNone) {
  Result<CheckpointState> state = CheckpointState::Parse("");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(state->paths.empty());
}

TEST(CheckpointState, RefusesWhatIsNone) {
  for (const char* text : {"garbage", "model_checkpoint_path", "model_checkpoint_path: \"unclosed",
                           "all_model_checkpoint_paths: \"a\"", "model_checkpoint_path: \"a\\", "\x01\x02"}) {
    EXPECT_EQ(Code::kDataLoss, CheckpointState::Parse(text).status().code()) << text;
  }
}

TEST(StepOfCheckpoint, IsTheNumberAtTheEnd) {
  EXPECT_EQ(120, StepOfCheckpoint("model.ckpt-120"));
  EXPECT_EQ(0, StepOfCheckpoint("/a-b/model.ckpt-0"));
  EXPECT_EQ(-1, StepOfCheckpoint("model.ckpt"));
  EXPECT_EQ(-1, StepOfCheckpoint("model.ckpt-12x"));
  EXPECT_EQ(-1, StepOfCheckpoint("model.ckpt-"));
}

TEST(CheckpointState, PathsLeadIntoTheFolderOrAreWhole) {
  EXPECT_EQ(CheckpointPath("folder", "model.ckpt-1"), "folder/model.ckpt-1");
  EXPECT_EQ(CheckpointPath("folder", "/other/model.ckpt-1"), "/other/model.ckpt-1");
  EXPECT_EQ(CheckpointPath("folder", "memory://other/model.ckpt-1"), "memory://other/model.ckpt-1");
}

}  // namespace
}  // namespace tenon::train::checkpoint_state_test
