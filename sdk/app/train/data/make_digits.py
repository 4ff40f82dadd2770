#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes digits.npy from a scikit-learn wheel: pip download --no-deps scikit-learn, then
make_digits.py scikit_learn-*.whl digits.npy. Needs the standard library alone."""

import csv
import gzip
import io
import struct
import sys
import zipfile

MEMBER = "sklearn/datasets/data/digits.csv.gz"
ROWS, COLUMNS = 1797, 65  # 64 pixels, 0 to 16, then the label, 0 to 9


def read_rows(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = gzip.decompress(archive.read(MEMBER)).decode("ascii")
    rows = [[int(float(cell)) for cell in row] for row in csv.reader(io.StringIO(text))]
    if len(rows) != ROWS or any(len(row) != COLUMNS for row in rows):
        raise SystemExit(f"{wheel}: {MEMBER} is not {ROWS} rows of {COLUMNS} numbers")
    for row in rows:
        if not all(0 <= pixel <= 16 for pixel in row[:64]) or not 0 <= row[64] <= 9:
            raise SystemExit(f"{wheel}: a pixel or a label is out of range: {row}")
    return rows


def npy(rows):
    """The rows as a uint8 array in version 1.0 of NumPy's format; the data begins at byte 128."""
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d), }" % (ROWS, COLUMNS)
    header = header.ljust(128 - 10 - 1) + "\n"
    prefix = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("ascii")
    return prefix + b"".join(bytes(row) for row in rows)


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[2], "wb") as out:
        out.write(npy(read_rows(sys.argv[1])))


if __name__ == "__main__":
    main()
