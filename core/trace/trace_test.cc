// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace.h"
// Covers R3.
#include <gtest/gtest.h>

#include <cctype>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json_escape.h"

namespace tenon::trace::trace_test {
namespace {

// The numbers of threads are of no meaning.
std::string WithoutThreads(std::string json) {
  for (size_t at = json.find("\"tid\":"); at != std::string::npos; at = json.find("\"tid\":", at + 1)) {
    size_t end = at + 6;
    while (std::isdigit(static_cast<unsigned char>(json[end]))) ++end;
    json.replace(at + 6, end - at - 6, "T");
  }
  return json;
}

TEST(Trace, IsAnEmptyListAtFirst) { EXPECT_EQ(Trace().ToJson(), "{\"traceEvents\":[\n]}\n"); }

TEST(Trace, WritesSpansInMicroseconds) {
  Trace trace;
  trace.Add("a", "Plus", 1500, 4000);
  trace.Add("b", "Copy", 4000, 4001);
  EXPECT_EQ(WithoutThreads(trace.ToJson()),
            "{\"traceEvents\":[\n"
            "{\"name\":\"a\",\"cat\":\"Plus\",\"ph\":\"X\",\"ts\":1.500,\"dur\":2.500,\"pid\":1,\"tid\":T},\n"
            "{\"name\":\"b\",\"cat\":\"Copy\",\"ph\":\"X\",\"ts\":4.000,\"dur\":0.001,\"pid\":1,\"tid\":T}\n]}\n");
}

TEST(Trace, EscapesWhatJsonMustNotHold) {
  EXPECT_EQ(JsonEscape("a\"b\\c\n\x01"), "a\\\"b\\\\c\\u000a\\u0001");
  EXPECT_EQ(JsonEscape("\xc3\xa4/b"), "\xc3\xa4/b");
  Trace trace;
  trace.Add("\"", "\\", 0, 1);
  EXPECT_NE(trace.ToJson().find("\"name\":\"\\\"\",\"cat\":\"\\\\\""), std::string::npos);
}

TEST(Trace, NamesTheRowsOfDevicesOnce) {
  Trace trace;
  trace.Add("h", "Host", 0, 1000);
  trace.AddOn({"/device:X:0", "copy in"}, "a", "copy", 1000, 2000, "8 bytes");
  trace.AddOn({"/device:X:0", "copy in"}, "b", "copy", 2000, 3000, "");
  trace.AddOn({"/device:X:1", "copy in"}, "c", "copy", 2000, 3000, "");
  const std::string json = trace.ToJson();
  EXPECT_NE(json.find("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"host\"}}"),
            std::string::npos);
  EXPECT_NE(
      json.find("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":3,\"tid\":0,\"args\":{\"name\":\"/device:X:1\"}}"),
      std::string::npos);
  const std::string line =
      "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":2,\"tid\":1,\"args\":{\"name\":\"copy in\"}}";
  EXPECT_EQ(json.find(line), json.rfind(line));
  EXPECT_NE(json.find(line), std::string::npos);
  EXPECT_NE(json.find("\"ts\":1.000,\"dur\":1.000,\"pid\":2,\"tid\":1,\"args\":{\"detail\":\"8 bytes\"}}"),
            std::string::npos);
  EXPECT_NE(json.find("{\"name\":\"b\",\"cat\":\"copy\",\"ph\":\"X\",\"ts\":2.000,\"dur\":1.000,\"pid\":2,\"tid\":1}"),
            std::string::npos);
}

TEST(Trace, TakesSpansFromManyThreads) {
  Trace trace;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&trace] {
      for (int i = 0; i < 100; ++i) trace.Add("n", "Op", 0, 1);
    });
  for (std::thread& thread : threads) thread.join();
  const std::string json = trace.ToJson();
  size_t count = 0;
  for (size_t at = json.find("\"ph\""); at != std::string::npos; at = json.find("\"ph\"", at + 1)) ++count;
  EXPECT_EQ(count, 400u);
}

TEST(Trace, ReadsTheHostsClock) {
  SetClock([]() -> uint64_t { return 77; });
  EXPECT_EQ(Trace::Now(), 77u);
  SetClock(nullptr);
}

}  // namespace
}  // namespace tenon::trace::trace_test
