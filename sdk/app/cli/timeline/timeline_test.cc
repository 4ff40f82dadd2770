// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
// Covers R3.
#include <algorithm>

#include "sdk/app/cli/timeline/svg_timeline.h"
#include "sdk/app/cli/timeline/text_timeline.h"
#include "sdk/app/cli/timeline/trace_spans.h"

namespace tenon::cli::timeline_test {
namespace {

constexpr char kTrace[] = R"({"traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "TPU:0"}},
  {"ph": "M", "name": "thread_name", "pid": 2, "tid": 1, "args": {"name": "queue 0"}},
  {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "TPU:0, its own clock"}},
  {"ph": "X", "name": "a", "cat": "Add", "ts": 1000, "dur": 10, "pid": 1, "tid": 7},
  {"ph": "X", "name": "b", "cat": "Mul", "ts": 1005, "dur": 15, "pid": 2, "tid": 1},
  {"ph": "X", "name": "b", "cat": "Mul", "ts": 3, "dur": 4, "pid": 3, "tid": 1},
  {"ph": "M", "name": "nothing else"}]})";

TEST(TraceSpans, HaveTheirRowsAndClocks) {
  const auto clocks = ReadTrace(kTrace);
  ASSERT_TRUE(clocks.ok()) << clocks.status();
  ASSERT_EQ(clocks->size(), 2u);
  const TraceClock &host = (*clocks)[0], &own = (*clocks)[1];
  EXPECT_EQ(host.begin, 1000);
  EXPECT_EQ(host.end, 1020);
  ASSERT_EQ(host.spans.size(), 2u);
  EXPECT_EQ(host.spans[0].row, "host");
  EXPECT_EQ(host.spans[1].row, "TPU:0 queue 0");
  EXPECT_EQ(own.name, "TPU:0 by its own clock");
  EXPECT_EQ(own.begin, 3);
  for (const char* bad : {"", "[]", "7", "{}"}) EXPECT_FALSE(ReadTrace(bad).ok()) << bad;
}

TEST(TextTimeline, DrawsEachClock) {
  const std::string text = *FormatTimeline(kTrace, 40);
  EXPECT_NE(text.find("by the host's clock, 20.0 us:"), std::string::npos) << text;
  EXPECT_NE(text.find("|##########          | 1"), std::string::npos) << text;
  EXPECT_NE(text.find("|     ###############| 1"), std::string::npos) << text;
  EXPECT_NE(text.find("TPU:0 by its own clock, 4.0 us:"), std::string::npos) << text;
}

TEST(TextTimeline, FitsATerminalAndKeepsTheEndsOfNames) {
  constexpr char kLong[] = R"({"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "/job:worker/replica:0/task:12/device:TPU:15"}},
    {"ph": "M", "name": "thread_name", "pid": 2, "tid": 1, "args": {"name": "queue 0"}},
    {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "/job:worker/replica:0/task:12/device:TPU:15 of some cluster with a long name, its own clock"}},
    {"ph": "X", "name": "b", "cat": "Mul", "ts": 1005, "dur": 15, "pid": 2, "tid": 1},
    {"ph": "X", "name": "b", "cat": "Mul", "ts": 3, "dur": 4, "pid": 3, "tid": 1}]})";
  for (const size_t width : {80, 60}) {
    const std::string text = *FormatTimeline(kLong, width);
    size_t longest = 0, begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
      const std::string line = text.substr(begin, end - begin);
      const auto characters =
          static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
      if (!line.starts_with("  busy:")) longest = std::max(longest, characters);
    }
    EXPECT_EQ(longest, width) << text;
    EXPECT_NE(text.find("TPU:15 queue 0"), std::string::npos) << text;
  }
  EXPECT_NE(FormatTimeline(kLong, 0)->find("  /job:worker/replica:0/task:12/device:TPU:15 queue 0 |#"),
            std::string::npos)
      << "what is no terminal gets all";
  EXPECT_NE(FormatTimeline(kLong, 1)->find("|####################|"), std::string::npos) << "narrower than anything";
}

TEST(SvgTimeline, DrawsWhatWasMeasured) {
  const auto timeline = MeasuredTimeline(kTrace);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->rows, (std::vector<std::string>{"host", "TPU:0 queue 0"}));
  const std::string svg = DrawTimeline(*timeline);
  EXPECT_NE(svg.find("measured step: 20.00 us"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>b (Mul): 5.00 us + 15.00 us</title>"), std::string::npos) << svg;
  EXPECT_NE(svg.find("Mul  15.00 us</text>"), std::string::npos) << "which colour is which op: " << svg;
}

TEST(SvgTimeline, DrawsWhatIsPredictedWithItsTransfers) {
  const Json placement = Json::parse(
      R"({"seconds": 2e-6, "transfers": 1, "transfer_bytes": 8, "devices": [{"name": "CPU:0"}, {"name": "TPU:0"}],
    "nodes": [{"name": "a", "op": "Add", "device": "CPU:0", "start": 0, "finish": 1e-6}, {"name": "dead", "op": "Mul", "device": "CPU:0"}],
    "transfer_spans": [{"value": "a:0", "from": "CPU:0", "to": "TPU:0", "bytes": 8, "start": 1e-6, "finish": 2e-6}]})");
  const std::string svg = DrawTimeline(PredictedTimeline(placement));
  EXPECT_NE(svg.find("predicted step: 2.00 us, 1 transfers of 8 B"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>a:0: 8 B, 1.00 us</title>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("dead"), std::string::npos) << "it has no time";
}

TEST(SvgTimeline, NamesOfStrangersStayText) {
  const std::string svg = DrawTimeline({"</text><script>", 1, {"row \x1b&"}, {{0, "<n>", "\xff", 0, 1}}, {}});
  EXPECT_EQ(svg.find("<script>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find('\x1b'), std::string::npos) << "XML has no control characters";
  EXPECT_NE(svg.find("&lt;n&gt; (\\xff)"), std::string::npos) << svg;
  EXPECT_NE(DrawTimeline({}).find("</svg>"), std::string::npos) << "of nothing";
}

}  // namespace
}  // namespace tenon::cli::timeline_test
