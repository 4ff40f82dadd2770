// SPDX-License-Identifier: Apache-2.0
// Streams (stream.h) of files that may be packed as GZIP or ZLIB. Whoever includes it links zlib.
//
//   InputStream in = OpenStream(HostFiles(), path, compression, buffer_size);   // compression: "", "GZIP", "ZLIB"
//
// What follows the end of one gzip member must be another: all are one stream. What follows the end of a ZLIB stream
// does not count. A packed stream that ends too early, or is damaged, is DATA_LOSS that says where. Unpacking takes two
// buffers, however much comes out of them.
#ifndef TENON_SDK_FILE_COMPRESSED_STREAM_H_
#define TENON_SDK_FILE_COMPRESSED_STREAM_H_

#include <zlib.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/extras/file/stream.h"

namespace tenon::sdk {

class InflateSource final : public ByteSource {
 public:
  enum class Format { kGzip, kZlib };

  InflateSource(std::unique_ptr<ByteSource> packed, Format format)
      : packed_(std::move(packed)), format_(format), input_(new char[kInput]) {
    if (inflateInit2(&z_, WindowBits()) != Z_OK) Fail(TENON_RESOURCE_EXHAUSTED, "no memory to unpack ", path());
  }
  ~InflateSource() override { inflateEnd(&z_); }
  InflateSource(const InflateSource&) = delete;
  InflateSource& operator=(const InflateSource&) = delete;

  size_t Read(char* target, size_t most) override {
    most = std::min<size_t>(most, UINT32_MAX);
    z_.next_out = reinterpret_cast<Bytef*>(target);
    z_.avail_out = static_cast<uInt>(most);
    while (z_.avail_out == most && More()) Inflate();
    return most - z_.avail_out;
  }
  uint64_t Skip(uint64_t bytes) override {
    if (scratch_ == nullptr) scratch_.reset(new char[kInput]);
    uint64_t done = 0;
    while (done < bytes) {
      const size_t read = Read(scratch_.get(), static_cast<size_t>(std::min<uint64_t>(kInput, bytes - done)));
      if (read == 0) break;
      done += read;
    }
    return done;
  }
  void Rewind() override {
    packed_->Rewind();
    inflateReset2(&z_, WindowBits());
    z_.avail_in = 0;
    read_ = 0;
    inside_ = ended_ = false;
  }
  std::optional<uint64_t> left() const override { return std::nullopt; }
  const std::string& path() const override { return packed_->path(); }

 private:
  static constexpr size_t kInput = 64 << 10;

  int WindowBits() const { return format_ == Format::kGzip ? MAX_WBITS + 16 : MAX_WBITS; }
  // Whether there is something to unpack; not at the end of the stream.
  bool More() {
    if (ended_) return false;
    if (z_.avail_in > 0) return true;
    const size_t read = packed_->Read(input_.get(), kInput);
    read_ += read;
    z_.next_in = reinterpret_cast<Bytef*>(input_.get());
    z_.avail_in = static_cast<uInt>(read);
    if (read == 0 && inside_) {
      Fail(TENON_DATA_LOSS, path(), " ends at byte ", read_, " in the middle of its ", Name(), " stream, ",
           z_.total_out, " bytes of which were unpacked");
    }
    return read > 0;
  }
  void Inflate() {
    inside_ = true;
    const int answer = inflate(&z_, Z_NO_FLUSH);
    if (answer == Z_STREAM_END) {
      inside_ = false;
      if (format_ == Format::kZlib) ended_ = true;
      else inflateReset(&z_);
      return;
    }
    if (answer == Z_OK || answer == Z_BUF_ERROR) return;  // it wants input or room, which it gets
    if (answer == Z_MEM_ERROR) Fail(TENON_RESOURCE_EXHAUSTED, "no memory to unpack ", path());
    Fail(TENON_DATA_LOSS, path(), " is damaged before byte ", read_ - z_.avail_in, ", or is no ", Name(), " stream: ",
         z_.msg == nullptr ? "a dictionary is asked for" : z_.msg);
  }
  const char* Name() const { return format_ == Format::kGzip ? "GZIP" : "ZLIB"; }

  std::unique_ptr<ByteSource> packed_;
  const Format format_;
  std::unique_ptr<char[]> input_, scratch_;
  z_stream z_ = {};
  uint64_t read_ = 0;    // packed bytes
  bool inside_ = false;  // of a stream, or a member, that has begun
  bool ended_ = false;
};

// Whether OpenStream knows it.
inline bool IsCompression(std::string_view name) { return name.empty() || name == "GZIP" || name == "ZLIB"; }

// INVALID_ARGUMENT for a compression that is none.
inline void CheckCompression(std::string_view name) {
  if (!IsCompression(name))
    Fail(TENON_INVALID_ARGUMENT, "the compression '", name, "' is none of '', 'GZIP' and 'ZLIB'");
}

inline InputStream OpenStream(const tenon_files& files, std::string path, std::string_view compression,
                              uint64_t buffer_size = InputStream::kDefaultBuffer) {
  CheckCompression(compression);
  std::unique_ptr<ByteSource> source = std::make_unique<FileSource>(File::ForReading(files, std::move(path)));
  if (!compression.empty()) {
    source = std::make_unique<InflateSource>(
        std::move(source), compression == "GZIP" ? InflateSource::Format::kGzip : InflateSource::Format::kZlib);
  }
  return InputStream(std::move(source), buffer_size);
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_FILE_COMPRESSED_STREAM_H_
