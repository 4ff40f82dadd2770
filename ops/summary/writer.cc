// SPDX-License-Identifier: Apache-2.0
// Writers of event files, and what they write: summaries, graphs, whole events.
//
// A writer is a resource, by its name, and has a file from CreateSummaryFileWriter until CloseSummaryWriter. Only the
// first of them names a file (TENON_OP_IO): what the others write goes to a file that somebody else has chosen.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "encode.h"
#include "event_file.h"
#include "tenon/bytes/event.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kWriterType = TENON_SPAN("tenon.EventFile/1");

struct MakeWriter {
  explicit MakeWriter(CreateContext& c) {
    std::string name(c.String("shared_name"));
    if (name.empty()) name = c.name();
    const std::string container(c.String("container"));
    if (c.ok())
      c.Check(c.args().services->resource_handle(c.args().context, ToSpan(container), ToSpan(name),
                                                 ToSpan("summary writer"), 0, &handle));
  }
  void Run(RunContext c) const { *c.output<tenon_resource*>(0) = handle; }
  tenon_resource* handle = nullptr;
};

// A writer that has a file keeps it.
struct CreateFile {
  void Run(RunContext c) const {
    const int64_t most = *c.input<int32_t>(2), longest = *c.input<int32_t>(3);
    const EventFile::Options options = {std::string(StringAt(c.input_view(1), 0)),
                                        std::string(StringAt(c.input_view(4), 0)), std::max<int64_t>(most, 0),
                                        std::max<int64_t>(longest, 0)};
    if (options.folder.empty()) Fail(TENON_INVALID_ARGUMENT, "logdir is empty");
    if (options.suffix.find('/') != std::string::npos)
      Fail(TENON_INVALID_ARGUMENT, "filename_suffix '", options.suffix, "' has a '/'; the file lies in logdir");
    (void)ObjectOf<EventFile>(c, c.resource(0), kWriterType, [&] { return std::make_unique<EventFile>(c, options); });
  }
};

EventFile& FileOf(const RunContext& c) { return ObjectOf<EventFile>(c, c.resource(0), kWriterType); }

struct FlushFile {
  void Run(RunContext c) const { FileOf(c).Flush(); }
};

struct CloseFile {
  void Run(RunContext c) const {
    FileOf(c).Flush();
    Check(c.services().resource_destroy(c.frame(), c.resource(0)));
  }
};

// Writes the Summary that Encoder makes of the inputs behind writer and step.
template <class Encoder>
struct WriteSummary {
  WriteSummary() requires std::is_default_constructible_v<Encoder> = default;
  explicit WriteSummary(CreateContext& c) requires std::is_constructible_v<Encoder, CreateContext&> : encoder(c) {}
  void Run(RunContext c) const {
    EventFile& file = FileOf(c);
    file.Add(c, *c.input<int64_t>(1), kEventSummary, encoder.Encode(c));
  }
  [[no_unique_address]] Encoder encoder;
};

struct Tensor {
  std::string Encode(const RunContext& c) const {
    return EncodeTensor(StringAt(c.input_view(3), 0), c.input_view(2), StringAt(c.input_view(4), 0));
  }
};
// Summaries one after the other are one.
struct Raw {
  std::string Encode(const RunContext& c) const {
    std::string all;
    for (const std::string_view summary : StringsOf(c.input_view(2))) {
      CheckMessage(summary, "Summary");
      all += summary;
    }
    return all;
  }
};
struct Scalar {
  std::string Encode(const RunContext& c) const {
    return EncodeScalar(c, StringAt(c.input_view(2), 0), c.input_view(3));
  }
};
struct HistogramOf {
  std::string Encode(const RunContext& c) const {
    return EncodeHistogram(c, StringAt(c.input_view(2), 0), c.input_view(3));
  }
};
struct Images {
  explicit Images(CreateContext& c) : most(c.Int("max_images")) {}
  std::string Encode(const RunContext& c) const {
    return EncodeImages(c, StringAt(c.input_view(2), 0), c.input_view(3), most,
                        {c.input<uint8_t>(4), static_cast<size_t>(Count(c.input_view(4)))});
  }
  int64_t most;
};
struct Sounds {
  explicit Sounds(CreateContext& c) : most(c.Int("max_outputs")) {}
  std::string Encode(const RunContext& c) const {
    return EncodeSounds(c, StringAt(c.input_view(2), 0), c.input_view(3), *c.input<float>(4), most);
  }
  int64_t most;
};

struct WriteGraph {
  void Run(RunContext c) const {
    const std::string_view graph = StringAt(c.input_view(2), 0);
    CheckMessage(graph, "GraphDef");
    FileOf(c).Add(c, *c.input<int64_t>(1), kEventGraphDef, graph);
  }
};
struct Import {
  void Run(RunContext c) const {
    const std::string_view event = StringAt(c.input_view(1), 0);
    CheckMessage(event, "Event");
    FileOf(c).AddEvent(c, event);
  }
};

constexpr Traits kPlain = {.flags = TENON_KERNEL_STATEFUL};
constexpr uint64_t kTraits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT, kWrites = kTraits | TENON_OP_WRITES_STATE;

void NothingShape(ShapeContext&) {}

consteval tenon_op_definition Writing(OpDefinition op) {
  if (op.traits == 0) op.traits = kWrites;
  op.shape = ShapeFunction<NothingShape>;
  return DefineOp(op);
}

}  // namespace

