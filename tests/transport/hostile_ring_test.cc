// SPDX-License-Identifier: Apache-2.0
// A process that shakes hands over shm and then breaks the rules of its ring: it loses its connection, and nobody else
// does.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "net/shm/handshake.h"
#include "net/shm/record.h"
#include "tenon/extras/transport/frame.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/transport/tested.h"

namespace tenon::transport_testing {
namespace {

using shm::Record;
using shm::RecordKind;

class HostileRing : public ::testing::Test {
 protected:
  // Another process's side, in the test's own hands.
  void Meet(shm::Meeting* out_meeting) {
    std::string path;
    ASSERT_EQ(Text(shm::PathOf(server.address().substr(6), &path)), "");
    ASSERT_EQ(Text(shm::Bell::Make(&bell)), "");
    ASSERT_EQ(Text(shm::Meet(path, After(kPatience), *bell, out_meeting)), "");
  }
  static void Put(shm::RingWriter* ring, const Record& record, std::string_view payload) {
    std::memcpy(ring->at(), static_cast<const void*>(&record), sizeof record);
    std::memcpy(ring->at() + sizeof record, payload.data(), payload.size());
    ring->Publish(shm::RecordBytes(payload.size()));
  }
  static void Wake(const shm::Meeting& meeting) { send(meeting.socket.get(), "w", 1, MSG_NOSIGNAL); }
  void ExpectLoss(const Record& record, std::string_view payload) {
    shm::Meeting meeting;
    Meet(&meeting);
    shm::RingWriter ring = meeting.segment->Writer(0);
    Put(&ring, record, payload);
    Wake(meeting);
    EXPECT_EQ(CodeOf(server.lost.Take()), "INVALID_ARGUMENT");
  }

  std::unique_ptr<shm::Bell> bell;
  BuiltTransport transport{"shm"};
  Endpoint server{transport, transport.Address()}, client{transport};
  Peer honest{client, server.address()};
};

TEST_F(HostileRing, OfImpossibleRecordsBreaks) {
  const std::string payload(64, 'p');
  ExpectLoss({RecordKind::kWhole, 1u << 30, 0, 0, 1u << 30, 0}, payload);
  ExpectLoss({RecordKind::kWhole, UINT32_MAX, 0, 0, UINT32_MAX, 0}, payload);
  ExpectLoss({RecordKind::kWhole, 64, 65, 0, 0, 0}, payload);
  ExpectLoss({RecordKind::kWhole, 64, 10, 0, 1000, 0}, payload);
  ExpectLoss({RecordKind::kParts, 64, 10, 0, 54, 0}, payload);
  ExpectLoss({RecordKind::kChunk, 64, 0, 0, 0, 0}, payload);
  ExpectLoss({RecordKind::kReturned, 0, 0, 0, 0, 1}, "");
  ExpectLoss({static_cast<RecordKind>(77), 64, 0, 0, 0, 0}, payload);
  EXPECT_EQ(honest.Call("echo", "hello").response, "hello");
}

TEST_F(HostileRing, OfMemoryThatIsNotThereBreaks) {
  const std::string head(sdk::HeadWriter(sdk::FrameKind::kData).Number(1).Text(Span("key")).Text({}).view());
  const shm::Piece nowhere = {8, 1 << 20};
  std::string payload = head + std::string(reinterpret_cast<const char*>(&nowhere), sizeof nowhere);
  const auto payload_bytes = static_cast<uint32_t>(payload.size()), head_bytes = static_cast<uint32_t>(head.size());
  ExpectLoss({RecordKind::kLent, payload_bytes, head_bytes, 0, 1 << 20, 1}, payload);
  EXPECT_EQ(CodeOf(server.placed.Take().status), "UNAVAILABLE");
  ExpectLoss({RecordKind::kLent, payload_bytes, head_bytes, 0, 5, 1}, payload);
  ExpectLoss({RecordKind::kLent, payload_bytes - 1, head_bytes, 0, 1 << 20, 1}, payload);
  EXPECT_EQ(honest.Call("echo", "hello").response, "hello");
}

TEST_F(HostileRing, OfImpossibleCountersBreaks) {
  for (uint64_t bytes : {uint64_t{8}, uint64_t{1} << 40, UINT64_MAX}) {
    shm::Meeting meeting;
    Meet(&meeting);
    shm::RingWriter ring = meeting.segment->Writer(0);
    ring.Publish(bytes);
    Wake(meeting);
    EXPECT_EQ(CodeOf(server.lost.Take()), "INVALID_ARGUMENT");
  }
  EXPECT_EQ(honest.Call("echo", "hello").response, "hello");
}

TEST_F(HostileRing, OfRandomBytesDoesNoHarmToOthers) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    shm::Meeting meeting;
    Meet(&meeting);
    shm::RingWriter ring = meeting.segment->Writer(0);
    for (int k = 0; k < 20; ++k) {
      std::string payload(random() % 200, '\0');
      for (char& byte : payload) byte = static_cast<char>(random());
      Record record = {static_cast<RecordKind>(random() % 7),
                       static_cast<uint32_t>(payload.size()),
                       0,
                       0,
                       random() % 300,
                       random() % 3};
      record.head_bytes = static_cast<uint32_t>(random() % (payload.size() + 2));
      Put(&ring, record, payload);
    }
    Wake(meeting);
  }
  EXPECT_EQ(honest.Call("echo", "hello").response, "hello");
}

