// SPDX-License-Identifier: Apache-2.0
#include "tenon/bytes/event.h"

#include <gtest/gtest.h>

namespace tenon::sdk::event_test {
namespace {

EventFileNames Behind(std::initializer_list<std::string> names) {
  EventFileNames fresh;
  for (const std::string& name : names) fresh.Note(name);
  return fresh;
}

// A name as another process would have it.
std::string NameAt(int64_t second, const std::string& rest) {
  char stamp[32];
  std::snprintf(stamp, sizeof(stamp), "%010lld", static_cast<long long>(second));
  return std::string("events.out.tfevents.") + stamp + "." + rest;
}

TEST(EventFileNames, LaterOnesSortBehindEarlierOnes) {
  const EventFileNames names;
  const std::string first = names.Next(), second = names.Next();
  EXPECT_LT(first, second);
  EXPECT_LT(second, Behind({first, second}).Next());
}

TEST(EventFileNames, SortBehindThoseOfAClockThatWasAhead) {
  const std::string ahead = NameAt(static_cast<int64_t>(EventTime()) + 5000, "host.7.000003");
  EXPECT_LT(ahead, Behind({"model.ckpt", ahead}).Next());
}

TEST(EventFileNames, SortBehindAProcessOfTheSameSecondWhoseNameWouldSortLater) {
  const auto now = static_cast<int64_t>(EventTime());
  for (const std::string host : {"~", "zz.9", ""}) {
    const std::string other = NameAt(now + 1, host + ".999999.000000");
    EXPECT_LT(other, Behind({other}).Next());
  }
}

TEST(EventFileNames, OtherNamesDoNotMatter) {
  const std::string fresh = Behind({"events.out.tfevents.99999999999.host.1.000000", "events.out.tfevents.x",
                                    "zzz", ""})
                                .Next();
  EXPECT_LT(fresh, NameAt(static_cast<int64_t>(EventTime()) + 100, ""));
}

TEST(Event, HasTheTimeTheStepAndTheMessage) {
  const std::string event = EventOf(7, kEventSummary, "message");
  WireReader reader(event);
  bool step = false, summary = false, time = false;
  while (reader.Next()) {
    time = time || reader.field() == kEventWallTime;
    step = step || (reader.field() == kEventStep && reader.number() == 7);
    summary = summary || (reader.field() == kEventSummary && reader.bytes() == "message");
  }
  EXPECT_TRUE(time && step && summary);
}

}  // namespace
}  // namespace tenon::sdk::event_test
