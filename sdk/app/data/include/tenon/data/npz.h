// SPDX-License-Identifier: Apache-2.0
// Several arrays in one .npz file: a ZIP archive of .npy files.
//
// Read: stored and deflated members, ZIP64 too; checksums are verified, sizes checked before memory is asked for.
// Encrypted and split archives are refused, and those whose members overlap, which would be more than the file is
// worth. Written: stored members, so that a reader can map them.
#ifndef TENON_DATA_NPZ_H_
#define TENON_DATA_NPZ_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/data/base.h"
#include "tenon/data/file.h"

namespace tenon::data {

// Names without ".npy", in the archive's order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// A member of the archive, which lives in its directory.
struct NpzMember {
  std::string_view name;  // of the file
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0;
  uint64_t size = 0;
  uint64_t local = 0;  // where its local header is
};

// The arrays of an archive, each of which is unpacked when it is asked for.
class NpzArchive {
 public:
  static Result<NpzArchive> Open(const std::string& path, const ReadLimit& limit);
  // The bytes live as long as it.
  static Result<NpzArchive> Parse(std::string_view bytes);

  size_t size() const { return members_.size(); }
  // Without ".npy".
  std::string_view name(size_t index) const;
  // What is unpacked is taken from the limit. Errors name the array, and the file that was opened.
  Result<Tensor> Read(size_t index, ReadLimit& limit) const;
  Result<NamedTensors> ReadAll(ReadLimit& limit) const;

 private:
  Status Annotate(const Status& status, size_t index) const;

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::string_view bytes_;
  std::vector<NpzMember> members_;
};

Result<NamedTensors> ParseNpz(std::string_view bytes);
Result<NamedTensors> ReadNpz(const std::string& path);
Status WriteNpz(const std::string& path, const NamedTensors& tensors);

}  // namespace tenon::data

#endif  // TENON_DATA_NPZ_H_
