// SPDX-License-Identifier: Apache-2.0
// Datasets of what stands in files, piece by piece.
//
// A file that cannot be read, or is damaged, is an error that names it; the next element is the next file's first, so
// that whoever ignores errors gets the rest.
#ifndef TENON_OPS_DATASET_STORAGE_LINES_AND_RECORDS_H_
#define TENON_OPS_DATASET_STORAGE_LINES_AND_RECORDS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive.h"
#include "base/dataset.h"
#include "batching/row_batch.h"
#include "storage/element_file.h"
#include "tenon/extras/file/compressed_stream.h"

namespace tenon::ops {

// The lines or records of files, one Reader for each: bool Next(std::string_view*), position(), SeekTo().
// kMayLeaveBuffer: a buffer_size of -1 leaves it to us, as tf.data writes it.
template <class Reader, bool kMayLeaveBuffer = false>
class FileDataset : public Dataset, public std::enable_shared_from_this<FileDataset<Reader, kMayLeaveBuffer>> {
 public:
  struct Attrs : Node {
    explicit Attrs(sdk::CreateContext& c) : Node(c, true) {}
  };
  // inputs: filenames, ..., and by their places: compression (-1: none), buffer_size.
  FileDataset(const Node& node, const sdk::RunContext& c, int32_t compression, int32_t buffer_size)
      : Dataset(node, {}, true),
        charge_(c, static_cast<uint64_t>(sdk::Count(c.input_view(0))) * sizeof(std::string) +
                       sdk::BytesOf(sdk::StringsOf(c.input_view(0)))) {
    if (c.input_view(0).dl.ndim > 1)
      sdk::Fail(TENON_INVALID_ARGUMENT, who(), ": `filenames` must be a scalar or a vector.");
    for (const std::string_view name : sdk::StringsOf(c.input_view(0))) files_.emplace_back(name);
    if (compression >= 0) compression_ = std::string(sdk::StringAt(c.input_view(compression), 0));
    sdk::CheckCompression(compression_);
    if (IntOf(c, buffer_size) < 0 && !(kMayLeaveBuffer && IntOf(c, buffer_size) == -1))
      sdk::Fail(TENON_INVALID_ARGUMENT, who(), ": `buffer_size` must be >= 0 (0 == default)");
    if (IntOf(c, buffer_size) > 0) buffer_ = static_cast<uint64_t>(IntOf(c, buffer_size));
  }

  virtual Reader Read(sdk::InputStream stream, size_t file) const = 0;
  // Of what a reader gives, where that is not the element itself: a failure loses that alone.
  virtual bool gives_texts() const { return true; }
  virtual Element ElementOf(const Pass& pass, std::string_view text) const {
    Element element;
    element.push_back(NewString(pass.work(), text));
    return element;
  }

  IteratorPtr NewIterator(const Pass& pass) const override { return NewLines(pass, 0, 1); }
  DatasetPtr ShardOfFiles(int64_t shards, int64_t index) const override {
    if (static_cast<int64_t>(files_.size()) < shards)
      sdk::Fail(TENON_INVALID_ARGUMENT, "Could not apply FILE based sharding: ", who(), " only has ", files_.size(),
                " file(s), which is not enough for the required ", shards,
                " shards/workers. Use the policy that deals elements (2, data).");
    return std::make_shared<const Part>(*this, this->shared_from_this(), static_cast<size_t>(index),
                                        static_cast<size_t>(shards));
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
      Lines(const FileDataset& dataset, const Pass& pass, size_t first, size_t step)
          : dataset_(dataset), pass_(pass), step_(step), at_(first) {}
      bool Next(Element* out) override {
        std::string_view text;
        if (!dataset_.gives_texts()) {
          if (!Read(&text, nullptr)) return false;
          *out = dataset_.ElementOf(pass_, text);
          return true;
        }
        std::optional<sdk::KeptTensor> placed;
        const Place place = [this, &placed](uint64_t length) {
          placed.emplace(pass_.work().NewTensor(TENON_DT_STRING, {}, length));
          char* const memory = sdk::Data<char>(placed->view());
          *reinterpret_cast<tenon_string_cell*>(memory) = {sizeof(tenon_string_cell), length};
          return memory + sizeof(tenon_string_cell);
        };
        if (!Read(&text, &place)) return false;
        out->clear();
        out->push_back(placed.has_value() ? std::move(*placed) : NewString(pass_.work(), text));
        return true;
      }
      bool NextInto(RowBatch& rows) override {
        constexpr int kAtOnce = 64;
        if (!dataset_.gives_texts()) return false;
        std::string_view text;
        int read = 0;
        for (; read < kAtOnce && !rows.full() && Read(&text, nullptr); ++read) rows.AddText(text);
        return read > 0;
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
      // place: where the data of a long record may go, or nullptr. What is there is valid until the next call.
      using Place = std::function<char*(uint64_t bytes)>;
      bool Read(std::string_view* text, const Place* place) {
        for (; at_ < dataset_.files_.size(); at_ += step_) {
          try {
            if (!reader_.has_value()) reader_.emplace(dataset_.Read(Open(), at_));
            if constexpr (requires { reader_->Next(text, *place); }) {
              if (place != nullptr ? reader_->Next(text, *place) : reader_->Next(text)) return true;
            } else if (reader_->Next(text)) {
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
      sdk::InputStream Open() const {
        sdk::InputStream stream =
            sdk::OpenStream(sdk::HostFiles(), dataset_.files_[at_], dataset_.compression_, dataset_.buffer_);
        LimitStream(pass_, &stream);
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

  const sdk::Charge charge_;  // for the names
  std::vector<std::string> files_;
  std::string compression_;
  uint64_t buffer_ = sdk::InputStream::kDefaultBuffer;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_STORAGE_LINES_AND_RECORDS_H_
