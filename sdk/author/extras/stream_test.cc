// SPDX-License-Identifier: Apache-2.0
// Streams and records over files in memory: what is read, and what damaged, lying and vanishing files are answered
// with.
#include <gtest/gtest.h>

#include <random>

#include "tenon/extras/file/compressed_stream.h"
#include "tenon/extras/file/records.h"
#include "tenon/sdk/outcome.h"
#include "tenon/testing/linked.h"
#include "tenon/testing/memory_files.h"

namespace tenon::sdk::stream_test {
namespace {

std::string Packed(std::string_view text, bool gzip) {
  z_stream z = {};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + (gzip ? 16 : 0), 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// What `function` throws, "" for nothing.
template <class Function>
std::string FailureOf(Function&& function) {
  try {
    function();
    return "";
  } catch (...) {
    const Outcome outcome = TakeStatus(CurrentFailure());
    return std::to_string(outcome.code) + " " + outcome.message;
  }
}
bool Is(const std::string& failure, uint32_t code, std::string_view part) {
  return failure.starts_with(std::to_string(code) + " ") && failure.find(part) != std::string::npos;
}

class Streams : public ::testing::Test {
 protected:
  InputStream Open(std::string bytes, std::string_view compression = "", uint64_t buffer = 256) {
    disk_.files["f"] = std::move(bytes);
    return OpenStream(HostFiles(), "f", compression, buffer);
  }
  static std::vector<std::string> Lines(InputStream in) {
    std::vector<std::string> lines;
    for (std::string line; in.ReadLine(line);) lines.push_back(line);
    return lines;
  }
  static std::vector<std::string> Records(InputStream in) {
    RecordReader reader(std::move(in));
    std::vector<std::string> records;
    for (std::string_view record; reader.Next(&record);) records.emplace_back(record);
    return records;
  }
  testing::MemoryFiles disk_;
  testing::UseFiles use_{&disk_};
};

std::string Noise(size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(bytes));
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>("abc\n"[random() % 4]);
  return text;
}

TEST_F(Streams, GiveTheBytesOfAFilePackedOrNot) {
  const std::string text = Noise(100'000);
  for (const auto& [bytes, compression] :
       {std::pair{text, ""}, {Packed(text, true), "GZIP"}, {Packed(text, false), "ZLIB"}}) {
    for (const uint64_t buffer : {0, 300, 5000, 1 << 20}) {
      InputStream in = Open(bytes, compression, buffer);
      std::string all, piece;
      for (size_t size = 1; in.Read(piece, size) > 0; size = size * 2 + 1) {
        EXPECT_EQ(in.position(), all.size() + piece.size());
        all += piece;
      }
      EXPECT_EQ(all, text) << compression << buffer;
      EXPECT_EQ(in.Skip(1), 0U);
      in.SeekTo(77);
      EXPECT_EQ(in.Skip(50'000), 50'000U);
      EXPECT_EQ(in.Peek(5), std::string_view(text).substr(50'077, 5)) << compression << buffer;
      EXPECT_EQ(in.ReadAll(piece), 49'923U);
      EXPECT_EQ(piece, text.substr(50'077));
      EXPECT_TRUE(Is(FailureOf([&] { in.SeekTo(100'001); }), TENON_DATA_LOSS, "f ends at byte 100000"));
    }
  }
}

TEST_F(Streams, LinesAreTensorFlows) {
  EXPECT_EQ(Lines(Open("a\r\nb\rc\n\r\n\n\rd\r\r\ne\r")), (std::vector<std::string>{"a", "bc", "", "", "d", "e"}));
  EXPECT_EQ(Lines(Open("abc")), (std::vector<std::string>{"abc"}));
  EXPECT_EQ(Lines(Open("")), (std::vector<std::string>{}));
  EXPECT_EQ(Lines(Open("", "GZIP")), (std::vector<std::string>{}));
  const std::string far(10'000, 'x');
  EXPECT_EQ(Lines(Open(far + "\n" + far)), (std::vector<std::string>{far, far}));
  std::string line;
  InputStream in = Open("ab\n" + far);
  EXPECT_TRUE(in.ReadLine(line, 2));
  EXPECT_TRUE(Is(FailureOf([&] { in.ReadLine(line, 9'999); }), TENON_RESOURCE_EXHAUSTED,
                 "the line at byte 3 of f is longer than 9999 bytes"));
}

TEST_F(Streams, MembersOfGzipAreOneStreamAndWhatFollowsZlibIsNone) {
  EXPECT_EQ(Lines(Open(Packed("a\nb", true) + Packed("c\nd\n", true), "GZIP")),
            (std::vector<std::string>{"a", "bc", "d"}));
  EXPECT_EQ(Lines(Open(Packed("a\nb", false) + Packed("c\nd\n", false), "ZLIB")), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(Is(FailureOf([&] { Lines(Open(Packed("a\n", true) + "garbage", "GZIP")); }), TENON_DATA_LOSS,
                 "incorrect header check"));
  EXPECT_TRUE(Is(FailureOf([&] { Lines(Open("hello", "GZIP")); }), TENON_DATA_LOSS, "f is damaged before byte"));
  EXPECT_TRUE(Is(FailureOf([&] { Lines(Open("hello", "zip")); }), TENON_INVALID_ARGUMENT, "'zip'"));
  const std::string whole = Packed(Noise(3'000), true);
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    ASSERT_TRUE(Is(FailureOf([&] { Lines(Open(whole.substr(0, cut), "GZIP")); }), TENON_DATA_LOSS,
                   "f ends at byte " + std::to_string(cut)))
        << cut;
  }
}

TEST_F(Streams, AFileThatShrinksIsDataLossAndOneThatGrowsIsReadOn) {
  std::string piece;
  InputStream in = Open(Noise(10'000));
  EXPECT_EQ(in.Read(piece, 1000), 1000U);
  disk_.files["f"].resize(1500);
  EXPECT_TRUE(Is(FailureOf([&] { in.ReadAll(piece); }), TENON_DATA_LOSS, "the file f has shrunk while it was read"));
  InputStream grows = Open("a\n");
  EXPECT_TRUE(grows.ReadLine(piece));
  EXPECT_FALSE(grows.ReadLine(piece));
  disk_.files["f"] += "more\n";
  EXPECT_TRUE(grows.ReadLine(piece));
  EXPECT_EQ(piece, "more");
  disk_.files["f"] = "a";
  EXPECT_TRUE(Is(FailureOf([&] { grows.ReadLine(piece); }), TENON_DATA_LOSS, "from 7 bytes to 1"));
}

TEST_F(Streams, WhatIsLargeIsAskedForFirstAndReadingCanBeGivenUp) {
  InputStream bomb = Open(Packed(std::string(64 << 20, '\0'), true), "GZIP");
  bomb.set_before_growth([](uint64_t bytes) {
    if (bytes > 1 << 20) Fail(TENON_RESOURCE_EXHAUSTED, "no room");
  });
  std::string line;
  EXPECT_TRUE(Is(FailureOf([&] { bomb.ReadLine(line); }), TENON_RESOURCE_EXHAUSTED, "no room"));
  EXPECT_LE(line.capacity(), 1U << 21);
  EXPECT_TRUE(Is(FailureOf([&] { bomb.ReadAll(line); }), TENON_RESOURCE_EXHAUSTED, "no room"));
  int polls = 0;
  bomb.set_poll([&] {
    if (++polls == 3) Fail(TENON_CANCELLED, "given up");
  });
  EXPECT_TRUE(Is(FailureOf([&] { bomb.Skip(UINT64_MAX); }), TENON_CANCELLED, "given up"));
  // As many bytes as it says are not there: nothing is taken for them.
  InputStream small = Open("abc");
  EXPECT_EQ(small.Read(line, UINT64_MAX), 3U);
}

TEST_F(Streams, RecordsAreReadAsTheyWereWritten) {
  std::vector<std::string> records = {"hello", "", std::string(20, 'x'), Noise(5000), Noise(241), "end"};
  {
    RecordWriter writer(File::ForWriting(HostFiles(), "f"));
    for (const std::string& record : records) writer.Write(record);
    writer.Close();
  }
  const std::string file = disk_.files["f"];
  std::string appended;
  for (const std::string& record : records) AppendRecord(appended, record);
  EXPECT_EQ(file, appended);
  // "hello" as TensorFlow writes it.
  EXPECT_EQ(file.substr(0, 21), std::string("\5\0\0\0\0\0\0\0\xea\xb2\x04\x3e" "hello" "\xbb\x1f\x1c\x19", 21));
  for (const uint64_t buffer : {0, 300, 1 << 20}) {
    EXPECT_EQ(Records(Open(file, "", buffer)), records);
    EXPECT_EQ(Records(Open(Packed(file, true), "GZIP", buffer)), records);
    RecordReader reader(Open(file, "", buffer));
    std::string record;
    EXPECT_TRUE(reader.Next(record) && reader.Skip() && reader.Skip());
    const uint64_t position = reader.position();
    EXPECT_TRUE(reader.Next(record) && record == records[3]);
    EXPECT_TRUE(reader.Skip() && reader.Next(record) && record == "end" && !reader.Next(record) && !reader.Skip());
    reader.SeekTo(position);
    EXPECT_TRUE(reader.Next(record) && record == records[3]);
  }
}

// Long ones, which are read where they are to lie.
TEST_F(Streams, RecordsGoWhereTheyAreToLie) {
  const std::vector<std::string> records = {Noise(20'000),   Noise(10),      Noise(100'000),
                                            Noise(16 << 10), Noise(300'000), std::string()};
  std::string file;
  for (const std::string& record : records) AppendRecord(file, record);
  const auto read = [&](InputStream in) {
    RecordReader reader(std::move(in));
    std::vector<std::string> found;
    std::string placed;
    const auto place = [&](uint64_t length) {
      placed.assign(length, '?');
      return placed.data();
    };
    for (std::string_view record; reader.Next(&record, place);) found.emplace_back(record);
    return found;
  };
  for (const uint64_t buffer : {256, 5'000, 50'000, 200'000, 1 << 20}) {
    EXPECT_EQ(read(Open(file, "", buffer)), records) << buffer;
    EXPECT_EQ(read(Open(Packed(file, true), "GZIP", buffer)), records) << buffer;
    for (const size_t at : {size_t{5}, size_t{13}, size_t{19'000}, size_t{20'013}, size_t{90'000}, file.size() - 40}) {
      std::string bad = file;
      bad[at] ^= 1;
      EXPECT_TRUE(Is(FailureOf([&] { read(Open(bad, "", buffer)); }), TENON_DATA_LOSS, "corrupted record at byte "))
          << at << " " << buffer;
      EXPECT_TRUE(Is(FailureOf([&] { read(Open(file.substr(0, at), "", buffer)); }), TENON_DATA_LOSS,
                     "truncated record at byte "))
          << at << " " << buffer;
    }
  }
  // A length that lies takes no memory.
  std::string lies;
  PutFixed64(lies, UINT64_C(1) << 40);
  PutFixed32(lies, MaskCrc32c(Crc32c(lies)));
  EXPECT_TRUE(Is(FailureOf([&] { read(Open(lies + Noise(1000))); }), TENON_DATA_LOSS, "truncated record at byte 0"));
}

TEST_F(Streams, EveryCutAndEveryChangedByteOfRecordsIsDataLoss) {
  std::string file;
  for (const std::string& record : {std::string("hello"), std::string(), Noise(400)}) AppendRecord(file, record);
  const std::vector<size_t> ends = {0, 21, 37, file.size()};
  for (size_t cut = 0; cut < file.size(); ++cut) {
    if (std::find(ends.begin(), ends.end(), cut) != ends.end()) continue;
    ASSERT_TRUE(
        Is(FailureOf([&] { Records(Open(file.substr(0, cut))); }), TENON_DATA_LOSS, "truncated record at byte "))
        << cut;
  }
  for (size_t at = 0; at < file.size(); ++at) {
    std::string bad = file;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    ASSERT_TRUE(Is(FailureOf([&] { Records(Open(bad)); }), TENON_DATA_LOSS, "corrupted record at byte ")) << at;
  }
}

TEST_F(Streams, MutatedFilesAreReadOrRefusedWithTheirName) {
  std::string plain;
  for (const std::string& record : {std::string("hello"), std::string(), Noise(400), Noise(30)})
    AppendRecord(plain, record);
  const std::pair<std::string, const char*> files[] = {{plain, ""},
                                                       {Packed(plain, true), "GZIP"},
                                                       {Packed(plain, false), "ZLIB"},
                                                       {Packed(plain, true) + Packed(plain, true), "GZIP"}};
  std::mt19937 random(11);
  int refused = 0;
  constexpr int kTurns = 20'000;
  for (int turn = 0; turn < kTurns; ++turn) {
    auto [bad, compression] = files[turn % 4];
    for (int i = static_cast<int>(random() % 3); i >= 0 && !bad.empty(); --i) {
      const size_t at = random() % bad.size();
      if (random() % 4 == 0) bad.resize(at);
      else if (random() % 3 == 0) bad.insert(at, random() % 9, static_cast<char>(random()));
      else bad[at] = static_cast<char>(random());
    }
    const bool lines = random() % 2 == 0;
    const std::string failure = FailureOf([&] {
      lines ? (void)Lines(Open(bad, compression, random() % 1000))
            : (void)Records(Open(bad, compression, random() % 1000));
    });
    refused += failure.empty() ? 0 : 1;
    ASSERT_TRUE(failure.empty() || Is(failure, TENON_DATA_LOSS, "f") || Is(failure, TENON_RESOURCE_EXHAUSTED, "of f"))
        << failure;
  }
  EXPECT_GT(refused, kTurns / 2);
}

TEST_F(Streams, ALengthThatLiesTakesNothing) {
  for (const uint64_t length : {UINT64_C(1000), UINT64_C(1) << 30, UINT64_C(1) << 40, UINT64_MAX - 20, UINT64_MAX}) {
    std::string file;
    PutFixed64(file, length);
    PutFixed32(file, MaskCrc32c(Crc32c(file)));
    file += "data";
    const auto asks = [&](InputStream in) {
      RecordReader reader(std::move(in));
      std::string record;
      const std::string failure = FailureOf([&] { reader.Next(record); });
      EXPECT_LE(record.capacity(), 1024U);
      return failure;
    };
    EXPECT_TRUE(Is(asks(Open(file)), TENON_DATA_LOSS, "truncated record at byte 0 of f: " + std::to_string(length)));
    const std::string packed = asks(Open(Packed(file, true), "GZIP"));
    EXPECT_TRUE(Is(packed, TENON_DATA_LOSS, "truncated") || Is(packed, TENON_RESOURCE_EXHAUSTED, "bytes long"))
        << packed;
  }
}

}  // namespace
}  // namespace tenon::sdk::stream_test
