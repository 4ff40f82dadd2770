// SPDX-License-Identifier: Apache-2.0
// Readers over a queue of the test's and files in memory: what they give, who waits, who ends, and what damaged files
// do. What is expected of whole files is TensorFlow's. Covers B13, M1.
#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <random>

#include "tenon/extras/file/records.h"
#include "tenon/extras/kernel/shared_queue.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"
#include "tenon/testing/memory_files.h"

namespace tenon::ops {
extern const tenon_kernel_registration kWholeFileReaderV2Kernel, kTextLineReaderV2Kernel,
    kFixedLengthRecordReaderV2Kernel, kTFRecordReaderV2Kernel, kIdentityReaderV2Kernel, kReaderReadV2Kernel,
    kReaderReadUpToV2Kernel, kReaderNumRecordsProducedV2Kernel, kReaderNumWorkUnitsCompletedV2Kernel,
    kReaderResetV2Kernel, kReaderSerializeStateV2Kernel, kReaderRestoreStateV2Kernel;
}  // namespace tenon::ops

namespace tenon::ops::reader_test {
namespace {

using testing::Attribute;
using testing::Make;
using testing::Node;
using testing::Outcome;
using testing::Tensor;
using testing::Texts;
using testing::Values;
using Pending = std::unique_ptr<testing::PendingCall>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// Names of files, and those who wait for one.
class NameQueue final : public sdk::SharedQueue {
 public:
  tenon_status* TakeOne(tenon_frame* frame, Taken taken, void* argument) noexcept override {
    waiting.push_back({this, frame, taken, argument, 0});
    waiting.back().token = frame->services->cancel_subscribe(frame, &OnCancelled, &waiting.back());
    if (waiting.back().token == 0) {
      waiting.pop_back();
      return sdk::Failure(TENON_CANCELLED, "cancelled before");
    }
    Serve();
    return nullptr;
  }
  const uint32_t* component_types(uint64_t* out_count) const noexcept override {
    *out_count = 1;
    return &type;
  }
  tenon_span description() const noexcept override { return TENON_SPAN("FIFOQueue 'names'"); }

