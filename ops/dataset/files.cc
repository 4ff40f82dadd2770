// SPDX-License-Identifier: Apache-2.0
// Datasets of what stands in files: TextLineDataset, TFRecordDataset, FixedLengthRecordDataset.
//
// A file that cannot be read, or is damaged, is an error that names it; the next element is the next file's first, so that whoever ignores errors gets the rest.
#include <optional>

#include "archive.h"
#include "dataset.h"
#include "op.h"
#include "tenon/sdk/file/compressed_stream.h"
#include "tenon/sdk/file/records.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// The lines or records of files, one Reader for each: bool Next(std::string_view*), position(), SeekTo().
template <class Reader>
class FileDataset : public Dataset, public std::enable_shared_from_this<FileDataset<Reader>> {
 public:
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c, true) {}
  };
  // inputs: filenames, ..., and by their places: compression (-1: none), buffer_size.
  FileDataset(const Attrs& attrs, const RunContext& c, int32_t compression, int32_t buffer_size) : Dataset(attrs, {}, true) {
    if (c.input_view(0).dl.ndim > 1) Fail(TENON_INVALID_ARGUMENT, who(), ": `filenames` must be a scalar or a vector.");
    for (const std::string_view name : StringsOf(c.input_view(0))) files_.emplace_back(name);
    if (compression >= 0) compression_ = std::string(StringAt(c.input_view(compression), 0));
    CheckCompression(compression_);
    if (IntOf(c, buffer_size) < 0) Fail(TENON_INVALID_ARGUMENT, who(), ": `buffer_size` must be >= 0 (0 == default)");
    if (IntOf(c, buffer_size) > 0) buffer_ = static_cast<uint64_t>(IntOf(c, buffer_size));
  }

  virtual Reader Read(InputStream stream, size_t file) const = 0;

  IteratorPtr NewIterator(const Pass& pass) const override { return NewLines(pass, 0, 1); }
  DatasetPtr ShardOfFiles(int64_t shards, int64_t index) const override {
    if (static_cast<int64_t>(files_.size()) < shards)
      Fail(TENON_INVALID_ARGUMENT, "Could not apply FILE based sharding: ", who(), " only has ", files_.size(), " file(s), which is not enough for the required ", shards,
           " shards/workers. Use the policy that deals elements (2, data).");
    return std::make_shared<const Part>(*this, this->shared_from_this(), static_cast<size_t>(index), static_cast<size_t>(shards));
  }

 private:
  // Each step-th file from file `first` on.
  struct Part final : Dataset {
    Part(const FileDataset& of, std::shared_ptr<const FileDataset> all, size_t from, size_t by)
        : Dataset(Node(of.who(), of.types(), of.shapes()), {all}, true), whole(std::move(all)), first(from), step(by) {}
    IteratorPtr NewIterator(const Pass& pass) const override { return whole->NewLines(pass, first, step); }
    const std::shared_ptr<const FileDataset> whole;
    const size_t first, step;
  };

  IteratorPtr NewLines(const Pass& pass, size_t first, size_t step) const {
    class Lines final : public Iterator {
     public:
      Lines(const FileDataset& dataset, const Pass& pass, size_t first, size_t step) : dataset_(dataset), pass_(pass), step_(step), at_(first) {}
      bool Next(Element* out) override {
        for (; at_ < dataset_.files_.size(); at_ += step_) {
          std::string_view text;
          try {
            if (!reader_.has_value()) reader_.emplace(dataset_.Read(Open(), at_));
            if (reader_->Next(&text)) {
              out->clear();
              out->push_back(NewString(pass_.work(), text));
              return true;
            }
          } catch (...) {
            reader_.reset();
            at_ += step_;
            throw;
          }
          reader_.reset();
        }
        return false;
      }

      // Where the reader stands; a file that ends before that is DATA_LOSS.
      void State(Archive& archive) override {
        archive.Number(at_, 0, static_cast<int64_t>(dataset_.files_.size() + step_));
        bool open = reader_.has_value();
        archive.Flag(open);
        uint64_t position = reader_.has_value() ? reader_->position() : 0;
        archive.Number(position);
        if (!archive.reading()) return;
        reader_.reset();
        if (!open) return;
        if (at_ >= dataset_.files_.size()) archive.Refuse("it has a file open where none is left");
        reader_.emplace(dataset_.Read(Open(), at_));
        reader_->SeekTo(position);
      }

     private:
      InputStream Open() const {
        InputStream stream = OpenStream(HostFiles(), dataset_.files_[at_], dataset_.compression_, dataset_.buffer_);
        stream.set_poll([this] { pass_.CheckCancelled(); });
        // The memory is the session's, which may say no before it is taken.
        stream.set_before_growth([this](uint64_t bytes) {
          const int64_t dims[] = {static_cast<int64_t>(bytes)};
          (void)pass_.work().NewTensor(TENON_DT_UINT8, dims);
        });
        return stream;
      }
      const FileDataset& dataset_;
      const Pass& pass_;
      const size_t step_;
      size_t at_;  // of the files
      std::optional<Reader> reader_;
    };
    return std::make_unique<Lines>(*this, pass, first, step);
  }

  std::vector<std::string> files_;
  std::string compression_;
  uint64_t buffer_ = InputStream::kDefaultBuffer;
};

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
struct TFRecordDataset final : FileDataset<RecordReader> {
  TFRecordDataset(const Attrs& attrs, const RunContext& c) : FileDataset(attrs, c, 1, 2) {
    if constexpr (kOffsets) {
      if (Count(c.input_view(3)) != Count(c.input_view(0)))
        Fail(TENON_INVALID_ARGUMENT, who(), ": `byte_offsets` must be of same size as `filenames`: ", Count(c.input_view(3)), " and ", Count(c.input_view(0)));
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
  FixedReader(InputStream stream, const Lengths& lengths) : stream_(std::move(stream)), lengths_(lengths), size_(stream_.left()) {
    if (size_.has_value()) CheckSize();
    if (stream_.Skip(lengths.header) < lengths.header) Fail(TENON_DATA_LOSS, stream_.path(), " is shorter than its header of ", lengths.header, " bytes");
  }
  bool Next(std::string_view* text) {
    const uint64_t at = stream_.position();
    if (size_.has_value() ? at + lengths_.footer >= *size_ : AtFooter()) return false;
    if (const size_t read = stream_.Read(buffer_, lengths_.record); read < lengths_.record)
      Fail(TENON_DATA_LOSS, "the record at byte ", at, " of ", stream_.path(), " has ", read, " of its ", lengths_.record, " bytes");
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
    Fail(TENON_INVALID_ARGUMENT, "Excluding the header (", lengths_.header, " bytes) and footer (", lengths_.footer, " bytes), input file \"", stream_.path(),
         "\" has body length ", body, " bytes, which is not an exact multiple of the record length (", lengths_.record, " bytes).");
  }
  // Of a packed file, whose size is not known: the footer is what is behind the last record.
  bool AtFooter() {
    if (lengths_.footer >= stream_.buffer_size())
      Fail(TENON_UNIMPLEMENTED, "a footer of ", lengths_.footer, " bytes in a packed file is larger than the buffer; give a larger buffer_size");
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
      : FileDataset(attrs, c, kCompression ? 5 : -1, 4), lengths{Bytes(c, 1, 0, "header_bytes"), Bytes(c, 2, 1, "record_bytes"), Bytes(c, 3, 0, "footer_bytes")} {}
  FixedReader Read(InputStream stream, size_t) const override { return FixedReader(std::move(stream), lengths); }
  uint64_t Bytes(const RunContext& c, int32_t input, int64_t least, const char* name) const {
    const int64_t bytes = IntOf(c, input);
    if (bytes < least) Fail(TENON_INVALID_ARGUMENT, who(), ": `", name, "` must be ", least == 0 ? ">= 0" : "> 0", ", it is ", bytes);
    return static_cast<uint64_t>(bytes);
  }
  const Lengths lengths;
};

}  // namespace

TENON_KERNEL(kTextLineDatasetKernel) = Registration<MakeDataset<TextLineDataset>>("TextLineDataset", kMakesDataset);
TENON_KERNEL(kTFRecordDatasetKernel) = Registration<MakeDataset<TFRecordDataset<false>>>("TFRecordDataset", kMakesDataset);
TENON_KERNEL(kTFRecordDatasetV2Kernel) = Registration<MakeDataset<TFRecordDataset<true>>>("TFRecordDatasetV2", kMakesDataset);
TENON_KERNEL(kFixedLengthRecordDatasetKernel) = Registration<MakeDataset<FixedLengthDataset<false>>>("FixedLengthRecordDataset", kMakesDataset);
TENON_KERNEL(kFixedLengthRecordDatasetV2Kernel) = Registration<MakeDataset<FixedLengthDataset<true>>>("FixedLengthRecordDatasetV2", kMakesDataset);

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
    .constraints = "rank(filenames) <= 1; path(filenames); rank(compression_type) == 0; rank(buffer_size) == 0; rank(byte_offsets) <= 1",
    .doc = "The records of the files, of each from its offset on. compression_type: '', 'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kFixedLengthRecordDataset) = DefineDataset({
    .name = "FixedLengthRecordDataset",
    .inputs = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64",
    .attrs = TENON_FILES_METADATA,
    .constraints = "rank(filenames) <= 1; path(filenames); rank(header_bytes) == 0; rank(record_bytes) == 0; rank(footer_bytes) == 0; rank(buffer_size) == 0",
    .doc = "Pieces of record_bytes of the files, between header and footer.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kFixedLengthRecordDatasetV2) = DefineDataset({
    .name = "FixedLengthRecordDatasetV2",
    .inputs = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64, compression_type: string",
    .attrs = TENON_FILES_METADATA,
    .constraints = "rank(filenames) <= 1; path(filenames); rank(header_bytes) == 0; rank(record_bytes) == 0; rank(footer_bytes) == 0; rank(buffer_size) == 0; "
                   "rank(compression_type) == 0",
    .doc = "Pieces of record_bytes of the files, between header and footer. compression_type: '', 'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

}  // namespace tenon::ops
