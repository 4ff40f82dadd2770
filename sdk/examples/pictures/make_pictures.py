#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws pictures for `tenon train images`: the handwritten digits that Tenon brings, in colour on textured backgrounds,
a folder for each class.

    make_pictures.py pictures                      10,000 PNG files of 40 x 40 pixels, some 25 MB
    make_pictures.py pictures --count 500 --digits share/tenon/digits.npy --jpeg

Needs NumPy; --jpeg, which writes every other picture as a JPEG file, needs the package tenon too. What it draws depends
on --seed alone.
"""

import argparse
import pathlib
import struct
import sys
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
PLACES = [
    HERE.parents[1] / "app/train/data/digits.npy",
    HERE.parents[1] / "digits.npy",
]  # in the sources; beside the installed examples


def png(pixels):
    """An RGB picture, uint8 [height, width, 3], as a PNG file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows, 6))
        + chunk(b"IEND", b"")
    )


def jpeg_writer():
    try:
        import tenon
    except ImportError:
        sys.exit("--jpeg needs the package tenon (pip install tenon-engine)")
    graph = tenon.Graph()
    with graph:
        x = tenon.placeholder("uint8", [None, None, 3], name="x")
        y = tenon.ops.EncodeJpeg(x, quality=90)
    session = tenon.Session(graph)
    return lambda pixels: bytes(session.run(y, {x: pixels}))


def smooth_noise(random, side, grain):
    """Values in [0, 1] that change over `grain` pixels."""
    cells = side // grain + 2
    coarse = random.random((cells, cells))
    at = np.arange(side) / grain
    low = at.astype(int)
    part = at - low
    rows = coarse[low] * (1 - part)[:, None] + coarse[low + 1] * part[:, None]
    return rows[:, low] * (1 - part) + rows[:, low + 1] * part


def draw(random, digit, side):
    """A digit, [8, 8] in 0 to 1, somewhere on a background of another colour."""
    height = random.integers(side * 5 // 8, side - 3)
    at = (np.arange(height) + 0.5) * 8 / height - 0.5
    low = np.clip(np.floor(at).astype(int), 0, 6)
    part = np.clip(at - low, 0, 1)
    rows = digit[low] * (1 - part)[:, None] + digit[low + 1] * part[:, None]
    ink = rows[:, low] * (1 - part) + rows[:, low + 1] * part
    top, left = random.integers(0, side - height + 1, 2)
    mask = np.zeros((side, side, 1))
    mask[top:top + height, left:left + height, 0] = np.clip(ink * 1.6 - 0.2, 0, 1)
    ground, colour = random.random((2, 3))
    while np.abs(ground - colour).max() < 0.45:
        ground, colour = random.random((2, 3))
    texture = np.stack([smooth_noise(random, side, random.integers(3, 12)) for _ in range(3)], -1) - 0.5
    picture = (ground + 0.35 * texture) * (1 - mask) + colour * mask
    return (np.clip(picture + random.normal(0, 0.02, picture.shape), 0, 1) * 255).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--side", type=int, default=40, help="pixels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--digits",
        type=pathlib.Path,
        default=next((place for place in PLACES if place.is_file()), PLACES[0]),
        help="the file digits.npy",
    )
    parser.add_argument("--jpeg", action="store_true")
    given = parser.parse_args()
    if not given.digits.is_file():
        sys.exit(f"there is no {given.digits}; --digits says where digits.npy is")
    rows = np.load(given.digits)
    random = np.random.default_rng(given.seed)
    as_jpeg = jpeg_writer() if given.jpeg else None
    for label in range(10):
        (given.folder / str(label)).mkdir(parents=True, exist_ok=True)
    for number in range(given.count):
        row = rows[random.integers(len(rows))]
        pixels = draw(random, row[:64].reshape(8, 8) / 16, given.side)
        ending, data = ("jpg", as_jpeg(pixels)) if as_jpeg and number % 2 else ("png", png(pixels))
        (given.folder / str(row[64]) / f"{number:05d}.{ending}").write_bytes(data)
    print(f"{given.count} pictures are in {given.folder}")


if __name__ == "__main__":
    main()
