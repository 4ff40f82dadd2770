// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/data/file.h"
#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"

namespace tenon::train {
namespace {

// Fields of tensorflow.Event and the messages in it.
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventGraphDef = 4, kEventSummary = 5,
                   kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimpleValue = 2;
constexpr uint32_t kSessionLogStatus = 1, kSessionLogPath = 2;
constexpr uint64_t kSessionStart = 1, kSessionCheckpoint = 3;
constexpr size_t kFlushBytes = 64 << 10;

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

template <typename T>
void AppendRaw(std::string& out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

template <typename T>
T ReadRaw(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

uint32_t MaskedCrc32c(std::string_view bytes) { return sdk::MaskCrc32c(sdk::Crc32c(bytes)); }

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr size_t kStampDigits = 10;

// The second in which a file of this name was begun; none: it is no such name.
std::optional<int64_t> SecondOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size());
  int64_t second = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), second);
  if (digits.size() != kStampDigits || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  return second;
}

// A name that no other run has, and that sorts behind those in the folder: readers, TensorBoard too, take the files in
// the order of their names. A run that goes on within the second of the one before, or after the clock was set back,
// may have a process whose number sorts before that one's (1003 before 989): it gets a later second. The last number
// has zeros before it for that.
std::string NewPath(const std::string& folder) {
  char host[256] = "localhost";
  if (gethostname(host, sizeof(host) - 1) != 0) std::strcpy(host, "localhost");
  auto second = static_cast<int64_t>(Now());
  std::string last;
  const Result<std::vector<std::string>> names =
      data::ListFolder(folder);  // none: the folder's files cannot be listed, and the time has to do
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (SecondOf(name).has_value()) last = std::max(last, name);
  }
  const auto base = [&] {
    char stamp[32];
    std::snprintf(stamp, sizeof(stamp), "%0*lld", static_cast<int>(kStampDigits), static_cast<long long>(second));
    return std::string(kPrefix) + stamp + "." + host + "." + std::to_string(getpid()) + ".";
  };
  if (base() < last && !last.starts_with(base())) second = std::max(second, *SecondOf(last)) + 1;
  static std::atomic<int> writers{0};
  for (;;) {
    char number[16];
    std::snprintf(number, sizeof(number), "%06d", writers++);
    const std::string path = data::JoinPath(folder, base() + number);
    if (!data::FileExists(path)) return path;
  }
}

}  // namespace

void AppendRecord(std::string& out, std::string_view data) {
  std::string length;
  AppendRaw<uint64_t>(length, data.size());
  out += length;
  AppendRaw(out, MaskedCrc32c(length));
  out += data;
  AppendRaw(out, MaskedCrc32c(data));
}

Result<std::optional<std::string_view>> RecordReader::Next() {
  const std::string_view rest = bytes_.substr(at_);
  if (rest.empty()) return std::optional<std::string_view>();
  constexpr size_t kFrame = 16;  // length, its crc, the data's crc
  if (rest.size() < 12) {
    torn_ = true;
    return std::optional<std::string_view>();
  }
  if (MaskedCrc32c(rest.substr(0, 8)) != ReadRaw<uint32_t>(rest.substr(8))) {
    return Status(Code::kDataLoss, "record at byte " + std::to_string(at_) + ": the checksum of its length is wrong");
  }
  const auto length = ReadRaw<uint64_t>(rest);
  if (rest.size() < kFrame || length > rest.size() - kFrame) {
    torn_ = true;
    return std::optional<std::string_view>();
  }
  const std::string_view data = rest.substr(12, length);
  if (MaskedCrc32c(data) != ReadRaw<uint32_t>(rest.substr(12 + length))) {
    return Status(Code::kDataLoss, "record at byte " + std::to_string(at_) + ": the checksum of its data is wrong");
  }
  at_ += kFrame + length;
  return std::optional<std::string_view>(data);
}

Result<EventWriter> EventWriter::Create(const std::string& folder) {
  TENON_TRY(data::MakeFolder(folder));
  std::string path = NewPath(folder);
  TENON_TRY_ASSIGN(host::File file, host::File::OpenAppend(path));
  EventWriter writer(std::move(file), std::move(path));
  TENON_TRY(writer.Add(0, kEventFileVersion, "brain.Event:2"));
  TENON_TRY(writer.Flush());
  return writer;
}

EventWriter::~EventWriter() {
  (void)Flush();  // a full disk was reported by an earlier flush or loses the last events only
}

Status EventWriter::Add(int64_t step, uint32_t field, std::string_view message) {
  sdk::WireWriter event;
  event.Double(kEventWallTime, Now());
  event.Varint(kEventStep, static_cast<uint64_t>(step));
  event.Bytes(field, message);
  AppendRecord(pending_, event.bytes());
  return pending_.size() >= kFlushBytes ? Flush() : Status();
}

Status EventWriter::AddGraph(std::string_view graph_def) { return Add(0, kEventGraphDef, graph_def); }

Status EventWriter::AddScalars(int64_t step, const std::vector<std::pair<std::string, float>>& values) {
  sdk::WireWriter summary;
  for (const auto& [tag, number] : values) {
    sdk::WireWriter value;
    value.Bytes(kValueTag, tag);
    value.Float(kValueSimpleValue, number);
    summary.Bytes(kSummaryValue, value.bytes());
  }
  return AddSummary(step, summary.bytes());
}

Status EventWriter::AddSummary(int64_t step, std::string_view summary) { return Add(step, kEventSummary, summary); }

Status EventWriter::AddStart(int64_t step) {
  sdk::WireWriter log;
  log.Varint(kSessionLogStatus, kSessionStart);
  return Add(step, kEventSessionLog, log.bytes());
}

Status EventWriter::AddCheckpoint(int64_t step, std::string_view checkpoint_path) {
  sdk::WireWriter log;
  log.Varint(kSessionLogStatus, kSessionCheckpoint);
  log.Bytes(kSessionLogPath, checkpoint_path);
  return Add(step, kEventSessionLog, log.bytes());
}

Status EventWriter::Flush() {
  // After a failure nobody knows how much was written; what follows a torn record would not be read.
  if (!failed_.ok() || pending_.empty()) return failed_;
  failed_ = file_.Write(std::exchange(pending_, {}));
  return failed_;
}

}  // namespace tenon::train
