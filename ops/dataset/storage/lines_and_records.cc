// SPDX-License-Identifier: Apache-2.0
// Datasets of what stands in files: TextLineDataset, TFRecordDataset, FixedLengthRecordDataset.
#include "storage/lines_and_records.h"

#include <optional>

#include "base/op.h"
#include "tenon/extras/file/records.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// ---- Lines ----

class LineReader {
 public:
  explicit LineReader(InputStream stream) : stream_(std::move(stream)) {}
  bool Next(std::string_view* text) {
    const bool some = stream_.ReadLine(line_);
    *text = line_;
    return some;
  }
  uint64_t position() const { return stream_.position(); }
  void SeekTo(uint64_t position) { stream_.SeekTo(position); }

 private:
  InputStream stream_;
  std::string line_;
};

struct TextLineDataset final : FileDataset<LineReader> {
  TextLineDataset(const Attrs& attrs, const RunContext& c) : FileDataset(attrs, c, 1, 2) {}
  LineReader Read(InputStream stream, size_t) const override { return LineReader(std::move(stream)); }
};

// ---- TensorFlow's records ----

// Each file from its offset on, where there are offsets.
template <bool kOffsets>
struct TFRecordDataset final : FileDataset<RecordReader, true> {
  using Attrs = FileDataset<RecordReader, true>::Attrs;
  TFRecordDataset(const Attrs& attrs, const RunContext& c) : FileDataset<RecordReader, true>(attrs, c, 1, 2) {
    if constexpr (kOffsets) {
      if (Count(c.input_view(3)) != Count(c.input_view(0)))
        Fail(TENON_INVALID_ARGUMENT, who(),
             ": `byte_offsets` must be of same size as `filenames`: ", Count(c.input_view(3)), " and ",
             Count(c.input_view(0)));
      offsets.assign(c.input<int64_t>(3), c.input<int64_t>(3) + Count(c.input_view(3)));
      for (const int64_t offset : offsets)
        if (offset < 0) Fail(TENON_INVALID_ARGUMENT, who(), ": a byte offset is ", offset);
    }
  }
  RecordReader Read(InputStream stream, size_t file) const override {
    RecordReader reader(std::move(stream));
    if (kOffsets && offsets[file] != 0) reader.SeekTo(static_cast<uint64_t>(offsets[file]));
    return reader;
  }
  std::vector<int64_t> offsets;
};

// ---- Records of one length ----

// In bytes.
struct Lengths {
  uint64_t header, record, footer;
};

class FixedReader {
 public:
  FixedReader(InputStream stream, const Lengths& lengths)
      : stream_(std::move(stream)), lengths_(lengths), size_(stream_.left()) {
    if (size_.has_value()) CheckSize();
    if (stream_.Skip(lengths.header) < lengths.header)
      Fail(TENON_DATA_LOSS, stream_.path(), " is shorter than its header of ", lengths.header, " bytes");
  }
  bool Next(std::string_view* text) {
    const uint64_t at = stream_.position();
    if (size_.has_value() ? at + lengths_.footer >= *size_ : AtFooter()) return false;
    if (const size_t read = stream_.Read(buffer_, lengths_.record); read < lengths_.record)
      Fail(TENON_DATA_LOSS, "the record at byte ", at, " of ", stream_.path(), " has ", read, " of its ",
           lengths_.record, " bytes");
    *text = buffer_;
    return true;
  }
  uint64_t position() const { return stream_.position(); }
  void SeekTo(uint64_t position) { stream_.SeekTo(position); }

 private:
  // What a plain file's size says at once.
  void CheckSize() const {
    const bool around = lengths_.header <= *size_ && lengths_.footer <= *size_ - lengths_.header;
    const uint64_t body = around ? *size_ - lengths_.header - lengths_.footer : 0;
    if (around && body % lengths_.record == 0) return;
    Fail(TENON_INVALID_ARGUMENT, "Excluding the header (", lengths_.header, " bytes) and footer (", lengths_.footer,
         " bytes), input file \"", stream_.path(), "\" has body length ", body,
         " bytes, which is not an exact multiple of the record length (", lengths_.record, " bytes).");
  }
  // Of a packed file, whose size is not known: the footer is what is behind the last record.
  bool AtFooter() {
    if (lengths_.footer >= stream_.buffer_size())
      Fail(TENON_UNIMPLEMENTED, "a footer of ", lengths_.footer,
           " bytes in a packed file is larger than the buffer; give a larger buffer_size");
    return stream_.Peek(static_cast<size_t>(lengths_.footer) + 1).size() <= lengths_.footer;
  }

