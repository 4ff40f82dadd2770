// SPDX-License-Identifier: Apache-2.0
// Files of TensorFlow's records (tenon/bytes/record.h).
//
//   RecordReader reader(OpenStream(HostFiles(), path, compression));
//   for (std::string_view record; reader.Next(&record);) ...
//   RecordWriter writer(File::ForWriting(HostFiles(), path));  writer.Write("data");  writer.Close();
//
// A damaged record, or a file that ends in the middle of one, is DATA_LOSS with the file, the record's position and
// what was found; the reader then stands where only SeekTo leads away. A length that lies takes no memory. One thread
// at a time.
#ifndef TENON_SDK_FILE_RECORDS_H_
#define TENON_SDK_FILE_RECORDS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/bytes/record.h"
#include "tenon/extras/file/stream.h"

namespace tenon::sdk {

static_assert(std::endian::native == std::endian::little, "records are read as they lie");

class RecordReader {
 public:
  explicit RecordReader(InputStream stream) : stream_(std::move(stream)) {}

  InputStream& stream() { return stream_; }
  // Where the next record begins, of unpacked bytes.
  uint64_t position() const { return stream_.position(); }
  // A position that was one of the reader's.
  void SeekTo(uint64_t position) { stream_.SeekTo(position); }

  // False at the end. The record is valid until the next call.
  bool Next(std::string_view* record) {
    uint64_t length = 0;
    if (!ReadHead(&length)) return false;
    const uint64_t whole = kRecordHead + length + kRecordTail;
    if (whole > stream_.buffer_size()) {
      ReadLong(long_, length);
      *record = long_;
      return true;
    }
    const std::string_view bytes = stream_.Peek(static_cast<size_t>(whole));
    if (bytes.size() < whole) Truncated(length, bytes.size() - kRecordHead);
    *record = bytes.substr(kRecordHead, static_cast<size_t>(length));
    CheckData(position(), length, Crc32c(*record), bytes.substr(bytes.size() - kRecordTail));
    stream_.Drop(static_cast<size_t>(whole));
    return true;
  }
  // The same, but the data of a long record go to place(length), which gives so many bytes of memory; who wants them
  // there saves a copy.
  template <class Place>
  bool Next(std::string_view* record, const Place& place) {
    uint64_t length = 0;
    if (!ReadHead(&length)) return false;
    const auto left = stream_.left();
    if (length < kWorthItsPlace || !left.has_value()) return Next(record);
    const uint64_t begin = position();
    if (length > *left - kRecordHead) Truncated(begin, length, *left - kRecordHead);
    CheckLength(begin, length);
    char* const data = place(length);
    stream_.Drop(kRecordHead);
    // In pieces, whose checksum is taken while they are near.
    const uint64_t piece = length < stream_.buffer_size() ? kPiece : length;
    uint32_t crc = 0;
    for (uint64_t done = 0; done < length;) {
      const uint64_t wanted = std::min(piece, length - done),
                     read = stream_.Read(data + done, static_cast<size_t>(wanted));
      if (read < wanted) Truncated(begin, length, done + read);
      crc = ExtendCrc32c(crc, data + done, static_cast<size_t>(read));
      done += read;
    }
    CheckTail(begin, length, crc);
    *record = {data, static_cast<size_t>(length)};
    return true;
  }
  bool Next(std::string& record) {
    uint64_t length = 0;
    if (!ReadHead(&length)) return false;
    if (kRecordHead + length + kRecordTail > stream_.buffer_size()) {
      ReadLong(record, length);
      return true;
    }
    std::string_view view;
    (void)Next(&view);
    record = view;
    return true;
  }
  // Steps over a record, whose data are not looked at.
  bool Skip() {
    uint64_t length = 0;
    if (!ReadHead(&length)) return false;
    const uint64_t rest = length + kRecordTail;
    const uint64_t begin = position();
    stream_.Drop(kRecordHead);
    if (const uint64_t skipped = stream_.Skip(rest); skipped < rest) Truncated(begin, length, skipped);
    return true;
  }

