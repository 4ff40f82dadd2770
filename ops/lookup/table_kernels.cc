// SPDX-License-Identifier: Apache-2.0
// Kernels of tables. They run on the host, wherever the table is said to be.
#include <algorithm>
#include <memory>
#include <string>

#include "table.h"
#include "text_file.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

namespace {

enum class Kind { kFixed, kMutable, kMutableRows, kReserved };

Table& Own(SharedTable& table) { return static_cast<Table&>(table); }  // all tables are made here

// kAnonymous: each run makes another one, which ends with its step.
template <Kind kKind, bool kAnonymous = false>
struct MakeTable {
  explicit MakeTable(CreateContext& c) {
    options.name = std::string(kAnonymous ? std::string_view() : c.String("shared_name"));
    if (options.name.empty()) options.name = std::string(c.name());
    options.key = c.Type("key_dtype");
    options.value = c.Type("value_dtype");
    options.fixed = kKind == Kind::kFixed;
    if constexpr (kKind == Kind::kMutableRows || kKind == Kind::kReserved) {
      const Shape row = c.ShapeAttr("value_shape");
      if (c.ok() && !row.fully_known()) c.Fail(TENON_INVALID_ARGUMENT, "value_shape ", row, " is not fully known");
      options.row = row.dims();
    }
    if constexpr (kKind == Kind::kReserved) CheckBuckets(c);
    if (kAnonymous || !c.ok()) return;
    const std::string container(c.String("container"));
    c.Check(c.args().services->resource_handle(c.args().context, ToSpan(container), ToSpan(options.name),
                                               ToSpan("table"), 0, &handle));
  }
  void Run(RunContext c) const {
    tenon_resource* made = handle;
    if constexpr (kAnonymous) Check(c.services().step_resource(c.frame(), ToSpan("table"), &made));
    if constexpr (kKind == Kind::kReserved) Open(c, made, WithReservedKeys(c));
    else Open(c, made, options);
  }

 private:
  static uint64_t BytesOf(const TableOptions& wanted) {
    uint64_t bytes = sizeof(Table) + wanted.name.size() + (wanted.row.size() + wanted.key_row.size()) * sizeof(int64_t);
    for (const std::string& key : wanted.reserved) bytes += sizeof key + key.size();
    return bytes;
  }
  static void Open(const RunContext& c, tenon_resource* made, const TableOptions& wanted) {
    Own(ObjectOf<SharedTable>(c, made, kTableType, [&] {
      return std::make_unique<Table>(Charge(c, BytesOf(wanted)), wanted);
    })).CheckSame(wanted);
    *c.output<tenon_resource*>(0) = made;
  }
  // How TensorFlow lays its table out; this one is laid out by itself.
  static void CheckBuckets(CreateContext& c) {
    const int64_t buckets = c.Int("initial_num_buckets");
    const float load = c.Float("max_load_factor");
    if (c.ok() && (buckets < 1 || (buckets & (buckets - 1)) != 0))
      c.Invalid("initial_num_buckets must be a power of 2, got: ", buckets);
    if (c.ok() && !(load > 0 && load < 1))
      c.Invalid("max_load_factor must be between 0 and 1, got: ", std::to_string(load));
  }
  TableOptions WithReservedKeys(const RunContext& c) const {
    TableOptions all = options;
    const Dims dims = DimsOf(c.input_view(0));
    if (dims.size() > 1) Fail(TENON_INVALID_ARGUMENT, "Empty key must be a scalar or a vector, found shape ", dims);
    if (!std::ranges::equal(dims, DimsOf(c.input_view(1))))
      Fail(TENON_INVALID_ARGUMENT, "Empty and deleted keys must have same shape, got ", dims, " and ",
           DimsOf(c.input_view(1)));
    all.key_row.assign(dims.begin(), dims.end());
    for (int32_t i = 0; i < 2; ++i) {
      const tenon_tensor_view& key = c.input_view(i);
      all.reserved.emplace_back(key.dtype != TENON_DT_STRING
                                    ? std::string_view(Data<const char>(key), static_cast<size_t>(key.byte_size))
                                : Count(key) == 1 ? StringAt(key, 0)
                                                  : std::string_view());
    }
    if (all.reserved[0] == all.reserved[1] && Count(dims) > 0)
      Fail(TENON_INVALID_ARGUMENT, "Empty and deleted keys cannot be equal");
    return all;
  }

