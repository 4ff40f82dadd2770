# SPDX-License-Identifier: Apache-2.0
"""Writes input_queues.meta: TensorFlow 1's input functions as they stand in graphs: file names, lines, numbers,
batches, each by a queue with its runner.

Run where TensorFlow 2.21 is installed: python3 make_input_queues.py. The names of the files are relative: a.txt and
b.txt.
"""

import os
import pathlib
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
META = pathlib.Path(__file__).resolve().parent / "input_queues.meta"


def build():
    names = v1.train.string_input_producer(["a.txt", "b.txt"], num_epochs=2, shuffle=False, name="names")
    _, line = v1.TextLineReader().read(names)
    batch = v1.train.batch([tf.strings.to_number(line)], batch_size=2, allow_smaller_final_batch=True, name="batch")
    tf.multiply(batch, 2.0, name="out")
    v1.local_variables_initializer()


def check():
    """What the test wants is what TensorFlow gives."""
    os.chdir(tempfile.mkdtemp())
    pathlib.Path("a.txt").write_text("1\n2\n3\n")
    pathlib.Path("b.txt").write_text("4\n")
    with v1.Session() as session:
        session.run("init")
        coordinator = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        got = [session.run("out:0").tolist() for _ in range(4)]
        coordinator.request_stop()
        coordinator.join(threads)
    assert got == [[2, 4], [6, 8], [2, 4], [6, 8]], got


def main():
    with tf.Graph().as_default():
        build()
        v1.train.export_meta_graph(str(META), strip_default_attrs=True)
        check()


if __name__ == "__main__":
    main()
