// SPDX-License-Identifier: Apache-2.0
// What the ops of readers mean; how a reader behaves stands in reader.h. Making one touches no file: reading does, one
// whose name the queue gives.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kWholeFileReaderV2) = DefineOp({
    .name = "WholeFileReaderV2",
    .outputs = "reader_handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''",
    .doc = "A reader whose records are whole files; a record's key is the file's name.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kTextLineReaderV2) = DefineOp({
    .name = "TextLineReaderV2",
    .outputs = "reader_handle: resource",
    .attrs = "skip_header_lines: int = 0; container: string = ''; shared_name: string = ''",
    .doc = "A reader whose records are lines, without their ends; a record's key is FILE:LINE, counted from 1.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kFixedLengthRecordReaderV2) = DefineOp({
    .name = "FixedLengthRecordReaderV2",
    .outputs = "reader_handle: resource",
    .attrs = "header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; container: string = "
             "''; shared_name: string = ''; encoding: string = ''",
    .doc = "A reader of records of record_bytes each, hop_bytes (0: record_bytes) from one to the next; a record's key "
           "is FILE:NUMBER. encoding: '', 'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kTFRecordReaderV2) = DefineOp({
    .name = "TFRecordReaderV2",
    .outputs = "reader_handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''; compression_type: string = ''",
    .doc = "A reader of TensorFlow's records; a record's key is FILE:OFFSET, of unpacked bytes. compression_type: '', "
           "'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kIdentityReaderV2) = DefineOp({
    .name = "IdentityReaderV2",
    .outputs = "reader_handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''",
    .doc = "A reader that opens nothing: key and value of a record are what the queue gave.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScalarShape>,
});

static void ReadShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.WithRank(1, 0);
  c.SetOutput(0, Shape::Scalar());
  c.SetOutput(1, Shape::Scalar());
}

TENON_OP(kReaderReadV2) = DefineOp({
    .name = "ReaderReadV2",
    .inputs = "reader_handle: resource, queue_handle: resource",
    .outputs = "key: string, value: string",
    .constraints = "path(queue_handle)",
    .doc = "The reader's next record; it takes the name of its next file from the queue when it needs one. "
           "OUT_OF_RANGE when the queue is closed and empty.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
    .shape = ShapeFunction<ReadShape>,
});

static void ReadUpToShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.WithRank(1, 0);
  c.WithRank(2, 0);
  c.SetOutput(0, Shape::OfRank(1));
  c.SetOutput(1, Shape::OfRank(1));
}

TENON_OP(kReaderReadUpToV2) = DefineOp({
    .name = "ReaderReadUpToV2",
    .inputs = "reader_handle: resource, queue_handle: resource, num_records: int64",
    .outputs = "keys: string, values: string",
    .constraints = "path(queue_handle); rank(num_records) == 0",
    .doc = "Up to num_records of the reader's next records, all of one file: fewer where it ends.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
    .shape = ShapeFunction<ReadUpToShape>,
});

static void NumberShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.SetOutput(0, Shape::Scalar());
}

TENON_OP(kReaderNumRecordsProducedV2) = DefineOp({
    .name = "ReaderNumRecordsProducedV2",
    .inputs = "reader_handle: resource",
    .outputs = "records_produced: int64",
    .doc = "How many records the reader has given since it was new or reset, or as it was restored.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<NumberShape>,
});

TENON_OP(kReaderNumWorkUnitsCompletedV2) = DefineOp({
    .name = "ReaderNumWorkUnitsCompletedV2",
    .inputs = "reader_handle: resource",
    .outputs = "units_completed: int64",
    .doc = "How many files the reader has read to their end.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<NumberShape>,
});

static void NothingShape(ShapeContext& c) { c.WithRank(0, 0); }

TENON_OP(kReaderResetV2) = DefineOp({
    .name = "ReaderResetV2",
    .inputs = "reader_handle: resource",
    .doc = "Makes the reader as new; the rest of its file is not read.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<NothingShape>,
});

TENON_OP(kReaderSerializeStateV2) = DefineOp({
    .name = "ReaderSerializeStateV2",
    .inputs = "reader_handle: resource",
    .outputs = "state: string",
    .doc = "The reader's state, for ReaderRestoreStateV2; of readers whose files are one record each.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<NumberShape>,
});

static void RestoreShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.WithRank(1, 0);
}

TENON_OP(kReaderRestoreStateV2) = DefineOp({
    .name = "ReaderRestoreStateV2",
    .inputs = "reader_handle: resource, state: string",
    .constraints = "rank(state) == 0",
    .doc = "Gives the reader a state that ReaderSerializeStateV2 gave, of it or of another one.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<RestoreShape>,
});

// ---- The first version: a handle is a reference to a string. They change state by what they refer to, and are not
// said to have any. ----