  InputStream stream_;
  Lengths lengths_;
  std::optional<uint64_t> size_;
  std::string buffer_;
};

template <bool kCompression>
struct FixedLengthDataset final : FileDataset<FixedReader> {
  FixedLengthDataset(const Attrs& attrs, const RunContext& c)
      : FileDataset(attrs, c, kCompression ? 5 : -1, 4),
        lengths{Bytes(c, 1, 0, "header_bytes"), Bytes(c, 2, 1, "record_bytes"), Bytes(c, 3, 0, "footer_bytes")} {}
  FixedReader Read(InputStream stream, size_t) const override { return FixedReader(std::move(stream), lengths); }
  uint64_t Bytes(const RunContext& c, int32_t input, int64_t least, const char* name) const {
    const int64_t bytes = IntOf(c, input);
    if (bytes < least)
      Fail(TENON_INVALID_ARGUMENT, who(), ": `", name, "` must be ", least == 0 ? ">= 0" : "> 0", ", it is ", bytes);
    return static_cast<uint64_t>(bytes);
  }
  const Lengths lengths;
};

}  // namespace

TENON_KERNEL(kTextLineDatasetKernel) = Registration<MakeDataset<TextLineDataset>>("TextLineDataset", kMakesDataset);
TENON_KERNEL(kTFRecordDatasetKernel) = Registration<MakeDataset<TFRecordDataset<false>>>("TFRecordDataset",
                                                                                         kMakesDataset);
TENON_KERNEL(kTFRecordDatasetV2Kernel) = Registration<MakeDataset<TFRecordDataset<true>>>("TFRecordDatasetV2",
                                                                                          kMakesDataset);
TENON_KERNEL(kFixedLengthRecordDatasetKernel) =
    Registration<MakeDataset<FixedLengthDataset<false>>>("FixedLengthRecordDataset", kMakesDataset);
TENON_KERNEL(kFixedLengthRecordDatasetV2Kernel) =
    Registration<MakeDataset<FixedLengthDataset<true>>>("FixedLengthRecordDatasetV2", kMakesDataset);

#define TENON_FILES_METADATA "metadata: string = ''"

TENON_OP(kTextLineDataset) = DefineDataset({
    .name = "TextLineDataset",
    .inputs = "filenames: string, compression_type: string, buffer_size: int64",
    .attrs = TENON_FILES_METADATA,
    .constraints = "rank(filenames) <= 1; path(filenames); rank(compression_type) == 0; rank(buffer_size) == 0",
    .doc = "The lines of the files, without their ends. compression_type: '', 'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kTFRecordDataset) = DefineDataset({
    .name = "TFRecordDataset",
    .inputs = "filenames: string, compression_type: string, buffer_size: int64",
    .attrs = TENON_FILES_METADATA,
    .constraints = "rank(filenames) <= 1; path(filenames); rank(compression_type) == 0; rank(buffer_size) == 0",
    .doc = "The records of the files. compression_type: '', 'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kTFRecordDatasetV2) = DefineDataset({
    .name = "TFRecordDatasetV2",
    .inputs = "filenames: string, compression_type: string, buffer_size: int64, byte_offsets: int64",
    .attrs = TENON_FILES_METADATA,
    .constraints = "rank(filenames) <= 1; path(filenames); rank(compression_type) == 0; rank(buffer_size) == 0; "
                   "rank(byte_offsets) <= 1",
    .doc = "The records of the files, of each from its offset on. compression_type: '', 'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kFixedLengthRecordDataset) = DefineDataset({
    .name = "FixedLengthRecordDataset",
    .inputs = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64",
    .attrs = TENON_FILES_METADATA,
    .constraints = "rank(filenames) <= 1; path(filenames); rank(header_bytes) == 0; rank(record_bytes) == 0; "
                   "rank(footer_bytes) == 0; rank(buffer_size) == 0",
    .doc = "Pieces of record_bytes of the files, between header and footer.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kFixedLengthRecordDatasetV2) = DefineDataset({
    .name = "FixedLengthRecordDatasetV2",
    .inputs = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64, "
              "compression_type: string",
    .attrs = TENON_FILES_METADATA,
    .constraints = "rank(filenames) <= 1; path(filenames); rank(header_bytes) == 0; rank(record_bytes) == 0; "
                   "rank(footer_bytes) == 0; rank(buffer_size) == 0; "
                   "rank(compression_type) == 0",
    .doc = "Pieces of record_bytes of the files, between header and footer. compression_type: '', 'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

}  // namespace tenon::ops
