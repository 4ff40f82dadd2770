// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/event_file.h"
// Covers R1, R2.
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "tenon/data/file.h"
#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::train::event_file_test {
namespace {

// What the tests look at in an Event.
struct SeenEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version, graph_def, summary;
  uint64_t session_status = 0;
};

SeenEvent Parse(std::string_view bytes) {
  SeenEvent event;
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) event.wall_time = reader.as_double();
    if (reader.field() == 2) event.step = static_cast<int64_t>(reader.number());
    if (reader.field() == 3) event.file_version = reader.bytes();
    if (reader.field() == 4) event.graph_def = reader.bytes();
    if (reader.field() == 5) event.summary = reader.bytes();
    if (reader.field() == 7) {
      sdk::WireReader log(reader.bytes());
      while (log.Next()) {
        if (log.field() == 1) event.session_status = log.number();
      }
    }
  }
  EXPECT_TRUE(reader.ok());
  return event;
}

std::vector<SeenEvent> ReadEvents(const std::string& path) {
  std::vector<SeenEvent> events;
  Result<std::string> bytes = data::ReadFile(path);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  RecordReader reader(*bytes);
  while (true) {
    Result<std::optional<std::string_view>> record = reader.Next();
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok() || !record->has_value()) return events;
    events.push_back(Parse(**record));
  }
}

std::string TemporaryFolder() { return fakes::TemporaryFolder("event"); }

TEST(Record, ReadsBackWhatItWrote) {
  std::string file;
  AppendRecord(file, "one");
  AppendRecord(file, "");
  EXPECT_EQ(16u + 3 + 16, file.size());
  RecordReader reader(file);
  EXPECT_EQ("one", (*reader.Next()).value());
  EXPECT_EQ("", (*reader.Next()).value());
  EXPECT_FALSE((*reader.Next()).has_value());
  EXPECT_FALSE(reader.torn());
}

TEST(Record, TakesATornTailAsTheEnd) {
  std::string file;
  AppendRecord(file, "whole");
  const size_t whole = file.size();
  AppendRecord(file, "torn");
  for (size_t size = whole + 1; size < file.size(); ++size) {
    RecordReader reader(std::string_view(file).substr(0, size));
    EXPECT_EQ("whole", (*reader.Next()).value());
    EXPECT_FALSE((*reader.Next()).has_value());
    EXPECT_TRUE(reader.torn());
  }
}

TEST(Record, SaysWhichChecksumIsWrong) {
  std::string file;
  AppendRecord(file, "data");
  std::string bad_length = file, bad_data = file;
  bad_length[0] ^= 1;
  bad_data[13] ^= 1;
  EXPECT_EQ(Code::kDataLoss, RecordReader(bad_length).Next().status().code());
  const Status status = RecordReader(bad_data).Next().status();
  EXPECT_EQ("record at byte 0: the checksum of its data is wrong", status.message());
}

TEST(EventWriter, WritesWhatTensorBoardReads) {
  const std::string folder = TemporaryFolder() + "/a/b";
  std::string path;
  {
    Result<EventWriter> writer = EventWriter::Create(folder);
    ASSERT_TRUE(writer.ok()) << writer.status();
    path = writer->path();
    ASSERT_TRUE(writer->AddGraph("graph bytes").ok());
    ASSERT_TRUE(writer->AddStart(40).ok());
    ASSERT_TRUE(writer->AddScalars(41, {{"loss", 0.25f}, {"accuracy", 0.5f}}).ok());
  }
  EXPECT_NE(std::string::npos, path.find("/events.out.tfevents."));
  const std::vector<SeenEvent> events = ReadEvents(path);
  ASSERT_EQ(4u, events.size());
  EXPECT_EQ("brain.Event:2", events[0].file_version);
  EXPECT_GT(events[0].wall_time, 1e9);
  EXPECT_EQ("graph bytes", events[1].graph_def);
  EXPECT_EQ(1u, events[2].session_status);
  EXPECT_EQ(40, events[2].step);
  EXPECT_EQ(41, events[3].step);

  std::vector<std::pair<std::string, float>> scalars;
  sdk::WireReader summary(events[3].summary);
  while (summary.Next()) {
    auto& [tag, number] = scalars.emplace_back();
    sdk::WireReader value(summary.bytes());
    while (value.Next()) {
      if (value.field() == 1) tag = value.bytes();
      if (value.field() == 2) number = value.as_float();
    }
  }
  EXPECT_EQ((std::vector<std::pair<std::string, float>>{{"loss", 0.25f}, {"accuracy", 0.5f}}), scalars);
}

TEST(EventWriter, GivesTwoRunsOfOneSecondTwoFiles) {
  const std::string folder = TemporaryFolder();
  Result<EventWriter> first = EventWriter::Create(folder), second = EventWriter::Create(folder);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->path(), second->path());
}

TEST(EventWriter, SortsBehindTheFilesThatAreThere) {
  const std::string folder = TemporaryFolder();
  const auto name = [](int64_t second, const char* process) {
    return "events.out.tfevents." + std::to_string(second) + ".~." + process + ".000000";
  };
  const auto now = static_cast<int64_t>(std::time(nullptr));
  // Of this second, or the next; of a day when the clock was ahead; and what only looks like one.
  std::vector<std::string> names = {name(now, "9"), name(now + 1, "9"), name(now + 86400, "9")};
  for (const std::string& other : {name(99999999999, "9"), std::string("events.out.tfevents.zzz"), std::string("zzz")})
    std::ofstream(folder + "/" + other) << "";
  for (const std::string& there : names) {
    std::ofstream(folder + "/" + there) << "";
    const Result<EventWriter> writer = EventWriter::Create(folder);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::string made = writer->path().substr(folder.size() + 1);
    EXPECT_GT(made, there);
    EXPECT_LT(made, name(now + 86400 + 60, "9"));
  }
}

TEST(EventWriter, SaysWhyAFolderCannotBeMade) {
  Result<EventWriter> writer = EventWriter::Create("/proc/nothing/here");
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(std::string::npos, writer.status().message().find("/proc/nothing"));
}

TEST(Wire, StopsAtDamage) {
  for (const std::string& bytes :
       {std::string("\x0a\x05"
                    "abc"),
        std::string("\x08\xff"), std::string("\x00\x01", 2), std::string("\x0b"), std::string(12, '\xff'),
        std::string("\x09"
                    "1234567")}) {
    sdk::WireReader reader(bytes);
    while (reader.Next()) {
    }
    EXPECT_FALSE(reader.ok());
  }
}

}  // namespace
}  // namespace tenon::train::event_file_test
