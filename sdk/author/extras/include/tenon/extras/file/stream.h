// SPDX-License-Identifier: Apache-2.0
// Bytes in a row, from a file (file.h) or from what unpacks one (compressed_stream.h), read through a buffer.
//
//   InputStream in(std::make_unique<FileSource>(File::ForReading(HostFiles(), path)));
//   for (std::string line; in.ReadLine(line);) ...
//
// Positions count unpacked bytes from the begin. Failures are thrown, as in kernel.h; those of a file name it and the
// place. The memory that is taken is the buffer, and what a caller asks for as far as there are bytes for it: a number
// of bytes that lies costs nothing. One thread at a time.
#ifndef TENON_SDK_FILE_STREAM_H_
#define TENON_SDK_FILE_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/sdk/file/file.h"

namespace tenon::sdk {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `most` (at least 1) bytes; 0 at the end alone.
  virtual size_t Read(char* target, size_t most) = 0;
  // Steps over as many as there are; how many that were.
  virtual uint64_t Skip(uint64_t bytes) = 0;
  virtual void Rewind() = 0;
  // How many bytes are still to come, where that is known.
  virtual std::optional<uint64_t> left() const = 0;
  // For messages.
  virtual const std::string& path() const = 0;
};

// A file as it is. One that grows is read on; one that shrinks is DATA_LOSS.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(File file) : file_(std::move(file)), size_(file_.size()) {}

  size_t Read(char* target, size_t most) override {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(most, Left()));
    if (bytes == 0) return 0;
    try {
      file_.ReadAt(offset_, target, bytes);
    } catch (KernelError& error) {
      (void)IsNot(error.release(), TENON_OUT_OF_RANGE);  // any other failure leaves
      Fail(TENON_DATA_LOSS, "the file ", path(), " has shrunk while it was read: there are no ", bytes,
           " bytes at byte ", offset_, " any more");
    }
    offset_ += bytes;
    return bytes;
  }
  uint64_t Skip(uint64_t bytes) override {
    const uint64_t skipped = std::min(bytes, Left());
    offset_ += skipped;
    return skipped;
  }
  void Rewind() override { offset_ = 0; }
  std::optional<uint64_t> left() const override { return size_ - offset_; }
  const std::string& path() const override { return file_.path(); }

 private:
  uint64_t Left() {
    if (offset_ < size_) return size_ - offset_;
    const uint64_t now = file_.size();
    if (now < size_)
      Fail(TENON_DATA_LOSS, "the file ", path(), " has shrunk from ", size_, " bytes to ", now,
           " while it was read up to byte ", offset_);
    size_ = now;
    return size_ - offset_;
  }

  File file_;
  uint64_t size_;
  uint64_t offset_ = 0;
};

class InputStream {
 public:
  static constexpr size_t kDefaultBuffer = 256 << 10;
  static constexpr uint64_t kMostBytes = UINT64_C(1) << 31;

  // buffer_size: what a caller wishes, which may be nonsense; 256 bytes to 16 MiB are had.
  explicit InputStream(std::unique_ptr<ByteSource> source, uint64_t buffer_size = kDefaultBuffer)
      : source_(std::move(source)), capacity_(static_cast<size_t>(std::clamp<uint64_t>(buffer_size, 256, 16 << 20))) {
    if (const auto left = source_->left()) capacity_ = static_cast<size_t>(std::clamp<uint64_t>(*left, 256, capacity_));
    buffer_.reset(new char[capacity_]);
  }

  const std::string& path() const { return source_->path(); }
  // Of the next byte.
  uint64_t position() const { return filled_at_ + begin_; }
  size_t buffer_size() const { return capacity_; }
  // How many bytes are still to come, where that is known.
  std::optional<uint64_t> left() const {
    const auto behind = source_->left();
    return behind.has_value() ? std::optional<uint64_t>(*behind + (end_ - begin_)) : std::nullopt;
  }

  // Called now and then while it reads, until there is another or none: what it throws ends the reading (a step that
  // was given up).
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  // Called before a line or a record takes this many bytes: what it throws (RESOURCE_EXHAUSTED) ends the reading. Not
  // called for what is small.
  void set_before_growth(std::function<void(uint64_t)> ask) { before_growth_ = std::move(ask); }

  // The next `bytes` (at most buffer_size()) without a step forward; fewer at the end alone. Valid until the next call.
  std::string_view Peek(size_t bytes) {
    if (end_ - begin_ < bytes) [[unlikely]] FillTo(bytes);
    return {buffer_.get() + begin_, std::min(bytes, end_ - begin_)};
  }
  // Steps over what Peek has shown.
  void Drop(size_t bytes) { begin_ += bytes; }

