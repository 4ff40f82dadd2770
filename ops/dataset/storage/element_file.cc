// SPDX-License-Identifier: Apache-2.0
#include "storage/element_file.h"

#include <zlib.h>

#include "tenon/extras/file/compressed_stream.h"
#include "tenon/extras/kernel/tensor_proto.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr size_t kPending = 256 << 10;  // bytes that are written at once

InputStream Open(const Pass& pass, const std::string& path, const std::string& compression) {
  InputStream stream = OpenStream(HostFiles(), path, compression, InputStream::kDefaultBuffer);
  LimitStream(pass, &stream);
  return stream;
}

}  // namespace

void LimitStream(const Pass& pass, InputStream* stream) {
  stream->set_poll([&pass] { pass.CheckCancelled(); });
  stream->set_before_growth([&pass](uint64_t bytes) {
    const int64_t dims[] = {static_cast<int64_t>(bytes)};
    (void)pass.work().NewTensor(TENON_DT_UINT8, dims);
  });
}

void CheckElementCompression(const std::string& who, std::string_view compression) {
  if (compression.empty() || compression == "NONE" || compression == "GZIP") return;
  if (compression == "SNAPPY" || compression == "AUTO")
    Fail(TENON_UNIMPLEMENTED, who, ": files packed as ", compression, " are not supported; '' and 'GZIP' are");
  Fail(TENON_INVALID_ARGUMENT, who, ": the compression '", compression, "' is none of '', 'GZIP'");
}

ElementReader::ElementReader(const Pass& pass, const std::string& path, const std::string& compression,
                             std::vector<uint32_t> types)
    : pass_(pass), types_(std::move(types)), records_(Open(pass, path, compression == "NONE" ? "" : compression)) {}

bool ElementReader::Next(Element* out) {
  const auto make = [this](uint32_t dtype, Dims dims, uint64_t extra_bytes) {
    return pass_.work().NewTensor(dtype, dims, extra_bytes);
  };
  out->clear();
  for (const uint32_t type : types_) {
    std::string_view record;
    if (!records_.Next(&record)) {
      if (out->empty()) return false;
      Fail(TENON_DATA_LOSS, records_.stream().path(), " ends in the middle of an element, with ", out->size(),
           " of its ", types_.size(), " components");
    }
    try {
      out->push_back(tensor_proto::Read(record, type, make));
    } catch (KernelError& error) {
      const Outcome why = TakeStatus(error.release());
      if (why.code != TENON_INVALID_ARGUMENT) Fail(why.code, why.message);
      Fail(TENON_DATA_LOSS, "component ", out->size(), " of an element that ends at byte ", records_.position(), " of ",
           records_.stream().path(), ": ", why.message);
    }
  }
  return true;
}

// ---- Written ----

class ElementWriter::Deflater {
 public:
  Deflater() {
    constexpr int kGzip = 15 + 16, kMemory = 8;
    if (deflateInit2(&z_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      Fail(TENON_RESOURCE_EXHAUSTED, "no memory to pack a file");
  }
  ~Deflater() { deflateEnd(&z_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  // What of it is ready; last: all.
  std::string Pack(std::string_view bytes, bool last) {
    std::string packed;
    int result = Z_OK;
    do {
      if (z_.avail_in == 0) {  // zlib counts in 32 bits
        const std::string_view some = bytes.substr(0, kPacked);
        bytes.remove_prefix(some.size());
        z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(some.data()));
        z_.avail_in = static_cast<uInt>(some.size());
      }
      const size_t before = packed.size();
      packed.resize(before + kPacked);
      z_.next_out = reinterpret_cast<Bytef*>(packed.data() + before);
      z_.avail_out = kPacked;
      result = deflate(&z_, last && bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        Fail(TENON_INTERNAL, "zlib packs no more: ", result);
      packed.resize(before + kPacked - z_.avail_out);
    } while (last ? result != Z_STREAM_END : z_.avail_in > 0 || !bytes.empty() || z_.avail_out == 0);
    return packed;
  }

 private:
  static constexpr size_t kPacked = 64 << 10;
  z_stream z_ = {};
};

ElementWriter::ElementWriter(std::string path, const std::string& compression) {
  if (compression == "GZIP") deflater_ = std::make_unique<Deflater>();
  file_ = std::make_unique<File>(File::ForWriting(HostFiles(), std::move(path)));
}

ElementWriter::~ElementWriter() {
  if (file_ == nullptr) return;
  const std::string path = file_->path();
  file_.reset();
  RemoveIfThere(HostFiles(), path);
}

void ElementWriter::Write(const Element& element) {
  for (const KeptTensor& tensor : element) {
    const tenon_tensor_view view = tensor.view();
    std::string head, tail;
    AppendRecordHead(head, tensor_proto::SizeOf(view));
    Put(head);
    uint32_t crc = 0;
    tensor_proto::ForEachPiece(view, [&](std::string_view piece) {
      crc = ExtendCrc32c(crc, piece.data(), piece.size());
      Put(piece);
    });
    PutFixed32(tail, MaskCrc32c(crc));
    Put(tail);
  }
}

// However large a component is, what is pending is bounded.
void ElementWriter::Put(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view some = bytes.substr(0, kPending - pending_.size());
    pending_.append(some);
    bytes.remove_prefix(some.size());
    if (pending_.size() == kPending) Flush(false);
  }
}

void ElementWriter::Flush(bool last) {
  if (deflater_ != nullptr) pending_ = deflater_->Pack(pending_, last);
  file_->Write(pending_.data(), pending_.size());
  pending_.clear();
}

void ElementWriter::Close() {
  Flush(true);
  file_->SyncAndClose();
  file_.reset();
}

}  // namespace tenon::ops
