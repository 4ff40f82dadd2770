// SPDX-License-Identifier: Apache-2.0
// Kernels of readers. They run on the host, wherever the reader is said to be; those that may wait are asynchronous.
#include "reader.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;
using input::Reader;
using input::ReaderOptions;

namespace {

constexpr tenon_span kReaderType = TENON_SPAN("tenon.Reader/1");

// The container's: calls have the reader too.
struct HeldReader {
  explicit HeldReader(const ReaderOptions& options) : reader(std::make_shared<Reader>(options)) {}
  const std::shared_ptr<Reader> reader;
};

struct MakeReader {
  explicit MakeReader(CreateContext& c) {
    ReaderOptions& o = options;
    o.op = std::string(c.op());
    if (o.op.ends_with("V2")) o.op.resize(o.op.size() - 2);  // both versions make the same reader
    o.name = std::string(c.String("shared_name"));
    if (o.name.empty()) o.name = std::string(c.name());
    if (o.op == "TextLineReader") o.skip_header_lines = c.Int("skip_header_lines");
    if (o.op == "TFRecordReader") o.compression = std::string(c.String("compression_type"));
    if (o.op == "FixedLengthRecordReader") {
      o.header_bytes = c.Int("header_bytes");
      o.record_bytes = c.Int("record_bytes");
      o.footer_bytes = c.Int("footer_bytes");
      o.hop_bytes = c.Int("hop_bytes");
      if (c.Has("encoding")) o.compression = std::string(c.String("encoding"));  // not of the first version
    }
    const std::string container(c.String("container"));
    if (!c.ok()) return;
    CheckOptions(o);
    c.Check(c.args().services->resource_handle(c.args().context, ToSpan(container), ToSpan(o.name), ToSpan("reader"), 0,
                                               &handle));
  }
  void Run(RunContext c) const {
    ObjectOf<HeldReader>(c, handle, kReaderType, [this] {
      return std::make_unique<HeldReader>(options);
    }).reader->CheckSame(options);
    *c.output<tenon_resource*>(0) = handle;
  }
  ReaderOptions options;
  tenon_resource* handle = nullptr;
};

Reader& ReaderOf(const RunContext& c) { return *ObjectOf<HeldReader>(c, c.resource(0), kReaderType).reader; }

// Of names, one a time; asked before one is taken.
SharedQueue& NamesOf(const RunContext& c) {
  SharedQueue& queue = QueueIn(c, 1);
  const auto types = ComponentTypes(queue);
  if (types.size() == 1 && types[0] == TENON_DT_STRING) return queue;
  Fail(TENON_INVALID_ARGUMENT, "a reader takes names of files from a queue with one component, a string; the ",
       ToText(queue.description()), " has ", types.size(),
       types.size() == 1 ? Concat(" of type ", TypeName(types[0])) : " components");
}

struct Read {
  void RunAsync(RunContext c, Done done) const { ReaderOf(c).ReadOne(c, done, NamesOf(c)); }
};
struct ReadUpTo {
  void RunAsync(RunContext c, Done done) const {
    const int64_t count = *c.input<int64_t>(2);
    if (count < 0) Fail(TENON_INVALID_ARGUMENT, "num_records is ", count);
    ReaderOf(c).ReadUpTo(c, done, NamesOf(c), count);
  }
};
struct ResetReader {
  void RunAsync(RunContext c, Done done) const { ReaderOf(c).Reset(c, done); }
};
struct Serialize {
  void RunAsync(RunContext c, Done done) const { ReaderOf(c).Serialize(c, done); }
};
struct Restore {
  void RunAsync(RunContext c, Done done) const { ReaderOf(c).Restore(c, done, StringAt(c.input_view(1), 0)); }
};
struct RecordsProduced {
  void Run(RunContext c) const { *c.output<int64_t>(0) = ReaderOf(c).records_produced(); }
};
struct UnitsCompleted {
  void Run(RunContext c) const { *c.output<int64_t>(0) = ReaderOf(c).units_completed(); }
};

constexpr Traits kMakes = {.flags = TENON_KERNEL_STATEFUL};
constexpr Traits kGives = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kPlain = {.flags = 0};

}  // namespace

TENON_KERNEL(kWholeFileReaderV2Kernel) = Registration<MakeReader>("WholeFileReaderV2", kMakes);
TENON_KERNEL(kTextLineReaderV2Kernel) = Registration<MakeReader>("TextLineReaderV2", kMakes);
TENON_KERNEL(kFixedLengthRecordReaderV2Kernel) = Registration<MakeReader>("FixedLengthRecordReaderV2", kMakes);
TENON_KERNEL(kTFRecordReaderV2Kernel) = Registration<MakeReader>("TFRecordReaderV2", kMakes);
TENON_KERNEL(kIdentityReaderV2Kernel) = Registration<MakeReader>("IdentityReaderV2", kMakes);
TENON_KERNEL(kReaderReadV2Kernel) = Registration<Read>("ReaderReadV2", kGives);
TENON_KERNEL(kReaderReadUpToV2Kernel) = Registration<ReadUpTo>("ReaderReadUpToV2", kGives);
TENON_KERNEL(kReaderNumRecordsProducedV2Kernel) = Registration<RecordsProduced>("ReaderNumRecordsProducedV2", kPlain);
TENON_KERNEL(kReaderNumWorkUnitsCompletedV2Kernel) = Registration<UnitsCompleted>("ReaderNumWorkUnitsCompletedV2",
                                                                                  kPlain);
TENON_KERNEL(kReaderResetV2Kernel) = Registration<ResetReader>("ReaderResetV2", kPlain);
TENON_KERNEL(kReaderSerializeStateV2Kernel) = Registration<Serialize>("ReaderSerializeStateV2", kGives);
TENON_KERNEL(kReaderRestoreStateV2Kernel) = Registration<Restore>("ReaderRestoreStateV2", kPlain);

// The first version.
TENON_KERNEL(kWholeFileReaderKernel) = Registration<MakeReader>("WholeFileReader", kMakes);
TENON_KERNEL(kTextLineReaderKernel) = Registration<MakeReader>("TextLineReader", kMakes);
TENON_KERNEL(kFixedLengthRecordReaderKernel) = Registration<MakeReader>("FixedLengthRecordReader", kMakes);
TENON_KERNEL(kTFRecordReaderKernel) = Registration<MakeReader>("TFRecordReader", kMakes);
TENON_KERNEL(kIdentityReaderKernel) = Registration<MakeReader>("IdentityReader", kMakes);
TENON_KERNEL(kReaderReadKernel) = Registration<Read>("ReaderRead", kGives);
TENON_KERNEL(kReaderReadUpToKernel) = Registration<ReadUpTo>("ReaderReadUpTo", kGives);
TENON_KERNEL(kReaderNumRecordsProducedKernel) = Registration<RecordsProduced>("ReaderNumRecordsProduced", kPlain);
TENON_KERNEL(kReaderNumWorkUnitsCompletedKernel) = Registration<UnitsCompleted>("ReaderNumWorkUnitsCompleted", kPlain);
TENON_KERNEL(kReaderResetKernel) = Registration<ResetReader>("ReaderReset", kPlain);
TENON_KERNEL(kReaderSerializeStateKernel) = Registration<Serialize>("ReaderSerializeState", kGives);
TENON_KERNEL(kReaderRestoreStateKernel) = Registration<Restore>("ReaderRestoreState", kPlain);

}  // namespace tenon::ops