  // How many there were: fewer at the end alone.
  size_t Read(char* target, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
      if (begin_ == end_ && bytes - done >= capacity_) {  // not worth a copy
        Poll();
        const size_t read = source_->Read(target + done, bytes - done);
        if (read == 0) break;
        Forget(read);
        done += read;
        continue;
      }
      const std::string_view some = Some();
      if (some.empty()) break;
      const size_t taken = std::min(some.size(), bytes - done);
      std::memcpy(target + done, some.data(), taken);
      Drop(taken);
      done += taken;
    }
    return done;
  }
  // The same into a text, which grows as the bytes come.
  size_t Read(std::string& target, uint64_t bytes) {
    target.clear();
    while (target.size() < bytes && !Some().empty()) {
      const size_t had = target.size();
      const auto next = static_cast<size_t>(
          std::min<uint64_t>(bytes - had, std::max<uint64_t>({had, capacity_, left().value_or(0)})));
      Grow(target, had + next);
      target.resize(had + next);
      const size_t read = Read(target.data() + had, next);
      target.resize(had + read);
      if (read < next) break;
    }
    return target.size();
  }
  // All that is left.
  size_t ReadAll(std::string& target) { return Read(target, UINT64_MAX); }

  // How many there were: fewer at the end alone.
  uint64_t Skip(uint64_t bytes) {
    uint64_t done = std::min<uint64_t>(bytes, end_ - begin_);
    begin_ += static_cast<size_t>(done);
    while (done < bytes) {
      Poll();
      const uint64_t skipped = source_->Skip(std::min<uint64_t>(bytes - done, kSkipPiece));
      if (skipped == 0) break;
      Forget(skipped);
      done += skipped;
    }
    return done;
  }
  // Back to a position, or forward to one. DATA_LOSS where the bytes end before it.
  void SeekTo(uint64_t position) {
    if (position < filled_at_) {
      source_->Rewind();
      filled_at_ = 0;
      begin_ = end_ = 0;
    } else if (position <= filled_at_ + end_) {
      begin_ = static_cast<size_t>(position - filled_at_);
      return;
    }
    const uint64_t wanted = position - this->position();
    if (Skip(wanted) != wanted)
      Fail(TENON_DATA_LOSS, path(), " ends at byte ", this->position(), "; byte ", position, " was to be read next");
  }

  // Up to "\n", which is dropped as every "\r" is (so TensorFlow has it); the last line may be without one. False at
  // the end. RESOURCE_EXHAUSTED for a line of more than `most` bytes.
  bool ReadLine(std::string& line, uint64_t most = kMostBytes) {
    line.clear();
    const uint64_t begin = position();
    for (std::string_view some = Some(); !some.empty(); some = Some()) {
      const size_t end = some.find('\n');
      Append(line, some.substr(0, end), begin, most);
      Drop(end == std::string_view::npos ? some.size() : end + 1);
      if (end != std::string_view::npos) return true;
    }
    return !line.empty();
  }

  // Asks whether there is room for a text of this many bytes.
  void Grow(const std::string& text, uint64_t bytes) {
    if (bytes > kSmall && bytes > text.capacity() && before_growth_) before_growth_(bytes);
  }

 private:
  static constexpr uint64_t kSkipPiece = 4 << 20, kSmall = 64 << 10;

  void Poll() {
    if (poll_) poll_();
  }
  // What is in the buffer, filled anew where nothing is; empty at the end.
  std::string_view Some() {
    if (begin_ == end_) FillTo(1);
    return {buffer_.get() + begin_, end_ - begin_};
  }
  void FillTo(size_t bytes) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    filled_at_ += begin_;
    end_ -= begin_;
    begin_ = 0;
    while (end_ < std::min(bytes, capacity_)) {
      Poll();
      const size_t read = source_->Read(buffer_.get() + end_, capacity_ - end_);
      if (read == 0) return;
      end_ += read;
    }
  }
  // The source is further by so many; the buffer is empty.
  void Forget(uint64_t bytes) {
    filled_at_ += begin_ + bytes;
    begin_ = end_ = 0;
  }
  void Append(std::string& line, std::string_view piece, uint64_t begin, uint64_t most) {
    if (piece.size() > most || line.size() > most - piece.size())
      Fail(TENON_RESOURCE_EXHAUSTED, "the line at byte ", begin, " of ", path(), " is longer than ", most, " bytes");
    Grow(line, line.size() + piece.size());
    if (std::memchr(piece.data(), '\r', piece.size()) == nullptr) {
      line += piece;
    } else {
      std::copy_if(piece.begin(), piece.end(), std::back_inserter(line), [](char c) { return c != '\r'; });
    }
  }

  std::unique_ptr<ByteSource> source_;
  size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0, end_ = 0;  // what of the buffer is filled and not yet read
  uint64_t filled_at_ = 0;      // the position of the buffer's first byte
  std::function<void()> poll_;
  std::function<void(uint64_t)> before_growth_;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_FILE_STREAM_H_
