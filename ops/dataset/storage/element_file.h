// SPDX-License-Identifier: Apache-2.0
// Files of elements: TensorFlow's records, of each element one for each component, a TensorProto; packed or not.
// Dataset.save() of TensorFlow writes such.
#ifndef TENON_OPS_DATASET_STORAGE_ELEMENT_FILE_H_
#define TENON_OPS_DATASET_STORAGE_ELEMENT_FILE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dataset.h"
#include "tenon/sdk/file/file.h"
#include "tenon/extras/file/records.h"

namespace tenon::ops {

// What is read is a stranger's: DATA_LOSS or INVALID_ARGUMENT, thrown, with the file, where it does not fit.
class ElementReader {
 public:
  // compression: "", "GZIP" or "ZLIB". The pass outlives it.
  ElementReader(const Pass& pass, const std::string& path, const std::string& compression, std::vector<uint32_t> types);
  bool Next(Element* out);
  uint64_t position() const { return records_.position(); }
  void SeekTo(uint64_t position) { records_.SeekTo(position); }

 private:
  const Pass& pass_;
  const std::vector<uint32_t> types_;
  sdk::RecordReader records_;
};

// Writes a new file; without Close() it is gone.
class ElementWriter {
 public:
  // compression: "" or "GZIP".
  ElementWriter(std::string path, const std::string& compression);
  ~ElementWriter();
  ElementWriter(const ElementWriter&) = delete;
  ElementWriter& operator=(const ElementWriter&) = delete;
  void Write(const Element& element);
  // Durably.
  void Close();

 private:
  class Deflater;
  void Put(std::string_view bytes);
  void Flush(bool last);

  std::unique_ptr<sdk::File> file_;
  std::unique_ptr<Deflater> deflater_;
  std::string pending_;
};

// What the stream does takes the session's memory, which may say no before it is taken, and ends with the pass, which
// outlives it.
void LimitStream(const Pass& pass, sdk::InputStream* stream);

// That the compression is one that is written and read. INVALID_ARGUMENT or UNIMPLEMENTED, thrown, in who's name.
void CheckElementCompression(const std::string& who, std::string_view compression);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_STORAGE_ELEMENT_FILE_H_