TEST_F(HostileRing, OfOneWhoNeverReadsItsAnswersEnds) {
  shm::Meeting meeting;
  Meet(&meeting);
  shm::RingWriter ring = meeting.segment->Writer(0);
  const std::string request = Pattern(10'000);  // which stands in the status of its answer
  const uint64_t patience = After(kPatience);
  for (uint64_t id = 1; server.lost.Empty() && After({}) < patience;) {
    if (!ring.Fits(20'000)) {
      std::this_thread::yield();
      continue;
    }
    const std::string head(
        sdk::HeadWriter(sdk::FrameKind::kCall).Number(id++).Number(0).Text(Span("fail")).Number(0).view());
    const Record record = {RecordKind::kWhole,
                           static_cast<uint32_t>(head.size() + request.size()),
                           static_cast<uint32_t>(head.size()),
                           0,
                           request.size(),
                           0};
    Put(&ring, record, head + request);
    if (meeting.bell->TakeSleeper()) Wake(meeting);
  }
  EXPECT_EQ(CodeOf(server.lost.Take()), "UNAVAILABLE");
  EXPECT_EQ(honest.Call("echo", "hello").response, "hello");
}

TEST_F(HostileRing, IsNotMadeOfMemoryThatCanShrink) {
  std::unique_ptr<shm::Segment> segment;
  shm::File unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096 + 2 * shm::Segment::kRingBytes), 0);
  EXPECT_EQ(CodeOf(Text(shm::Segment::Open(unsealed, &segment))), "INVALID_ARGUMENT");
}

TEST(ShmAddresses, AreNamesOrPathsWithoutWaysOut) {
  std::string path;
  for (const char* bad : {"..", ".hidden", "a/b", "../a", "", "a b", "/tmp/../etc/x", "/tmp/", "a\nb"}) {
    EXPECT_EQ(CodeOf(Text(shm::PathOf(bad, &path))), "INVALID_ARGUMENT") << bad;
  }
  EXPECT_EQ(CodeOf(Text(shm::PathOf("/" + std::string(200, 'a'), &path))), "INVALID_ARGUMENT");
  EXPECT_EQ(Text(shm::PathOf("/tmp/x..y", &path)), "");
  EXPECT_EQ(path, "/tmp/x..y");
}

TEST(ShmAddresses, DoNotReplaceAFileThatIsNoSocket) {
  const std::string folder = fakes::TemporaryFolder("shm");
  const std::string path = folder + "/precious";
  std::ofstream(path) << "data";
  BuiltTransport transport("shm");
  Endpoint server(transport, "shm://" + path);
  EXPECT_EQ(CodeOf(server.open_status), "ALREADY_EXISTS");
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
  Endpoint beside(transport, "shm://" + folder + "/socket");
  EXPECT_EQ(beside.open_status, "");
}

}  // namespace
}  // namespace tenon::transport_testing
