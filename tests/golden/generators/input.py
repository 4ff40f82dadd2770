# SPDX-License-Identifier: Apache-2.0
"""Cases of the input package that need no files of their own: readers that open none, and files that are not there.
What is in files stands in ops/input's tests and in tests/engine."""

import numpy as np
import tensorflow as tf

from .draw import Case, Program, op

raw = tf.raw_ops
NOWHERE = b"/tenon/no/such/folder/"
ASKED = {
    "ReaderReadV2": "read",
    "ReaderReadUpToV2": "up_to",
    "ReaderNumRecordsProducedV2": "records",
    "ReaderNumWorkUnitsCompletedV2": "units",
    "ReaderResetV2": "reset",
    "ReaderSerializeStateV2": "state",
    "ReaderRestoreStateV2": "restore",
}
STATES = [
    b"",
    b"\x08\x02\x10\x02\x18\x05\"\x03abc",
    b"\x08\x01",
    b"\xff",
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x08\x07\x10\x07",
]
MAKERS = {
    "IdentityReaderV2": {},
    "WholeFileReaderV2": {},
    "TextLineReaderV2": {"skip_header_lines": 1},
    "TFRecordReaderV2": {"compression_type": "GZIP"},
    "FixedLengthRecordReaderV2": {
        "record_bytes": 3,
        "header_bytes": 0,
        "footer_bytes": 1,
        "hop_bytes": 2,
        "encoding": "",
    },
}


class Reader:
    """A reader in a graph, the queue that it takes names from, and how many names that has."""

    def __init__(self, d, kind):
        self.d, self.kind, self.runs = d, kind, []
        self.names, self.closed = 0, False
        queue = raw.FIFOQueueV2(component_types=[tf.string], shapes=[], capacity=-1, name="queue")
        reader = getattr(raw, kind)(shared_name=d.pick(["", "r"]), name="reader", **MAKERS[kind])
        raw.QueueEnqueueV2(handle=queue, components=[tf.compat.v1.placeholder(tf.string, [], "name")], name="put")
        raw.QueueCloseV2(handle=queue, name="close")
        raw.ReaderReadV2(reader_handle=reader, queue_handle=queue, name="read")
        raw.ReaderReadUpToV2(
            reader_handle=reader,
            queue_handle=queue,
            num_records=tf.compat.v1.placeholder(tf.int64, [], "n"),
            name="up_to",
        )
        raw.ReaderNumRecordsProducedV2(reader_handle=reader, name="records")
        raw.ReaderNumWorkUnitsCompletedV2(reader_handle=reader, name="units")
        raw.ReaderResetV2(reader_handle=reader, name="reset")
        raw.ReaderSerializeStateV2(reader_handle=reader, name="state")
        raw.ReaderRestoreStateV2(
            reader_handle=reader, state=tf.compat.v1.placeholder(tf.string, [], "given"), name="restore"
        )

    def step(self, what):
        """Adds a run, when it would not wait."""
        d = self.d
        if what == "put" and not self.closed:
            name = d.pick([b"a", b"", b"some name"]) if self.kind == "IdentityReaderV2" else NOWHERE + b"x"
            self.runs.append(({"name:0": np.array(name, object)}, [], ["put"]))
            self.names += 1
        elif what == "close" and not self.closed:
            self.runs.append(({}, [], ["close"]))
            self.closed = True
        elif what in ("read", "up_to"):
            if self.kind not in ("IdentityReaderV2", "WholeFileReaderV2") and not self.closed:
                return  # it would go on to the next file
            if not self.names and not self.closed:
                return
            feeds = {"n:0": np.int64(d.int(1, 3))} if what == "up_to" else {}
            self.runs.append((feeds, [f"{what}:0", f"{what}:1"], []))
            self.names = max(0, self.names - 1)
        elif what in ("records", "units", "state"):
            self.runs.append(({}, [f"{what}:0"], []))
        elif what == "reset":
            self.runs.append(({}, [], ["reset"]))
        elif what == "restore":
            self.runs.append(({"given:0": np.array(d.pick(STATES), object)}, [], ["restore"]))


def program(d, kind, last=None):
    graph = tf.Graph()
    with graph.as_default():
        reader = Reader(d, kind)
        for _ in range(d.int(3, 9)):
            reader.step(
                d.pick(
                    ["put", "put", "read", "read", "up_to", "close", "records", "units", "reset", "state", "restore"]
                )
            )
        if last:
            reader.step("put")
            reader.step("close")
            reader.step(last)
    return Program(graph, reader.runs, about=kind)


@op(*MAKERS, count=12)
def readers(d):
    return program(d, d.op, "read")


@op(*ASKED, count=12)
def calls(d):
    return program(d, d.pick(list(MAKERS)), ASKED[d.op])


@op("ReadFile")
def read_file(d):
    return Case([np.array(d.pick([NOWHERE + b"x", NOWHERE, b""]), object)], gradients=False)


@op("WriteFile")
def write_file(d):
    """Nowhere: files are not for these cases."""
    return Case([np.array(b"/dev/null/" + d.pick([b"x", b"x/y"]), object), d.tensor(tf.string)])


@op("MatchingFiles")
def matching_files(d):
    patterns = [
        d.pick(
            [
                b"/dev/null",
                b"/dev/nul[l]",
                b"/dev/n?ll",
                b"/d[e]v/nul\\l",
                b"",
                NOWHERE + b"*",
                NOWHERE + b"x",
                b"/dev/nul[!l]",
                b"/dev//null",
                b"/dev/./null",
            ]
        )
        for _ in range(d.int(0, 3))
    ]
    array = np.empty(len(patterns), object)
    array[:] = patterns
    return Case([array if len(patterns) != 1 or d.chance(0.5) else array.reshape(())])