TENON_KERNEL(kSummaryWriterKernel) = Registration<MakeWriter>("SummaryWriter", kPlain);
TENON_KERNEL(kCreateSummaryFileWriterKernel) = Registration<CreateFile>("CreateSummaryFileWriter", kPlain);
TENON_KERNEL(kFlushSummaryWriterKernel) = Registration<FlushFile>("FlushSummaryWriter", kPlain);
TENON_KERNEL(kCloseSummaryWriterKernel) = Registration<CloseFile>("CloseSummaryWriter", kPlain);
TENON_KERNEL(kWriteSummaryKernel) = Registration<WriteSummary<Tensor>>("WriteSummary", kPlain);
TENON_KERNEL(kWriteRawProtoSummaryKernel) = Registration<WriteSummary<Raw>>("WriteRawProtoSummary", kPlain);
TENON_KERNEL(kWriteScalarSummaryKernel) = Registration<WriteSummary<Scalar>>("WriteScalarSummary", kPlain);
TENON_KERNEL(kWriteHistogramSummaryKernel) = Registration<WriteSummary<HistogramOf>>("WriteHistogramSummary", kPlain);
TENON_KERNEL(kWriteImageSummaryKernel) = Registration<WriteSummary<Images>>("WriteImageSummary", kPlain);
TENON_KERNEL(kWriteAudioSummaryKernel) = Registration<WriteSummary<Sounds>>("WriteAudioSummary", kPlain);
TENON_KERNEL(kWriteGraphSummaryKernel) = Registration<WriteGraph>("WriteGraphSummary", kPlain);
TENON_KERNEL(kImportEventKernel) = Registration<Import>("ImportEvent", kPlain);

TENON_OP(kSummaryWriter) = DefineOp({
    .name = "SummaryWriter",
    .outputs = "writer: resource",
    .attrs = "shared_name: string = ''; container: string = ''",
    .doc = "A writer of summaries, by its name. It writes once CreateSummaryFileWriter has given it a file.",
    .traits = kTraits,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kCreateSummaryFileWriter) = Writing({
    .name = "CreateSummaryFileWriter",
    .inputs = "writer: resource, logdir: string, max_queue: int32, flush_millis: int32, filename_suffix: string",
    .constraints =
        "path(logdir); rank(logdir) == 0; rank(max_queue) == 0; rank(flush_millis) == 0; rank(filename_suffix) == 0",
    .doc = "Gives a writer a new event file in the folder logdir, unless it has one. Events are written when more than "
           "max_queue wait, or flush_millis have gone by.",
    .traits = kWrites | TENON_OP_IO,
});

TENON_OP(kFlushSummaryWriter) = Writing({.name = "FlushSummaryWriter",
                                         .inputs = "writer: resource",
                                         .doc = "Writes what waits."});
TENON_OP(kCloseSummaryWriter) = Writing({.name = "CloseSummaryWriter",
                                         .inputs = "writer: resource",
                                         .doc = "Writes what waits, and takes the writer's file from it."});

TENON_OP(kWriteSummary) = Writing({
    .name = "WriteSummary",
    .inputs = "writer: resource, step: int64, tensor: T, tag: string, summary_metadata: string",
    .attrs = "T: type",
    .constraints = "rank(step) == 0; rank(tag) == 0; rank(summary_metadata) == 0",
    .doc =
        "Writes a tensor under a tag, with a SummaryMetadata message that says which plugin of TensorBoard shows it.",
});

TENON_OP(kWriteRawProtoSummary) = Writing({
    .name = "WriteRawProtoSummary",
    .inputs = "writer: resource, step: int64, tensor: string",
    .constraints = "rank(step) == 0",
    .doc = "Writes the values of serialized Summary messages.",
});

TENON_OP(kWriteGraphSummary) = Writing({
    .name = "WriteGraphSummary",
    .inputs = "writer: resource, step: int64, tensor: string",
    .constraints = "rank(step) == 0; rank(tensor) == 0",
    .doc = "Writes a serialized GraphDef.",
});

TENON_OP(kImportEvent) = Writing({
    .name = "ImportEvent",
    .inputs = "writer: resource, event: string",
    .constraints = "rank(event) == 0",
    .doc = "Writes a serialized Event as it is.",
});

TENON_OP(kWriteScalarSummary) = Writing({
    .name = "WriteScalarSummary",
    .inputs = "writer: resource, step: int64, tag: string, value: T",
    .attrs = "T: realnumbertype",
    .constraints = "rank(step) == 0; rank(tag) == 0; rank(value) == 0",
    .doc = "Writes a number.",
});

TENON_OP(kWriteHistogramSummary) = Writing({
    .name = "WriteHistogramSummary",
    .inputs = "writer: resource, step: int64, tag: string, values: T",
    .attrs =
        "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, bool} = float",
    .constraints = "rank(step) == 0; rank(tag) == 0",
    .doc = "Writes how values, which are finite, are spread.",
});

TENON_OP(kWriteImageSummary) = Writing({
    .name = "WriteImageSummary",
    .inputs = "writer: resource, step: int64, tag: string, tensor: T, bad_color: uint8",
    .attrs = "max_images: int >= 1 = 3; T: {uint8, double, float, half} = float",
    .constraints = "rank(step) == 0; rank(tag) == 0; rank(tensor) == 4; rank(bad_color) == 1",
    .doc = "Writes the first max_images images of tensor as ImageSummary encodes them.",
});

TENON_OP(kWriteAudioSummary) = Writing({
    .name = "WriteAudioSummary",
    .inputs = "writer: resource, step: int64, tag: string, tensor: float, sample_rate: float",
    .attrs = "max_outputs: int >= 1 = 3",
    .constraints = "rank(step) == 0; rank(tag) == 0; rank(tensor) >= 2; rank(tensor) <= 3; rank(sample_rate) == 0",
    .doc = "Writes the first max_outputs sounds of tensor as AudioSummary encodes them.",
});

}  // namespace tenon::ops