  void Put(std::string name) {
    names.push_back(std::move(name));
    Serve();
  }
  void Close() {
    closed = true;
    Serve();
  }
  struct Waiter {
    NameQueue* queue;
    tenon_frame* frame;
    Taken taken;
    void* argument;
    uint64_t token;
  };
  void Serve() {
    while (!waiting.empty() && (!names.empty() || closed)) {
      const Waiter first = waiting.front();
      (void)first.frame->services->cancel_unsubscribe(first.frame, first.token);
      waiting.pop_front();
      if (names.empty()) {
        first.taken(first.argument, sdk::Failure(TENON_OUT_OF_RANGE, "closed and empty"), nullptr, 0);
        continue;
      }
      const Tensor name = testing::Strings({}, {names.front()});
      names.pop_front();
      const tenon_tensor_view view = name.view();
      first.taken(first.argument, nullptr, &view, 1);
    }
  }
  static void OnCancelled(void* argument, tenon_status* why) {
    const Waiter gone = *static_cast<Waiter*>(argument);
    gone.queue->waiting.remove_if([&](const Waiter& each) { return &each == argument; });
    (void)gone.frame->services->cancel_unsubscribe(gone.frame, gone.token);
    gone.taken(gone.argument, why, nullptr, 0);
  }
  std::deque<std::string> names;
  std::list<Waiter> waiting;
  bool closed = false;
  uint32_t type = TENON_DT_STRING;
};

class Readers : public ::testing::Test {
 protected:
  Readers() {
    queue_resource_.object = static_cast<sdk::SharedQueue*>(&queue_);
    queue_resource_.object_type = sdk::ToText(sdk::kQueueType);
    queue_handle_ = testing::Handle(queue_resource_);
  }
  Outcome MakeReader(const tenon_kernel_registration& kernel, testing::Attributes attributes = {}) {
    attributes.try_emplace("container", "");
    attributes.try_emplace("shared_name", "r");
    for (const char* zero : {"skip_header_lines", "header_bytes", "record_bytes", "footer_bytes", "hop_bytes"})
      attributes.try_emplace(zero, 0);
    for (const char* none : {"compression_type", "encoding"}) attributes.try_emplace(none, "");
    Node node = {std::string(sdk::ToText(kernel.op)), {}, {}, {TENON_DT_RESOURCE}};
    node.attributes = std::move(attributes);
    step_.ClearHandles();
    const Outcome made = step_.Run(kernel, node, {});
    if (made.ok()) reader_ = std::move(step_.outputs[0]);
    return made;
  }
  Pending Start(const tenon_kernel_registration& kernel, std::vector<const Tensor*> more = {},
                std::vector<uint32_t> outputs = {}) {
    more.insert(more.begin(), &reader_);
    return step_.Start(kernel, {std::string(sdk::ToText(kernel.op)), {}, {}, std::move(outputs)}, more);
  }
  Pending StartRead() { return Start(kReaderReadV2Kernel, {&queue_handle_}, {TENON_DT_STRING, TENON_DT_STRING}); }
  bool Settle(const Pending& call) { return step_.works->RunUntil([&] { return call->done(); }); }
  // Pairs of keys and values until something fails; `end_` is why.
  Pairs ReadAll(int most = 1000) {
    Pairs pairs;
    for (int i = 0; i < most; ++i) {
      const Pending call = StartRead();
      EXPECT_TRUE(Settle(call));
      end_ = call->outcome();
      if (!end_.ok()) break;
      pairs.emplace_back(Texts(call->outputs()[0])[0], Texts(call->outputs()[1])[0]);
    }
    return pairs;
  }
  std::vector<std::string> ReadUpTo(int64_t count) {
    const Tensor wanted = testing::Scalar(count);
    const Pending call = Start(kReaderReadUpToV2Kernel, {&queue_handle_, &wanted}, {TENON_DT_STRING, TENON_DT_STRING});
    EXPECT_TRUE(Settle(call));
    end_ = call->outcome();
    return end_.ok() ? Texts(call->outputs()[0]) : std::vector<std::string>();
  }
  int64_t Number(const tenon_kernel_registration& kernel) {
    EXPECT_TRUE(step_.Run(kernel, {"Number", {}, {}, {TENON_DT_INT64}}, {&reader_}).ok());
    return Values<int64_t>(step_.outputs[0])[0];
  }
  std::pair<int64_t, int64_t> Numbers() {
    return {Number(kReaderNumRecordsProducedV2Kernel), Number(kReaderNumWorkUnitsCompletedV2Kernel)};
  }
  std::string State() {
    const Pending call = Start(kReaderSerializeStateV2Kernel, {}, {TENON_DT_STRING});
    EXPECT_TRUE(Settle(call));
    return call->outcome().ok() ? Texts(call->outputs()[0])[0] : call->outcome().text();
  }
  std::string Restore(const std::string& state) {
    const Tensor text = testing::Strings({}, {state});
    const Pending call = Start(kReaderRestoreStateV2Kernel, {&text});
    EXPECT_TRUE(Settle(call));
    return call->outcome().text();
  }
  void Give(const std::vector<std::pair<std::string, std::string>>& files) {
    for (const auto& [name, text] : files) {
      disk_.files[name] = text;
      queue_.names.push_back(name);
    }
  }

  testing::MemoryFiles disk_;
  testing::UseFiles use_{&disk_};
  testing::KernelRunner step_;
  NameQueue queue_;
  testing::Variable queue_resource_;
  Tensor queue_handle_, reader_;
  Outcome end_;
};

TEST_F(Readers, LinesHaveTheirNumbers) {
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel).text(), "");
  Give({{"a", "1\n2\r\n3"}, {"b", ""}, {"c", "x\n"}});
  queue_.closed = true;
  EXPECT_EQ(ReadAll(3), (Pairs{{"a:1", "1"}, {"a:2", "2"}, {"a:3", "3"}}));
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{3, 0}));
  EXPECT_EQ(ReadAll(1), (Pairs{{"c:1", "x"}}));
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{4, 2}));
  EXPECT_EQ(ReadAll(), Pairs());
  EXPECT_EQ(end_.text(), "OUT_OF_RANGE: closed and empty");
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{4, 3}));
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel, {{"skip_header_lines", 2}}).text(), "");
  Give({{"a", "1\n2\r\n3"}, {"b", "h\n"}});
  EXPECT_EQ(ReadAll(), (Pairs{{"a:3", "3"}}));
}