 private:
  static constexpr uint64_t kWorthItsPlace = 16 << 10, kPiece = 12 << 10;

  // Of the record at the position, which is left where it is.
  bool ReadHead(uint64_t* length) {
    const std::string_view head = stream_.Peek(kRecordHead);
    if (head.empty()) return false;
    if (head.size() < kRecordHead) {
      Fail(TENON_DATA_LOSS, "truncated record at byte ", position(), " of ", stream_.path(), ": the file ends after ",
           head.size(), " of the ", kRecordHead, " bytes before its data");
    }
    uint32_t crc = 0;
    std::memcpy(length, head.data(), 8);
    std::memcpy(&crc, head.data() + 8, 4);
    if (const uint32_t found = MaskCrc32c(Crc32c(head.substr(0, 8))); found != crc) [[unlikely]] {
      Fail(TENON_DATA_LOSS, "corrupted record at byte ", position(), " of ", stream_.path(), ": its length ", *length,
           " has the checksum ", found, ", not ", crc,
           position() == 0 ? "; is this a file of records, and its compression the one that was given?" : "");
    }
    if (*length > UINT64_MAX - kRecordHead - kRecordTail) Truncated(*length, stream_.left().value_or(0));
    return true;
  }
  void ReadLong(std::string& data, uint64_t length) {
    const uint64_t begin = position();
    stream_.Drop(kRecordHead);
    if (const auto left = stream_.left(); left.has_value() && length > InputStream::kMostBytes && length > *left)
      Truncated(begin, length, *left);
    CheckLength(begin, length);
    if (const size_t read = stream_.Read(data, length); read < length) Truncated(begin, length, read);
    CheckTail(begin, length, Crc32c(data));
  }
  void CheckLength(uint64_t begin, uint64_t length) const {
    if (length <= InputStream::kMostBytes) return;
    Fail(TENON_RESOURCE_EXHAUSTED, "the record at byte ", begin, " of ", stream_.path(), " is ", length,
         " bytes long; ", InputStream::kMostBytes, " are the most");
  }
  // Of a record whose data have been read; the stream stands behind them.
  void CheckTail(uint64_t begin, uint64_t length, uint32_t crc) {
    const std::string_view tail = stream_.Peek(kRecordTail);
    if (tail.size() < kRecordTail) Truncated(begin, length, length + tail.size());
    CheckData(begin, length, crc, tail);
    stream_.Drop(kRecordTail);
  }
  void CheckData(uint64_t at, uint64_t length, uint32_t data_crc, std::string_view tail) const {
    uint32_t crc = 0;
    std::memcpy(&crc, tail.data(), kRecordTail);
    if (const uint32_t found = MaskCrc32c(data_crc); found != crc) [[unlikely]] {
      Fail(TENON_DATA_LOSS, "corrupted record at byte ", at, " of ", stream_.path(), ": its ", length,
           " bytes of data have the checksum ", found, ", not ", crc);
    }
  }
  [[noreturn]] void Truncated(uint64_t length, uint64_t found) const { Truncated(position(), length, found); }
  [[noreturn]] void Truncated(uint64_t at, uint64_t length, uint64_t found) const {
    Fail(TENON_DATA_LOSS, "truncated record at byte ", at, " of ", stream_.path(), ": ", length,
         " bytes of data and a checksum of ", kRecordTail, " were to follow; there are ", found);
  }

  InputStream stream_;
  std::string long_;  // the last record that did not fit into the buffer
};

class RecordWriter {
 public:
  explicit RecordWriter(File file) : file_(std::move(file)) {}
  void Write(std::string_view data) {
    AppendRecord(pending_, data);
    if (pending_.size() >= kFlushBytes) Flush();
  }
  void Flush() {
    file_.Write(pending_.data(), pending_.size());
    pending_.clear();
  }
  // Makes it durable. Without it what was not flushed is lost.
  void Close() {
    Flush();
    file_.SyncAndClose();
  }

 private:
  static constexpr size_t kFlushBytes = 256 << 10;
  File file_;
  std::string pending_;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_FILE_RECORDS_H_
