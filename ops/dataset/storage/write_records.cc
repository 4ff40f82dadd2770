// SPDX-License-Identifier: Apache-2.0
// DatasetToTFRecord: the elements of a dataset of strings as the records of a file.
#include "base/dataset.h"
#include "base/op.h"
#include "tenon/extras/file/compressed_stream.h"
#include "tenon/extras/file/records.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// The file is there with all its records, or as far as it came when this failed.
struct ToRecords {
  // In a task, which may wait.
  void RunAsync(RunContext c, Done done) const {
    Work(c).Schedule(
        0,
        [c, done](const Outcome& outcome) {
          tenon_status* status = nullptr;
          try {
            if (!outcome.ok()) Fail(outcome.code, outcome.message);
            Write(c);
          } catch (...) {
            status = CurrentFailure();
          }
          done(status);
        },
        TENON_WORK_MAY_WAIT);
  }

 private:
  static void Write(const RunContext& c) {
    const DatasetPtr dataset = DatasetOf(c, 0);
    if (dataset->types().size() != 1)
      Fail(TENON_INVALID_ARGUMENT, "records are made of datasets of one component; ", dataset->who(), " has ",
           dataset->types().size());
    if (dataset->types()[0] != TENON_DT_STRING)
      Fail(TENON_INVALID_ARGUMENT, "records are made of strings; the elements of ", dataset->who(), " are ",
           TypeName(dataset->types()[0]));
    const std::string_view compression = StringAt(c.input_view(2), 0);
    CheckCompression(compression);
    if (!compression.empty())
      Fail(TENON_UNIMPLEMENTED, "records can be read packed ('", compression,
           "'), but are written as they are: give compression_type ''");
    const Pass pass(Work(c), *dataset);
    const IteratorPtr iterator = dataset->NewIterator(pass);
    RecordWriter writer(File::ForWriting(HostFiles(), std::string(StringAt(c.input_view(1), 0))));
    for (Element element; iterator->Next(&element);) {
      c.CheckCancelled();
      const tenon_tensor_view view = element.empty() ? tenon_tensor_view{} : element[0].view();
      if (view.dtype != TENON_DT_STRING || Count(view) != 1)
        Fail(TENON_INVALID_ARGUMENT, "a record is one string; ", dataset->who(), " gives a tensor of shape ",
             ShapeOf(view));
      writer.Write(StringAt(view, 0));
    }
    writer.Close();
  }
};

constexpr Traits kWrites = {.flags = 0};

}  // namespace

TENON_KERNEL(kDatasetToTFRecordKernel) = Registration<ToRecords>("DatasetToTFRecord", kWrites);
TENON_KERNEL(kExperimentalDatasetToTFRecordKernel) = Registration<ToRecords>("ExperimentalDatasetToTFRecord", kWrites);

static constexpr std::string_view kWriteDoc =
    "Writes the elements, one string each, as the records of a file. compression_type must be ''.";

TENON_OP(kDatasetToTFRecord) = DefineOp({
    .name = "DatasetToTFRecord",
    .inputs = "input_dataset: variant, filename: string, compression_type: string",
    .constraints = "rank(filename) == 0; path(filename); rank(compression_type) == 0",
    .doc = kWriteDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_NO_GRADIENT,
});

TENON_OP(kExperimentalDatasetToTFRecord) = DefineOp({
    .name = "ExperimentalDatasetToTFRecord",
    .inputs = "input_dataset: variant, filename: string, compression_type: string",
    .constraints = "rank(filename) == 0; path(filename); rank(compression_type) == 0",
    .doc = kWriteDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_NO_GRADIENT,
});

}  // namespace tenon::ops