TEST_F(Readers, SeveralRecordsAreOfOneFile) {
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel).text(), "");
  Give({{"a", "1\n2\r\n3"}, {"b", ""}, {"c", "x\n"}});
  EXPECT_EQ(ReadUpTo(2), (std::vector<std::string>{"a:1", "a:2"}));
  EXPECT_EQ(ReadUpTo(2), (std::vector<std::string>{"a:3"}));
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{3, 1}));
  EXPECT_EQ(ReadUpTo(INT64_MAX), (std::vector<std::string>{"c:1"}));
  EXPECT_EQ(ReadUpTo(0), (std::vector<std::string>{}));
  EXPECT_TRUE(end_.ok());
  (void)ReadUpTo(-1);
  EXPECT_EQ(end_.text(), "INVALID_ARGUMENT: num_records is -1");
}

TEST_F(Readers, RecordsOfOneLengthHop) {
  const auto values = [&](int64_t header, int64_t record, int64_t footer, int64_t hop) {
    EXPECT_EQ(
        MakeReader(kFixedLengthRecordReaderV2Kernel,
                   {{"header_bytes", header}, {"record_bytes", record}, {"footer_bytes", footer}, {"hop_bytes", hop}})
            .text(),
        "");
    Give({{"f", "HHaabbccddFF"}});
    queue_.closed = true;
    std::vector<std::string> all;
    for (const auto& [key, value] : ReadAll()) {
      EXPECT_EQ(key, "f:" + std::to_string(all.size()));
      all.push_back(value);
    }
    EXPECT_TRUE(end_.code == TENON_OUT_OF_RANGE || end_.code == TENON_DATA_LOSS) << end_.text();
    return all;
  };
  EXPECT_EQ(values(2, 2, 2, 0), (std::vector<std::string>{"aa", "bb", "cc", "dd"}));
  EXPECT_EQ(values(2, 2, 2, 1), (std::vector<std::string>{"aa", "ab", "bb", "bc", "cc", "cd", "dd"}));
  EXPECT_EQ(values(2, 2, 2, 4), (std::vector<std::string>{"aa", "cc"}));
  EXPECT_EQ(values(0, 5, 0, 0), (std::vector<std::string>{"HHaab", "bccdd"}));
  EXPECT_EQ(values(0, 5, 0, INT64_MAX), (std::vector<std::string>{"HHaab"}));
  EXPECT_EQ(values(0, INT64_MAX, INT64_MAX, 0), (std::vector<std::string>{}));
  EXPECT_EQ(values(100, 5, 0, 0), (std::vector<std::string>{}));
  EXPECT_EQ(end_.text(), "DATA_LOSS: the file f has 12 bytes, fewer than its 100 header_bytes");
}

TEST_F(Readers, RecordsHaveTheirOffsetsAndADamagedOneStaysSoUntilAReset) {
  ASSERT_EQ(MakeReader(kTFRecordReaderV2Kernel).text(), "");
  std::string file;
  for (const char* record : {"hello", "", "xxxxxxxxxxxxxxxxxxxx"}) sdk::AppendRecord(file, record);
  std::string bad = file;
  bad[60] = 'y';
  Give({{"a", file}, {"bad", bad}, {"a", file}});
  EXPECT_EQ(
      ReadAll(5),
      (Pairs{{"a:0", "hello"}, {"a:21", ""}, {"a:37", "xxxxxxxxxxxxxxxxxxxx"}, {"bad:0", "hello"}, {"bad:21", ""}}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ReadAll(), Pairs());
    EXPECT_EQ(end_.text().substr(0, 50), "DATA_LOSS: corrupted record at byte 37 of bad: its");
  }
  const Pending reset = Start(kReaderResetV2Kernel);
  EXPECT_TRUE(Settle(reset));
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{0, 0}));
  EXPECT_EQ(ReadAll(1), (Pairs{{"a:0", "hello"}}));
}