static void FirstReaderShape(ShapeContext& c) { c.SetOutput(0, {2}); }
static void FirstReadShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  c.SetOutput(1, Shape::Scalar());
}
static void FirstReadUpToShape(ShapeContext& c) {
  c.SetOutput(0, Shape::OfRank(1));
  c.SetOutput(1, Shape::OfRank(1));
}

TENON_OP(kWholeFileReader) = DefineOp({
    .name = "WholeFileReader",
    .outputs = "reader_handle: Ref(string)",
    .attrs = "container: string = ''; shared_name: string = ''",
    .doc = "A reader whose records are whole files; a record's key is the file's name.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstReaderShape>,
    .deprecated_at = 26,
    .deprecation = "use WholeFileReaderV2",
});

TENON_OP(kTextLineReader) = DefineOp({
    .name = "TextLineReader",
    .outputs = "reader_handle: Ref(string)",
    .attrs = "skip_header_lines: int = 0; container: string = ''; shared_name: string = ''",
    .doc = "A reader whose records are lines, without their ends; a record's key is FILE:LINE, counted from 1.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstReaderShape>,
    .deprecated_at = 26,
    .deprecation = "use TextLineReaderV2",
});

TENON_OP(kFixedLengthRecordReader) = DefineOp({
    .name = "FixedLengthRecordReader",
    .outputs = "reader_handle: Ref(string)",
    .attrs = "header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; container: string = "
             "''; shared_name: string = ''",
    .doc = "A reader of records of record_bytes each, hop_bytes (0: record_bytes) from one to the next; a record's key "
           "is FILE:NUMBER.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstReaderShape>,
    .deprecated_at = 26,
    .deprecation = "use FixedLengthRecordReaderV2",
});

TENON_OP(kTFRecordReader) = DefineOp({
    .name = "TFRecordReader",
    .outputs = "reader_handle: Ref(string)",
    .attrs = "container: string = ''; shared_name: string = ''; compression_type: string = ''",
    .doc = "A reader of TensorFlow's records; a record's key is FILE:OFFSET, of unpacked bytes. compression_type: '', "
           "'GZIP' or 'ZLIB'.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstReaderShape>,
    .deprecated_at = 26,
    .deprecation = "use TFRecordReaderV2",
});

TENON_OP(kIdentityReader) = DefineOp({
    .name = "IdentityReader",
    .outputs = "reader_handle: Ref(string)",
    .attrs = "container: string = ''; shared_name: string = ''",
    .doc = "A reader that opens nothing: key and value of a record are what the queue gave.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstReaderShape>,
    .deprecated_at = 26,
    .deprecation = "use IdentityReaderV2",
});

TENON_OP(kReaderRead) = DefineOp({
    .name = "ReaderRead",
    .inputs = "reader_handle: Ref(string), queue_handle: Ref(string)",
    .outputs = "key: string, value: string",
    .constraints = "path(queue_handle)",
    .doc = "The reader's next record; it takes the name of its next file from the queue when it needs one. "
           "OUT_OF_RANGE when the queue is closed and empty.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_IO,
    .shape = ShapeFunction<FirstReadShape>,
});

TENON_OP(kReaderReadUpTo) = DefineOp({
    .name = "ReaderReadUpTo",
    .inputs = "reader_handle: Ref(string), queue_handle: Ref(string), num_records: int64",
    .outputs = "keys: string, values: string",
    .constraints = "path(queue_handle); rank(num_records) == 0",
    .doc = "Up to num_records of the reader's next records, all of one file: fewer where it ends.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_IO,
    .shape = ShapeFunction<FirstReadUpToShape>,
});

TENON_OP(kReaderNumRecordsProduced) = DefineOp({
    .name = "ReaderNumRecordsProduced",
    .inputs = "reader_handle: Ref(string)",
    .outputs = "records_produced: int64",
    .doc = "How many records the reader has given since it was new or reset, or as it was restored.",
    .traits = TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kReaderNumWorkUnitsCompleted) = DefineOp({
    .name = "ReaderNumWorkUnitsCompleted",
    .inputs = "reader_handle: Ref(string)",
    .outputs = "units_completed: int64",
    .doc = "How many files the reader has read to their end.",
    .traits = TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kReaderReset) = DefineOp({
    .name = "ReaderReset",
    .inputs = "reader_handle: Ref(string)",
    .doc = "Makes the reader as new; the rest of its file is not read.",
    .traits = TENON_OP_WRITES_STATE,
});

TENON_OP(kReaderSerializeState) = DefineOp({
    .name = "ReaderSerializeState",
    .inputs = "reader_handle: Ref(string)",
    .outputs = "state: string",
    .doc = "The reader's state, for ReaderRestoreState; of readers whose files are one record each.",
    .traits = TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kReaderRestoreState) = DefineOp({
    .name = "ReaderRestoreState",
    .inputs = "reader_handle: Ref(string), state: string",
    .constraints = "rank(state) == 0",
    .doc = "Gives the reader a state that ReaderSerializeState gave, of it or of another one.",
    .traits = TENON_OP_WRITES_STATE,
});

}  // namespace tenon::ops
