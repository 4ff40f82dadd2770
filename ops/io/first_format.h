// SPDX-License-Identifier: Apache-2.0
// Checkpoints in TensorFlow's first format: one table (table.h), or several that a pattern names, of SavedTensorSlices
// messages.
//
// Under the key "" stands what tensors there are, with their shapes, types and slices; under the key of each slice its
// values, as a TensorProto's lists. Written under a temporary name and renamed when all is durable, by one writer at a
// time (write_lock.h): what was there stays until then. Read are the index and the blocks of what is asked for.
#ifndef TENON_OPS_IO_FIRST_FORMAT_H_
#define TENON_OPS_IO_FIRST_FORMAT_H_

#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "budget.h"
#include "slice.h"
#include "table.h"
#include "tenon/sdk/file/file.h"

namespace tenon::ops::io {

// A tensor, or a slice of one; borrowed.
struct FirstPiece {
  std::string_view name;
  SliceSpec spec;
  const tenon_tensor_view* tensor;
};

// INVALID_ARGUMENT: pieces of one name that do not fit together; UNIMPLEMENTED: a type that has no values in a message.
void WriteFirstFormat(const tenon_files& files, std::string_view path, const std::vector<FirstPiece>& pieces,
                      const Budget& budget);

class FirstReader {
 public:
  // NOT_FOUND when the pattern names no file; DATA_LOSS when one is damaged.
  FirstReader(const tenon_files& files, std::string_view pattern, const Budget& budget);

  struct Tensor {
    uint32_t dtype = TENON_DT_INVALID;
    std::vector<int64_t> dims;
    struct Stored {
      Slice slice;
      size_t table;
    };
    std::vector<Stored> slices;
  };
  // NOT_FOUND names the tensor and the files.
  const Tensor& Find(std::string_view name) const;
  // Reads a tensor, or a slice of it, into output `index` of the kernel, which it allocates. dtype: that it must have.
  void Restore(const sdk::RunContext& c, std::string_view name, std::string_view shape_and_slice, uint32_t dtype,
               int32_t index);

 private:
  struct OpenTable {
    OpenTable(sdk::File opened, const Budget& budget)
        : file(std::move(opened)), source(file), lookup(source, file.path(), budget) {}
    sdk::File file;
    TableFile source;
    TableLookup lookup;
  };
  void AddTable(size_t table);
  void AddTensor(std::string_view meta, size_t table);
  std::string_view ValuesOf(std::string_view name, const Tensor::Stored& stored);

  const std::string pattern_;
  const Budget budget_;
  std::list<OpenTable> tables_;
  std::vector<OpenTable*> by_number_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  uint64_t bytes_ = 0;  // of all files
};

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_FIRST_FORMAT_H_
