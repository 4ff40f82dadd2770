// SPDX-License-Identifier: Apache-2.0
// Every option of a session on its whole way: an application's struct, the C struct, the core's, and what a worker gets
// of it.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "sdk/app/host/read_options.h"
#include "tenon/host/session.h"

namespace tenon::host::options_test {
namespace {

// Each option with its kind, and where it holds.
struct Row {
  std::string name, kind, reach;
};
std::vector<Row> Rows() {
  std::vector<Row> rows;
#define TENON_ROW(name, kind, value, reach, flag, help, names) rows.push_back({prefix + #name, #kind, #reach});
  std::string prefix;
  TENON_SESSION_OPTIONS(TENON_ROW)
  prefix = "debug.";
  TENON_DEBUG_OPTIONS(TENON_ROW)
#undef TENON_ROW
  return rows;
}

// What is not the default, by type.
void Change(bool& value, const char*) { value = !value; }
void Change(uint32_t& value, const char*) { value = 1; }
void Change(uint64_t& value, const char* name) { value = 1000 + std::string(name).size(); }
void Change(std::string& value, const char* name) { value = std::string("the ") + name; }
void Change(std::chrono::nanoseconds& value, const char*) { value = std::chrono::seconds(7); }
void Change(Precision& value, const char*) { value = Precision::kAllowTf32; }
void Change(TransferPrecision& value, const char*) { value = TransferPrecision::kTruncated; }

SessionOptions Changed() {
  SessionOptions options;
#define TENON_CHANGE(name, ...) Change(options.name, #name);
  TENON_SESSION_OPTIONS(TENON_CHANGE)
#undef TENON_CHANGE
#define TENON_CHANGE(name, ...) Change(options.debug.name, #name);
  TENON_DEBUG_OPTIONS(TENON_CHANGE)
#undef TENON_CHANGE
  return options;
}

// Values of the core's options as texts, by name.
std::vector<std::pair<std::string, std::string>> Texts(const session::SessionOptions& options) {
  std::vector<std::pair<std::string, std::string>> texts;
  const auto put = [&](std::string name, const auto& value) {
    if constexpr (std::is_convertible_v<decltype(value), std::string>) texts.emplace_back(name, value);
    else texts.emplace_back(name, std::to_string(value));
  };
#define TENON_TEXT(name, kind, ...) put(#name, options.TENON_OPTION_MEMBER(kind, name));
  TENON_SESSION_OPTIONS(TENON_TEXT)
#undef TENON_TEXT
#define TENON_TEXT(name, kind, ...) put("debug." #name, options.debug.TENON_OPTION_MEMBER(kind, name));
  TENON_DEBUG_OPTIONS(TENON_TEXT)
#undef TENON_TEXT
  return texts;
}

session::SessionOptions Read(const SessionOptions& options) {
  const internal::CSessionOptions c_options(options);
  session::SessionOptions read;
  EXPECT_TRUE(ReadSessionOptions(c_options.options, &read).ok());
  return read;
}

TEST(SessionOptions, AllArriveInTheCore) {
  const auto unset = Texts(session::SessionOptions()), read_unset = Texts(Read(SessionOptions())),
             changed = Texts(Read(Changed()));
  EXPECT_EQ(unset, read_unset) << "defaults are the same on both sides";
  const std::vector<Row> rows = Rows();
  ASSERT_EQ(rows.size(), changed.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NE(changed[i].second, unset[i].second) << rows[i].name << " was lost on the way";
    if (rows[i].kind == "TEXT" || rows[i].kind == "FILE") {
      EXPECT_EQ(changed[i].second, "the " + rows[i].name);
    }
    if (rows[i].kind == "SIZE" || rows[i].kind == "NUMBER") {
      EXPECT_EQ(changed[i].second, std::to_string(1000 + rows[i].name.substr(rows[i].name.rfind('.') + 1).size()))
          << rows[i].name;
    }
  }
}

TEST(SessionOptions, WorkersGetThoseThatHoldThere) {
  const session::SessionOptions sent = Read(Changed());
  session::SessionOptions received;
  for (const session::CarriedOption& option : session::Carried(sent))
    ASSERT_TRUE(session::SetCarried(option, &received).ok()) << option.name;
  const auto unset = Texts(session::SessionOptions()), from = Texts(sent), to = Texts(received);
  const std::vector<Row> rows = Rows();
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(to[i].second, rows[i].reach == "EVERYWHERE" ? from[i].second : unset[i].second) << rows[i].name;
  EXPECT_TRUE(session::Carried(session::SessionOptions()).empty()) << "what nobody asked for is not sent";
}

TEST(SessionOptions, WorkersRefuseWhatTheyDoNotKnow) {
  session::SessionOptions options;
  for (const session::CarriedOption& wrong :
       {session::CarriedOption{"telepathy", 1, {}}, {"master", 0, "grpc://elsewhere"}, {"debug.partition", 1, {}}}) {
    const tenon::Status refused = session::SetCarried(wrong, &options);
    EXPECT_EQ(refused.code(), tenon::Code::kUnimplemented) << wrong.name;
    EXPECT_NE(refused.message().find(wrong.name), std::string_view::npos) << refused.message();
  }
  for (const session::CarriedOption& wrong :
       {session::CarriedOption{"executor", 2, {}}, {"precision", uint64_t{1} << 32, {}}, {"compile", 2, {}}}) {
    const tenon::Status refused = session::SetCarried(wrong, &options);
    EXPECT_EQ(refused.code(), tenon::Code::kInvalidArgument) << wrong.name;
  }
}

TEST(SessionOptions, SwitchesAreOnOffOrTheDefault) {
  tenon_session_options given = {};
  given.struct_size = sizeof(given);
  session::SessionOptions read;
  ASSERT_TRUE(ReadSessionOptions(given, &read).ok());
  EXPECT_TRUE(read.compile);
  EXPECT_FALSE(read.isolate);
  given.compile = TENON_OFF;
  given.isolate = TENON_ON;
  ASSERT_TRUE(ReadSessionOptions(given, &read).ok());
  EXPECT_FALSE(read.compile);
  EXPECT_TRUE(read.isolate);
  given.compile = 3;
  const tenon::Status refused = ReadSessionOptions(given, &read);
  EXPECT_EQ(refused.code(), tenon::Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("'compile' is 3"), std::string_view::npos) << refused.message();
}

TEST(SessionOptions, ChoicesAreInRange) {
  session::SessionOptions options;
  options.precision = 9;
  const tenon::Status refused = session::CheckOptions(options);
  EXPECT_EQ(refused.code(), tenon::Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("'precision' is 9"), std::string_view::npos) << refused.message();
  EXPECT_NE(refused.message().find("bfloat16"), std::string_view::npos) << refused.message();
}

}  // namespace
}  // namespace tenon::host::options_test