TEST_F(Readers, AFileThatIsNotThereIsLeftOut) {
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel).text(), "");
  Give({{"a", "1"}, {"gone", ""}, {"b", "2"}});
  disk_.files.erase("gone");
  EXPECT_EQ(ReadAll(), (Pairs{{"a:1", "1"}}));
  EXPECT_EQ(end_.text(), "NOT_FOUND: open gone: no such file");
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{1, 1}));
  EXPECT_EQ(ReadAll(1), (Pairs{{"b:1", "2"}}));
}

TEST_F(Readers, AWholeFileThatIsNotThereIsTriedAgain) {
  ASSERT_EQ(MakeReader(kWholeFileReaderV2Kernel).text(), "");
  Give({{"a", "1\n2"}, {"late", ""}, {"b", ""}});
  disk_.files.erase("late");
  EXPECT_EQ(ReadAll(), (Pairs{{"a", "1\n2"}}));
  EXPECT_EQ(end_.text(), "NOT_FOUND: open late: no such file");
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{1, 1}));
  EXPECT_EQ(State(), "\x08\x02\x10\x01\x18\x01\"\x04late");
  disk_.files["late"] = "x";
  EXPECT_EQ(ReadAll(2), (Pairs{{"late", "x"}, {"b", ""}}));
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{3, 3}));
}

TEST_F(Readers, StatesAreTensorFlows) {
  ASSERT_EQ(MakeReader(kIdentityReaderV2Kernel).text(), "");
  queue_.names = {"aa", "b", "c"};
  EXPECT_EQ(State(), "");
  EXPECT_EQ(ReadAll(1), (Pairs{{"aa", "aa"}}));
  EXPECT_EQ(State(), "\x08\x01\x10\x01\x18\x01\"\x02"
                     "aa");
  EXPECT_EQ(ReadAll(2).size(), 2U);
  queue_.closed = true;
  EXPECT_EQ(ReadAll(), Pairs());
  EXPECT_EQ(State(), "\x08\x03\x10\x03\x18\x03") << "no name came";
  const std::string state = "\x08\x02\x10\x02\x18\x05\"\x03" "abc";
  EXPECT_EQ(Restore(state), "");
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{5, 2}));
  EXPECT_EQ(State(), state);
  for (const std::string& bad : {std::string("\xff"), std::string("\x08\x01"), std::string("\x08\x03\x10\x01"),
                                 std::string("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")}) {
    EXPECT_EQ(Restore(state), "");
    EXPECT_EQ(Restore(bad).substr(0, 17), "INVALID_ARGUMENT:");
    EXPECT_EQ(State(), "") << "what is refused leaves it as new";
  }
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel).text(), "");
  EXPECT_EQ(State().substr(0, 14), "UNIMPLEMENTED:");
  EXPECT_EQ(Restore("").substr(0, 14), "UNIMPLEMENTED:");
}

TEST_F(Readers, WhatNobodyCanReadIsRefused) {
  const auto refused = [&](const tenon_kernel_registration& kernel, const char* attribute, Attribute value,
                           const std::string& why) {
    testing::Attributes attributes = {{attribute, std::move(value)}};
    attributes.try_emplace("record_bytes", 1);
    EXPECT_EQ(MakeReader(kernel, attributes).text(), "INVALID_ARGUMENT: " + why);
  };
  refused(kTextLineReaderV2Kernel, "skip_header_lines", -1, "skip_header_lines must be >= 0, not -1");
  for (const char* bytes : {"header_bytes", "footer_bytes", "hop_bytes"})
    refused(kFixedLengthRecordReaderV2Kernel, bytes, -1, std::string(bytes) + " must be >= 0, not -1");
  refused(kFixedLengthRecordReaderV2Kernel, "record_bytes", 0, "record_bytes must be >= 1, not 0");
  refused(kFixedLengthRecordReaderV2Kernel, "encoding", "zip",
          "the compression 'zip' is none of '', 'GZIP' and 'ZLIB'");
  refused(kTFRecordReaderV2Kernel, "compression_type", "gzip",
          "the compression 'gzip' is none of '', 'GZIP' and 'ZLIB'");
  ASSERT_EQ(MakeReader(kWholeFileReaderV2Kernel).text(), "");
  queue_.type = TENON_DT_INT32;
  EXPECT_EQ(ReadAll(), Pairs());
  EXPECT_EQ(end_.text(),
            "INVALID_ARGUMENT: a reader takes names of files from a queue with one component, a string; the FIFOQueue "
            "'names' has 1 of type int32");
}

