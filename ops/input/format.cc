// SPDX-License-Identifier: Apache-2.0
#include "format.h"

#include <optional>

#include "tenon/extras/file/compressed_stream.h"
#include "tenon/extras/file/records.h"
#include "tenon/sdk/kernel/kept_tensor.h"

namespace tenon::ops::input {
using namespace sdk;

void CheckRoom(const RunContext& c, uint64_t bytes) {
  const auto size = static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
  NewTensor(c, TENON_DT_UINT8, {&size, 1});  // which goes at once: where it fits, so does what is to come
}

namespace {

// What is read through a stream of bytes.
class StreamFormat : public Format {
 public:
  explicit StreamFormat(const ReaderOptions& options) : options_(options) {}
  void Open(const std::string& path, const RunContext& c) final {
    Close();
    const Paying paying(this, c);
    try {
      stream_.emplace(Begin(Stream(path)));
      Opened();
    } catch (...) {
      Close();
      throw;
    }
  }
  bool Next(std::string& key, std::string& value, const RunContext& c) final {
    const Paying paying(this, c);
    InputStream& in = stream_->stream();
    const uint64_t at = again_at_.value_or(in.position());
    again_at_ = at;  // unless all goes well
    if (in.position() != at) in.SeekTo(at);
    if (!Read(key, value)) return false;
    again_at_.reset();
    return true;
  }
  void Close() override {
    stream_.reset();
    again_at_.reset();
  }

 protected:
  virtual void Opened() {}
  virtual bool Read(std::string& key, std::string& value) = 0;
  InputStream& in() { return stream_->stream(); }
  RecordReader& records() { return *stream_; }
  const std::string& path() { return in().path(); }
  const ReaderOptions& options_;

 private:
  // For as long as it lives, this run pays.
  struct Paying {
    Paying(StreamFormat* format, const RunContext& c) : format(format) { format->payer_ = &c; }
    ~Paying() { format->payer_ = nullptr; }
    Paying(const Paying&) = delete;
    Paying& operator=(const Paying&) = delete;
    StreamFormat* format;
  };
  InputStream Stream(const std::string& path) { return OpenStream(HostFiles(), path, options_.compression); }
  RecordReader Begin(InputStream stream) {
    stream.set_poll([this] { payer_->CheckCancelled(); });
    stream.set_before_growth([this](uint64_t bytes) { CheckRoom(*payer_, bytes); });
    return RecordReader(std::move(stream));
  }

  std::optional<RecordReader> stream_;
  std::optional<uint64_t> again_at_;  // where a record failed
  const RunContext* payer_ = nullptr;
};

class Lines final : public StreamFormat {
 public:
  using StreamFormat::StreamFormat;

 private:
  // A file that has no more lines than are skipped has none.
  void Opened() override {
    line_ = 0;
    for (std::string skipped; line_ < options_.skip_header_lines && in().ReadLine(skipped); ++line_) {
    }
  }
  bool Read(std::string& key, std::string& value) override {
    if (!in().ReadLine(value)) return false;
    key = Concat(path(), ":", ++line_);
    return true;
  }
  int64_t line_ = 0;
};

class Records final : public StreamFormat {
 public:
  using StreamFormat::StreamFormat;

 private:
  bool Read(std::string& key, std::string& value) override {
    const uint64_t at = records().position();
    if (!records().Next(value)) return false;
    key = Concat(path(), ":", at);
    return true;
  }
};

// Record i begins i hops behind the header, and is one when it and the footer are there. What one record read ahead of
// the next is kept, so that nothing is read twice.
class FixedLength final : public StreamFormat {
 public:
  using StreamFormat::StreamFormat;
  void Close() override {
    StreamFormat::Close();
    ahead_.clear();
  }

 private:
  void Opened() override {
    record_ = 0;
    begin_ = ahead_at_ = static_cast<uint64_t>(options_.header_bytes);
    if (const uint64_t skipped = in().Skip(begin_); skipped < begin_) {
      Fail(TENON_DATA_LOSS, "the file ", path(), " has ", skipped, " bytes, fewer than its ", begin_, " header_bytes");
    }
  }
  // Changes nothing before all has been read: it may fail, and be asked again.
  bool Read(std::string& key, std::string& value) override {
    const auto record = static_cast<uint64_t>(options_.record_bytes),
               whole = record + static_cast<uint64_t>(options_.footer_bytes);
    const uint64_t end = ahead_at_ + ahead_.size();
    if (begin_ > end && in().Skip(begin_ - end) < begin_ - end) return false;
    const std::string kept = begin_ < end ? ahead_.substr(begin_ - ahead_at_) : std::string();
    std::string more;
    if (kept.size() < whole && in().Read(more, whole - kept.size()) < whole - kept.size()) return false;
    ahead_ = kept + more;
    ahead_at_ = begin_;
    value.assign(ahead_, 0, record);
    key = Concat(path(), ":", record_++);
    begin_ += static_cast<uint64_t>(options_.hop_bytes == 0 ? options_.record_bytes : options_.hop_bytes);
    return true;
  }
  int64_t record_ = 0;
  uint64_t begin_ = 0, ahead_at_ = 0;  // the next record's position, and that of what was read
  std::string ahead_;
};

// The file is opened when it is read: one that is not there is tried again by the next call, as in TensorFlow.
class Whole final : public Format {
 public:
  void Open(const std::string& path, const RunContext&) override { path_ = path; }
  bool Next(std::string& key, std::string& value, const RunContext& c) override {
    InputStream in(std::make_unique<FileSource>(File::ForReading(HostFiles(), path_)));
    in.set_poll([&c] { c.CheckCancelled(); });
    in.set_before_growth([&c](uint64_t bytes) { CheckRoom(c, bytes); });
    in.ReadAll(value);
    key = path_;
    return true;
  }
  void Close() override {}
  bool single() const override { return true; }

 private:
  std::string path_;
};

class Name final : public Format {
 public:
  void Open(const std::string& path, const RunContext&) override { path_ = path; }
  bool Next(std::string& key, std::string& value, const RunContext&) override {
    key = value = path_;
    return true;
  }
  void Close() override {}
  bool single() const override { return true; }

 private:
  std::string path_;
};

}  // namespace

void CheckOptions(const ReaderOptions& options) {
  const auto least = [](const char* what, int64_t value, int64_t least) {
    if (value < least) Fail(TENON_INVALID_ARGUMENT, what, " must be >= ", least, ", not ", value);
  };
  least("skip_header_lines", options.skip_header_lines, 0);
  CheckCompression(options.compression);
  if (!options.op.starts_with("FixedLength")) return;
  least("header_bytes", options.header_bytes, 0);
  least("record_bytes", options.record_bytes, 1);
  least("footer_bytes", options.footer_bytes, 0);
  least("hop_bytes", options.hop_bytes, 0);
}

std::unique_ptr<Format> MakeFormat(const ReaderOptions& options) {
  if (options.op == "TextLineReader") return std::make_unique<Lines>(options);
  if (options.op == "TFRecordReader") return std::make_unique<Records>(options);
  if (options.op == "FixedLengthRecordReader") return std::make_unique<FixedLength>(options);
  if (options.op == "WholeFileReader") return std::make_unique<Whole>();
  return std::make_unique<Name>();
}

}  // namespace tenon::ops::input