  TableOptions options;
  tenon_resource* handle = nullptr;
};

Table& TableOf(const RunContext& c) { return Own(TableIn(c, 0)); }

struct Find {
  void Run(RunContext c) const { TableOf(c).Find(c, 0, c.input_view(1), c.input_view(2)); }
};

void Fill(const RunContext& c, Table& table) {
  if (Count(c.input_view(1)) == 0) Fail(TENON_INVALID_ARGUMENT, "a table that is filled once is given no entries");
  table.Fill(c, c.input_view(1), c.input_view(2));
}

struct Initialize {
  void Run(RunContext c) const { Fill(c, TableOf(c)); }
};

struct Import {
  void Run(RunContext c) const {
    Table& table = TableOf(c);
    if (table.options().fixed) Fill(c, table);
    else table.Replace(c, c.input_view(1), c.input_view(2));
  }
};

struct Insert {
  void Run(RunContext c) const { TableOf(c).Insert(c, c.input_view(1), c.input_view(2)); }
};

struct Remove {
  void Run(RunContext c) const { TableOf(c).Remove(c.input_view(1)); }
};

struct Export {
  explicit Export(CreateContext& c) : key(c.Type("Tkeys")), value(c.Type("Tvalues")) {}
  void Run(RunContext c) const {
    const Table& table = TableOf(c);
    table.CheckTypes(key, value);
    table.Export(c);
  }
  uint32_t key, value;
};

struct Size {
  void Run(RunContext c) const { *c.output<int64_t>(0) = TableOf(c).size(); }
};

struct InitializeFromFile {
  explicit InitializeFromFile(CreateContext& c) {
    options.key_column = c.Int("key_index");
    options.value_column = c.Int("value_index");
    options.lines = c.Int("vocab_size");
    options.offset = c.Int("offset");
    const std::string_view delimiter = c.String("delimiter");
    if (c.ok() && delimiter.size() != 1)
      c.Fail(TENON_INVALID_ARGUMENT, "delimiter must be one character, found '", delimiter, "'");
    options.delimiter = delimiter.empty() ? '\t' : delimiter[0];
  }
  void Run(RunContext c) const {
    Table& table = TableOf(c);
    if (Count(c.input_view(1)) != 1)
      Fail(TENON_INVALID_ARGUMENT, "filename must be one string; its shape is ", DimsOf(c.input_view(1)));
    StepMemory memory(c);
    std::pmr::unsynchronized_pool_resource pool(&memory);
    const TextEntries entries = ReadEntries(c, std::string(StringAt(c.input_view(1), 0)), options, table.options().key,
                                            table.options().value, &pool);
    table.Fill(c, entries.keys(), entries.values());
  }
  TextFileOptions options;
};

constexpr Traits kStateful = {.flags = TENON_KERNEL_STATEFUL};
constexpr Traits kPlain = {.flags = 0};
constexpr Traits kGives = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kHashTableV2Kernel) = Registration<MakeTable<Kind::kFixed>>("HashTableV2", kStateful);
TENON_KERNEL(kMutableHashTableV2Kernel) = Registration<MakeTable<Kind::kMutable>>("MutableHashTableV2", kStateful);
TENON_KERNEL(kMutableHashTableOfTensorsV2Kernel) =
    Registration<MakeTable<Kind::kMutableRows>>("MutableHashTableOfTensorsV2", kStateful);
TENON_KERNEL(kMutableDenseHashTableV2Kernel) = Registration<MakeTable<Kind::kReserved>>("MutableDenseHashTableV2",
                                                                                        kStateful);
TENON_KERNEL(kAnonymousHashTableKernel) = Registration<MakeTable<Kind::kFixed, true>>("AnonymousHashTable", kStateful);
TENON_KERNEL(kAnonymousMutableHashTableKernel) =
    Registration<MakeTable<Kind::kMutable, true>>("AnonymousMutableHashTable", kStateful);
TENON_KERNEL(kAnonymousMutableHashTableOfTensorsKernel) =
    Registration<MakeTable<Kind::kMutableRows, true>>("AnonymousMutableHashTableOfTensors", kStateful);
TENON_KERNEL(kAnonymousMutableDenseHashTableKernel) =
    Registration<MakeTable<Kind::kReserved, true>>("AnonymousMutableDenseHashTable", kStateful);
TENON_KERNEL(kInitializeTableV2Kernel) = Registration<Initialize>("InitializeTableV2", kPlain);
TENON_KERNEL(kInitializeTableFromTextFileV2Kernel) = Registration<InitializeFromFile>("InitializeTableFromTextFileV2",
                                                                                      kPlain);
TENON_KERNEL(kLookupTableFindV2Kernel) = Registration<Find>("LookupTableFindV2", kGives);
TENON_KERNEL(kLookupTableImportV2Kernel) = Registration<Import>("LookupTableImportV2", kPlain);
TENON_KERNEL(kLookupTableInsertV2Kernel) = Registration<Insert>("LookupTableInsertV2", kPlain);
TENON_KERNEL(kLookupTableRemoveV2Kernel) = Registration<Remove>("LookupTableRemoveV2", kPlain);
TENON_KERNEL(kLookupTableExportV2Kernel) = Registration<Export>("LookupTableExportV2", kGives);
TENON_KERNEL(kLookupTableSizeV2Kernel) = Registration<Size>("LookupTableSizeV2", kPlain);

}  // namespace tenon::ops