TEST_F(Readers, ThoseWhoWaitAreServedInTheirOrder) {
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel).text(), "");
  const Pending first = StartRead(), second = StartRead(), third = StartRead(), reset = Start(kReaderResetV2Kernel);
  step_.works->Advance(1);
  EXPECT_FALSE(first->done() || second->done() || third->done() || reset->done());
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{0, 0})) << "nobody waits for the numbers";
  second->Cancel();
  EXPECT_EQ(second->outcome().code, TENON_CANCELLED);
  disk_.files["f"] = "1\n2\n3\n";
  queue_.Put("f");
  EXPECT_TRUE(Settle(reset));
  EXPECT_EQ(Texts(first->outputs()[0])[0], "f:1");
  EXPECT_EQ(Texts(third->outputs()[0])[0], "f:2");
  EXPECT_EQ(first->ends() + second->ends() + third->ends() + reset->ends(), 4);
  EXPECT_EQ(Numbers(), (std::pair<int64_t, int64_t>{0, 0}));
}

TEST_F(Readers, TheOneThatWaitsForANameCanBeGivenUpAndTheNextGoesOn) {
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel).text(), "");
  const Pending first = StartRead();
  step_.works->Advance(1);
  const Pending second = StartRead();
  first->Cancel();
  EXPECT_TRUE(Settle(first));
  EXPECT_EQ(first->outcome().code, TENON_CANCELLED);
  step_.works->Advance(1);
  EXPECT_FALSE(second->done());
  queue_.Close();
  EXPECT_TRUE(Settle(second));
  EXPECT_EQ(second->outcome().code, TENON_OUT_OF_RANGE);
}

TEST_F(Readers, ManyWhoWaitAtAQueueThatClosesEnd) {
  ASSERT_EQ(MakeReader(kTextLineReaderV2Kernel).text(), "");
  std::vector<Pending> calls;
  for (int i = 0; i < 2000; ++i) calls.push_back(StartRead());
  queue_.Close();
  for (const Pending& call : calls) {
    ASSERT_TRUE(Settle(call));
    ASSERT_EQ(call->outcome().code, TENON_OUT_OF_RANGE);
  }
}

TEST_F(Readers, DamagedFilesEndOrGiveAnErrorThatNamesThem) {
  std::mt19937 random(7);
  std::string good;
  for (int i = 0; i < 6; ++i) sdk::AppendRecord(good, std::string(random() % 50, 'r') + "\n");
  const tenon_kernel_registration* kinds[] = {&kTFRecordReaderV2Kernel, &kTextLineReaderV2Kernel,
                                              &kFixedLengthRecordReaderV2Kernel};
  for (int turn = 0; turn < 3000; ++turn) {
    std::string bad = good;
    for (int i = static_cast<int>(random() % 4); i >= 0; --i) bad[random() % bad.size()] = static_cast<char>(random());
    if (turn % 3 == 0) bad.resize(random() % bad.size());
    testing::Attributes attributes = {{"record_bytes", static_cast<int64_t>(random() % 40) + 1},
                                      {"hop_bytes", static_cast<int64_t>(random() % 40)}};
    const auto* kind = kinds[turn % 3];
    const char* compressions[] = {"", "", "GZIP", "ZLIB"};
    const char* compression = compressions[random() % 4];
    attributes[kind == kinds[0] ? "compression_type" : "encoding"] = compression;
    ASSERT_EQ(MakeReader(*kind, attributes).text(), "");
    queue_.closed = true;
    Give({{"f", bad}});
    (void)ReadAll();
    ASSERT_FALSE(end_.ok());
    ASSERT_TRUE(end_.code == TENON_OUT_OF_RANGE ||
                (end_.code == TENON_DATA_LOSS && end_.text().find(" f") != std::string::npos) ||
                end_.code == TENON_RESOURCE_EXHAUSTED)
        << end_.text();
    queue_.names.clear();
  }
}

}  // namespace
}  // namespace tenon::ops::reader_test
