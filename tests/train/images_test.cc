// SPDX-License-Identifier: Apache-2.0
// `tenon train images`: it learns from a folder of pictures and from records of them, with all of its input in the
// graph; killed at random moments, in the middle of a pass, it ends with the very weights of a run that nobody
// disturbed, so that no example was lost or seen twice. Covers A1, M1, M2, M11, P16, R7.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tenon/data/file.h"
#include "tenon/tenon.h"
#include "tenon/train/images.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/train/child.h"

namespace tenon::train {
namespace {

constexpr int kSteps = 60, kKills = 5, kPictures = 40;  // of a class: a pass is fewer than 8 steps of 16

const Runtime& TheRuntime() {
  static const Runtime* const runtime = new Runtime(*Runtime::Create());
  return *runtime;
}

// Three classes: noise that is mostly red, green or blue. Every other picture is a JPEG.
const std::string& Pictures() {
  static const std::string folder = [] {
    const std::string made = fakes::TemporaryFolder("pictures");
    Graph graph(TheRuntime());
    const Output pixels = graph.Placeholder("pixels", DType::kUint8, {-1, -1, 3});
    const std::vector<Name> encoded = {Name(graph.Op("EncodePng", {pixels})), Name(graph.Op("EncodeJpeg", {pixels}))};
    const Session session = *Session::Create(TheRuntime(), graph);
    std::mt19937 random(7);
    const std::vector<std::string> names = {"blue", "green", "red"};
    for (size_t label = 0; label < names.size(); ++label) {
      EXPECT_TRUE(data::MakeFolder(made + "/" + names[label]).ok());
      for (int i = 0; i < kPictures; ++i) {
        const int64_t height = 20 + i % 7, width = 24;
        std::vector<uint8_t> values(static_cast<size_t>(height * width * 3));
        for (size_t k = 0; k < values.size(); ++k)
          values[k] = static_cast<uint8_t>(random() % 120 + (k % 3 == 2 - label ? 130 : 0));
        const auto bytes =
            session.Run({{pixels, View(values, {height, width, 3})}}, {encoded[static_cast<size_t>(i % 2)]});
        EXPECT_TRUE(bytes.ok()) << bytes.status();
        const std::string file = made + "/" + names[label] + "/" + std::to_string(i) + (i % 2 == 0 ? ".png" : ".jpg");
        EXPECT_TRUE(data::ReplaceFile(file, {(*bytes)[0].string(0)}, data::Durability::kQuick).ok());
      }
    }
    EXPECT_TRUE(data::ReplaceFile(made + "/notes.txt", {"no class"}).ok());
    return made;
  }();
  return folder;
}

std::vector<std::string> Arguments(const std::string& source, const std::string& folder,
                                   const std::string& checkpoint_steps) {
  return {"images",
          source,
          "--folder",
          folder,
          "--steps",
          std::to_string(kSteps),
          "--batch",
          "16",
          "--side",
          "16",
          "--checkpoint-steps",
          checkpoint_steps,
          "--keep",
          "2",
          "--threads",
          "1"};
}

std::string LastCheckpoint(const std::string& folder) {
  auto bytes = data::ReadFile(folder + "/checkpoints/model.ckpt-" + std::to_string(kSteps) + ".data-00000-of-00001");
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : std::string();
}

// All held-out pictures are told apart.
void ExpectLearned(const std::string& source) {
  const std::string folder = fakes::TemporaryFolder("images");
  std::vector<std::string> arguments = Arguments(source, folder, "0");
  arguments.push_back("--json");
  Child child(arguments);
  ASSERT_EQ(0, child.Wait()) << child.output();
  EXPECT_NE(child.output().find("\"accuracy\": 1.0"), std::string::npos) << child.output();
  EXPECT_EQ(*data::ReadFile(folder + "/classes.txt"), "blue\ngreen\nred\n");
  EXPECT_TRUE(data::FileExists(folder + "/images.pb"));
}

TEST(TrainImages, LearnsFromAFolder) { ExpectLearned(Pictures()); }

TEST(TrainImages, LearnsFromRecords) {
  const std::string file = fakes::TemporaryFolder("records") + "/pictures.tfrecord";
  const auto written = WriteImageRecords(Pictures(), file);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(*written, 3 * kPictures);
  ExpectLearned(file);
}

TEST(TrainImages, KilledInTheMiddleOfAPassItSeesWhatAWholeRunSees) {
  for (const bool records : {false, true}) {
    std::string source = Pictures();
    if (records) {
      source = fakes::TemporaryFolder("records") + "/pictures.tfrecord";
      ASSERT_TRUE(WriteImageRecords(Pictures(), source).ok());
    }
    const std::string folder = fakes::TemporaryFolder("images");
    std::mt19937 random(std::random_device{}());
    int64_t newest = 0;
    for (int kills = 0; kills < kKills; ++kills) {
      Child child(Arguments(source, folder, "1"));
      ASSERT_TRUE(child.ReadUntil("Teaching")) << child.output();
      for (auto left = static_cast<int>(random() % 300); left > 0 && NewestStep(folder) < newest + 8; left -= 5)
        child.ReadFor(5);
      child.Kill();
      if (child.Wait() == 0) break;  // it was done before it could be killed
      newest = NewestStep(folder);
    }
    Child last(Arguments(source, folder, "1000000"));
    ASSERT_EQ(0, last.Wait()) << last.output();
    const std::string undisturbed = fakes::TemporaryFolder("images");
    Child whole(Arguments(source, undisturbed, "1000000"));
    ASSERT_EQ(0, whole.Wait()) << whole.output();
    EXPECT_TRUE(LastCheckpoint(folder) == LastCheckpoint(undisturbed)) << "the weights differ";
  }
}

TEST(TrainImages, SaysWhatIsWrongWithAFolder) {
  const std::string empty = fakes::TemporaryFolder("empty");
  for (const auto& [source, said] : std::vector<std::pair<std::string, std::string>>{
           {empty, "has 0 classes of pictures"}, {empty + "/gone", "there is no folder or file"}}) {
    const auto opened = ImageSource::Open(source);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.status().message().find(said), std::string::npos) << opened.status();
  }
  ASSERT_TRUE(data::ReplaceFile(empty + "/alone.tfrecord", {"x"}).ok());
  EXPECT_NE(ImageSource::Open(empty + "/alone.tfrecord").status().message().find("names of the classes"),
            std::string::npos);
}

TEST(TrainImages, APictureThatIsNoneIsNamedWithItsFile) {
  const std::string folder = fakes::TemporaryFolder("broken");
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(data::MakeFolder(folder + "/" + name).ok());
    for (int i = 0; i < 30; ++i)
      ASSERT_TRUE(data::ReplaceFile(folder + "/" + name + "/" + std::to_string(i) + ".png", {"no picture"},
                                    data::Durability::kQuick)
                      .ok());
  }
  Child child(Arguments(folder, fakes::TemporaryFolder("images"), "0"));
  EXPECT_EQ(1, child.Wait()) << child.output();
  EXPECT_NE(child.output().find("read_and_distort"), std::string::npos) << child.output();
}

}  // namespace
}  // namespace tenon::train
