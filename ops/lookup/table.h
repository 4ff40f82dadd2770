// SPDX-License-Identifier: Apache-2.0
// A table from keys to values, each one element of a tensor: strings, whole numbers or bools. Values may be any plain
// numbers or strings, and in a table of tensors rows of them.
//
// Rules: any thread. A fixed table is filled once, as a whole (again with the same entries changes nothing), and
// answers only then; a mutable one takes and loses entries at any time. What fails changes nothing, but for an
// insertion for which the memory does not suffice, or whose step is given up: some of its entries are there then.
// Entries count against the limit of the sessions that bring them.
//
// A table with reserved keys (MutableDenseHashTableV2) has two that nobody may use; among entries that replace all
// others they are empty places, and left out. Its keys may be rows, of numbers.
#ifndef TENON_OPS_LOOKUP_TABLE_H_
#define TENON_OPS_LOOKUP_TABLE_H_

#include <memory>
#include <memory_resource>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/extras/kernel/charge.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/kernel/shared_table.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/shape.h"

namespace tenon::ops {

struct TableOptions {
  std::string name;
  uint32_t key = TENON_DT_INVALID;
  uint32_t value = TENON_DT_INVALID;
  std::vector<int64_t> row;  // dims of a value
  bool fixed = true;
  std::vector<int64_t> key_row = {};        // dims of a key
  std::vector<std::string> reserved = {};   // keys, as their bytes
};

class Table final : public sdk::SharedTable {
 public:
  // charge: for the table without entries.
  Table(sdk::Charge charge, TableOptions options);
  const TableOptions& options() const { return options_; }

  // FAILED_PRECONDITION when another node, of the same name, makes another table.
  void CheckSame(const TableOptions& options) const;
  // INVALID_ARGUMENT when a node takes it for one of other types.
  void CheckTypes(uint32_t key, uint32_t value) const;
  // All entries of a fixed table. A key that comes twice must have one value.
  void Fill(const sdk::RunContext& c, const tenon_tensor_view& keys, const tenon_tensor_view& values);
  tenon_status* FillOnce(tenon_frame* frame, const tenon_tensor_view* keys,
                         const tenon_tensor_view* values) noexcept override;
  // All entries of a mutable table, in place of what it held.
  void Replace(const sdk::RunContext& c, const tenon_tensor_view& keys, const tenon_tensor_view& values);
  // Entries of a mutable table; a value that was there is lost.
  void Insert(const sdk::RunContext& c, const tenon_tensor_view& keys, const tenon_tensor_view& values);
  void Remove(const tenon_tensor_view& keys);

  // Values of the keys as output `output`, of the shape of keys followed by row; what is not there has the value
  // `otherwise`, of the shape of a row, or of the output.
  void Find(const sdk::RunContext& c, int32_t output, const tenon_tensor_view& keys,
            const tenon_tensor_view& otherwise) const;
  // Keys as output 0, values as output 1, in any order.
  void Export(const sdk::RunContext& c) const;
  int64_t size() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  };
  // Entries by the bytes of their keys. A value is a row of bytes, or of strings.
  struct Entries {
    explicit Entries(const sdk::RunContext& c) : memory(c) {}
    sdk::StepMemory memory;
    std::pmr::unsynchronized_pool_resource pool{&memory};
    std::pmr::unordered_map<std::pmr::string, size_t, Hash, std::equal_to<>> rows{&pool};
    std::pmr::vector<const std::pmr::string*> keys{&pool};  // of each row, in the map
    std::pmr::vector<char> bytes{&pool};
    std::pmr::vector<std::pmr::string> texts{&pool};
  };

  [[noreturn]] void Refuse(uint32_t code, const std::string& why) const;
  // How many keys these are, and the dims before those of a key.
  sdk::Dims KeyDims(const tenon_tensor_view& keys) const;
  int64_t KeyCount(const tenon_tensor_view& keys) const { return sdk::Count(KeyDims(keys)); }
  bool IsReserved(std::string_view key) const;
  void CheckUnreserved(const tenon_tensor_view& keys) const;
  void CheckEntries(const tenon_tensor_view& keys, const tenon_tensor_view& values) const;
  std::string_view KeyAt(const tenon_tensor_view& keys, int64_t index) const;
  int64_t row_count() const;
  uint64_t row_bytes() const;
  // once: a key that is there must have that value.
  void Add(const sdk::RunContext& c, Entries* entries, const tenon_tensor_view& keys, const tenon_tensor_view& values,
           bool once) const;
  bool HasValue(const Entries& entries, size_t row, const tenon_tensor_view& values, int64_t index) const;
  void SetValue(Entries* entries, size_t row, const tenon_tensor_view& values, int64_t index) const;
  bool Equal(const Entries& a, const Entries& b) const;
  void RequireMutable(const char* what) const;
  void RequireFilled() const;

  const sdk::Charge charge_;
  const TableOptions options_;
  mutable std::shared_mutex mutex_;
  bool filled_ = false;
  std::unique_ptr<Entries> entries_;  // nullptr: none yet
};

}  // namespace tenon::ops

#endif  // TENON_OPS_LOOKUP_TABLE_H_
