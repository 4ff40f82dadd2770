// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/event_file.h"

#include <optional>
#include <utility>
#include <vector>

#include "tenon/bytes/event.h"
#include "tenon/bytes/record.h"
#include "tenon/bytes/wire.h"
#include "tenon/data/file.h"

namespace tenon::train {
namespace {

// Fields of the messages in an Event.
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimpleValue = 2;
constexpr uint32_t kSessionLogStatus = 1, kSessionLogPath = 2;
constexpr uint64_t kSessionStart = 1, kSessionCheckpoint = 3;
constexpr size_t kFlushBytes = 64 << 10;

std::string NewPath(const std::string& folder) {
  sdk::EventFileNames fresh;
  // Where the folder's files cannot be listed the time has to do.
  if (const Result<std::vector<std::string>> names = data::ListFolder(folder); names.ok())
    for (const std::string& name : *names) fresh.Note(name);
  for (;;) {
    const std::string path = data::JoinPath(folder, fresh.Next());
    if (!data::FileExists(path)) return path;
  }
}

}  // namespace

void AppendRecord(std::string& out, std::string_view data) { sdk::AppendRecord(out, data); }

Result<std::optional<std::string_view>> RecordReader::Next() {
  using State = sdk::LeadingRecord::State;
  const std::string_view rest = bytes_.substr(at_);
  if (rest.empty()) return std::optional<std::string_view>();
  const sdk::LeadingRecord record = sdk::ReadRecord(rest);
  if (record.state == State::kTorn) {
    torn_ = true;
    return std::optional<std::string_view>();
  }
  if (record.state != State::kWhole)
    return Status(Code::kDataLoss, "record at byte " + std::to_string(at_) + ": the checksum of its " +
                                       (record.state == State::kBadLength ? "length" : "data") + " is wrong");
  at_ += record.size();
  return std::optional<std::string_view>(record.data);
}

Result<EventWriter> EventWriter::Create(const std::string& folder) {
  TENON_TRY(data::MakeFolder(folder));
  std::string path = NewPath(folder);
  TENON_TRY_ASSIGN(host::File file, host::File::OpenAppend(path));
  EventWriter writer(std::move(file), std::move(path));
  TENON_TRY(writer.Add(0, sdk::kEventFileVersion, sdk::kEventFormat));
  TENON_TRY(writer.Flush());
  return writer;
}

EventWriter::~EventWriter() {
  (void)Flush();  // a full disk was reported by an earlier flush or loses the last events only
}

Status EventWriter::Add(int64_t step, uint32_t field, std::string_view message) {
  AppendRecord(pending_, sdk::EventOf(step, field, message));
  return pending_.size() >= kFlushBytes ? Flush() : Status();
}

Status EventWriter::AddGraph(std::string_view graph_def) { return Add(0, sdk::kEventGraphDef, graph_def); }

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

Status EventWriter::AddSummary(int64_t step, std::string_view summary) {
  return Add(step, sdk::kEventSummary, summary);
}

Status EventWriter::AddStart(int64_t step) {
  sdk::WireWriter log;
  log.Varint(kSessionLogStatus, kSessionStart);
  return Add(step, sdk::kEventSessionLog, log.bytes());
}

Status EventWriter::AddCheckpoint(int64_t step, std::string_view checkpoint_path) {
  sdk::WireWriter log;
  log.Varint(kSessionLogStatus, kSessionCheckpoint);
  log.Bytes(kSessionLogPath, checkpoint_path);
  return Add(step, sdk::kEventSessionLog, log.bytes());
}

Status EventWriter::Flush() {
  // After a failure nobody knows how much was written; what follows a torn record would not be read.
  if (!failed_.ok() || pending_.empty()) return failed_;
  failed_ = file_.Write(std::exchange(pending_, {}));
  return failed_;
}

}  // namespace tenon::train
