# SPDX-License-Identifier: Apache-2.0
"""Pictures as bytes: PNG, GIF and BMP written here, of every kind that the formats have; JPEGs of kinds that TensorFlow
does not write."""

import base64
import struct
import zlib

import numpy as np

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6  # PNG's colour types
SAMPLES = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
PASSES = (
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
)  # Adam7: row, column, and their steps


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _rows(samples, depth):
    """Packed rows of samples [height, width, channels]."""
    flat = samples.reshape(len(samples), -1)
    if depth == 16:
        return [row.astype(">u2").tobytes() for row in flat]
    if depth == 8:
        return [row.astype(np.uint8).tobytes() for row in flat]
    bits = (flat[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1
    return [np.packbits(row.astype(np.uint8)).tobytes() for row in bits.reshape(len(flat), -1)]


def _paeth(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def _filtered(rows, size, kinds):
    """Rows with PNG's filters; size: bytes a pixel, at least 1."""
    out, above = b"", bytes(len(rows[0])) if rows else b""
    for row, kind in zip(rows, kinds):
        left = bytes(size) + row[:-size] if len(row) > size else bytes(len(row))
        corner = bytes(size) + above[:-size] if len(row) > size else bytes(len(row))
        guess = {
            0: lambda a, b, c: 0,
            1: lambda a, b, c: a,
            2: lambda a, b, c: b,
            3: lambda a, b, c: (a + b) // 2,
            4: _paeth,
        }[kind]
        out += bytes([kind]) + bytes((x - guess(a, b, c)) & 255 for x, a, b, c in zip(row, left, above, corner))
        above = row
    return out


def png(samples, kind, depth, interlaced=False, palette=None, transparent=None, filters=lambda: 0, level=6, extra=()):
    """samples [height, width, channels] below 2^depth; palette [n, 3]; transparent: the bytes of tRNS."""
    height, width, _ = samples.shape
    size = max(1, SAMPLES[kind] * depth // 8)
    data = b""
    for row, column, down, right in PASSES if interlaced else ((0, 0, 1, 1),):
        part = samples[row::down, column::right]
        if part.size:
            rows = _rows(part, depth)
            data += _filtered(rows, size, [filters() for _ in rows])
    out = b"\x89PNG\r\n\x1a\n" + _chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))
    )
    for name, content in extra:
        out += _chunk(name, content)
    if palette is not None:
        out += _chunk(b"PLTE", palette.astype(np.uint8).tobytes())
    if transparent is not None:
        out += _chunk(b"tRNS", transparent)
    return out + _chunk(b"IDAT", zlib.compress(data, level)) + _chunk(b"IEND", b"")


def _lzw(pixels, bits):
    """GIF's compression."""
    clear, codes, out, held, count = 1 << bits, {}, bytearray(), 0, 0

    def put(code, width):
        nonlocal held, count
        held |= code << count
        count += width
        while count >= 8:
            out.append(held & 255)
            held >>= 8
            count -= 8

    def fresh():
        return {bytes([i]): i for i in range(clear)}, clear + 2, bits + 1

    codes, free, width = fresh()
    put(clear, width)
    text = b""
    for pixel in pixels:
        longer = text + bytes([pixel])
        if longer in codes:
            text = longer
            continue
        put(codes[text], width)
        if free < 4096:
            codes[longer] = free
            if free == 1 << width and width < 12:
                width += 1
            free += 1
        else:
            put(clear, width)
            codes, free, width = fresh()
        text = bytes([pixel])
    if text:
        put(codes[text], width)
    put(clear + 1, width)
    if count:
        out.append(held & 255)
    return bytes(out)


def _blocks(data):
    return b"".join(bytes([len(part)]) + part for part in (data[i:i + 255] for i in range(0, len(data), 255))) + b"\0"


def _colours(palette):
    """The flag's bits and the bytes of a table of 2, 4, ... 256 colours."""
    bits = max(1, int(len(palette) - 1).bit_length())
    full = np.zeros((1 << bits, 3), np.uint8)
    full[:len(palette)] = palette
    return 0x80 | (bits - 1), full.tobytes()


def gif(width, height, frames, palette=None, background=0, version=b"GIF89a", trailer=b";"):
    """frames: dicts of pixels [h, w], and where wanted left, top, palette, transparent, disposal, interlaced."""
    flag, table = _colours(palette) if palette is not None else (0, b"")
    out = version + struct.pack("<HHBBB", width, height, flag | 0x70, background, 0) + table
    for frame in frames:
        pixels = frame["pixels"]
        transparent = frame.get("transparent")
        if transparent is not None or "disposal" in frame:
            flags = frame.get("disposal", 0) << 2 | (transparent is not None)
            out += b"!\xf9\x04" + struct.pack("<BHB", flags, 5, transparent or 0) + b"\0"
        flag, table = _colours(frame["palette"]) if frame.get("palette") is not None else (0, b"")
        interlaced = frame.get("interlaced", False)
        out += (
            b","
            + struct.pack(
                "<HHHHB",
                frame.get("left", 0),
                frame.get("top", 0),
                pixels.shape[1],
                pixels.shape[0],
                flag | (0x40 if interlaced else 0),
            )
            + table
        )
        rows = range(len(pixels))
        order = (
            [r for first, step in ((0, 8), (4, 8), (2, 4), (1, 2)) for r in rows[first::step]] if interlaced else rows
        )
        bits = max(2, int(pixels.max(initial=1)).bit_length())
        out += bytes([bits]) + _blocks(_lzw(b"".join(pixels[r].astype(np.uint8).tobytes() for r in order), bits))
    return out + trailer


def bmp(pixels, top_down=False, header=40, colours=None, grey_palette=True):
    """pixels [height, width, channels]: of 1 (grey), 3 or 4 channels, in RGB(A)'s order."""
    height, width, channels = pixels.shape
    rows = pixels[..., [0] if channels == 1 else [2, 1, 0] + [3] * (channels == 4)]
    rows = rows if top_down else rows[::-1]
    stride = (width * channels + 3) // 4 * 4
    data = b"".join(row.astype(np.uint8).tobytes().ljust(stride, b"\0") for row in rows)
    table = b"".join(bytes([i, i, i, 0]) for i in range(256)) if channels == 1 and grey_palette else b""
    at = 14 + header + len(table)
    info = struct.pack(
        "<IiiHHIIiiII",
        header,
        width,
        -height if top_down else height,
        1,
        8 * channels,
        0,
        len(data),
        2835,
        2835,
        colours or 0,
        0,
    )
    return b"BM" + struct.pack("<IHHI", at + len(data), 0, 0, at) + info.ljust(header, b"\0") + table + data


# JPEGs of 19 x 13 pixels by libjpeg's programs, from one picture.
JPEGS = {
    name: base64.b64decode(text)
    for name, text in {
        "420": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAANABMDASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABgAF/8QAHRABAAICAwEBAAAAAAAAAAAAAQIRAAQDBSFhcf/EABYBAQEBAAAAAAAAAAAAAAAAAAMEBv/EACIRAQABAgQHAAAAAAAAAAAAAAECABEDBSExBBRBgaHB0f/aAAwDAQACEQMRAD8AJ63VRC5lH5mvq9PFgSQB9xBoaPE1mpq6XFK5y9QusmhihEkl7+t2j4HNhgRDU6337UaOp46KhJ+hljSOpFiNh8DLA5qLqHg+1oDM5Wr/2Q==",
        "422": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAANABMDASEAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAAAAQFBv/EAB0QAQACAgMBAQAAAAAAAAAAAAECEQAEAwUhYXH/xAAZAQACAwEAAAAAAAAAAAAAAAADBQIEBgf/xAAgEQABAwMFAQAAAAAAAAAAAAABAAMRAgQxEiGBkdEF/9oADAMBAAIRAxEAPwDJ63VRC5lH5lfV6eLAkgD7gmRS4TqwBKZWThoYoenJjpPnU8dFQk/QwyBrtgdqSeB6nguzGVR0NHiaypq6XFK5y9QusCKiWmwcbnqPVzf579Up+OpFiNh8DDKouHzvqjgeLSh4wv/Z",
        "440": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAANABMDARIAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAABv/EAB0QAQACAgMBAQAAAAAAAAAAAAECEQAEAwUhYXH/xAAXAQEAAwAAAAAAAAAAAAAAAAAFAgME/8QAIhEAAQMDAwUAAAAAAAAAAAAAAQACEQMEIQVR0RIxocHh/9oADAMBAAIRAxEAPwAnrdVELmUfmN9DR4msy2xdXGDCPsdYZTdNVvUNphH9Xp4sCSAPuNNXS4pXOXqF1km3FNzSWtwB3PA5S9LVCXSMDb6jR1PHRUJP0MaR1IsRsPgZQbthyB4HsylW6m6F/9k=",
        "411": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAANABMDAUEAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAAAAQFBv/EAB0QAQACAgMBAQAAAAAAAAAAAAECEQAEAwUhYXH/xAAWAQEBAQAAAAAAAAAAAAAAAAAGAwT/xAAhEQEAAQMDBQEAAAAAAAAAAAABAwACEQRBUQUSEyFxkf/aAAwDAQACEQMRAD8Ayet1UQuZR+ZX1eniwJIA+4+dTx0VCT9DDIrCWl14q8Ug0GobIwzsP6ZqjoaPE1lTV0uKVzl6hdY/HUixGw+BhmKSWS3HY49Gw7HP2i/S5nxV/9k=",
        "444": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAANABMDAREAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABQQG/8QAHRABAAICAwEBAAAAAAAAAAAAAQIRAAQDBSFhcf/EABcBAAMBAAAAAAAAAAAAAAAAAAMEBQf/xAAlEQABBAECBQUAAAAAAAAAAAABAAIDEQQFExIhYZHRIjFBscH/2gAMAwEAAhEDEQA/AMnrdVELmUfmK7vptM6SDlyGMOqhf15S+r08WBJAH3GxBHtiSQ0FRbkmOQx3dEjsrzqeOioSfoYu5+KDQBPUDyQqbct1e6R0NHiawemniq1lMU7kpq6XFK5y9QusAyQzB08vMgE9vgK7BM4UAr46kWI2HwMCMqdwsOroAP21XbMaX//Z",
        "restarts": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAANABMDASEAAhEBAxEB/8QAGAAAAwEBAAAAAAAAAAAAAAAAAAUGAwT/xAAdEAEAAgIDAQEAAAAAAAAAAAABAhEABAMFIWFx/8QAFwEAAwEAAAAAAAAAAAAAAAAAAwQFBv/EACARAAEDAwUBAAAAAAAAAAAAAAEAAxECBDESIYGR0QX/3QAEAAH/2gAMAwEAAhEDEQA/AJPW6qIXMo/Mb6vTxYEkAfcEyKXCdWAJVKycNDFD05MdL//QxOp46KhJ+hhi5rtgdqSeB6tcLsxlf//R69DR4msaaulxSucvULrERUS02Djc9R6ovz36pX//0q6OpFiNh8DDI4uHzvqjgeJsPGF//9k=",
        "progressive": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wgARCAANABMDASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABQAE/8QAFgEBAQEAAAAAAAAAAAAAAAAAAgMF/9oADAMBAAIQAxAAAAEnWhqkTZqGh//EABkQAAMBAQEAAAAAAAAAAAAAAAABAgMSE//aAAgBAQABBQKcicTyREImEcn/xAAaEQABBQEAAAAAAAAAAAAAAAAAAQMEERQh/9oACAEDAQE/AWJfKNKn/8QAGREAAgMBAAAAAAAAAAAAAAAAAAECERMh/9oACAECAQE/AVLlmqP/xAAUEAEAAAAAAAAAAAAAAAAAAAAg/9oACAEBAAY/Al//xAAaEAEAAgMBAAAAAAAAAAAAAAABABEQIUFh/9oACAEBAAE/IQ7Cq55OMzbA1P/aAAwDAQACAAMAAAAQeA//xAAaEQEAAgMBAAAAAAAAAAAAAAABABEhMUGB/9oACAEDAQE/EASDJ29+Qqn/xAAbEQEAAgIDAAAAAAAAAAAAAAABABEhMaHB0f/aAAgBAgEBPxAwIu+tssyHB7P/xAAZEAEBAQEBAQAAAAAAAAAAAAABEQAhYXH/2gAIAQEAAT8QMUw+ZBQA9xAjehmzVuyFmUGh4G//2Q==",
        "grey": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//wAALCAANABMBAREA/8QAFgABAQEAAAAAAAAAAAAAAAAABQQG/8QAHRABAAICAwEBAAAAAAAAAAAAAQIRAAQDBSFhcf/aAAgBAQAAPwDJ63VRC5lH5i+r08WBJAH3LzqeOioSfoYjoaPE1imrpcUrnL1C6y+OpFiNh8DP/9k=",
        "grey_progressive": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//wgALCAANABMBAREA/8QAFQABAQAAAAAAAAAAAAAAAAAABAX/2gAIAQEAAAABkrQhSP/EABkQAAMBAQEAAAAAAAAAAAAAAAABAgMSE//aAAgBAQABBQKcicTyREImEcn/xAAUEAEAAAAAAAAAAAAAAAAAAAAg/9oACAEBAAY/Al//xAAaEAEAAgMBAAAAAAAAAAAAAAABABEQIUFh/9oACAEBAAE/IQ7Cq55OMzbA1P/aAAgBAQAAABBb/8QAGRABAQEBAQEAAAAAAAAAAAAAAREAIWFx/9oACAEBAAE/EDFMPmQUAPcQI3oZs1bshZlBoeBv/9k=",
        "rgb": "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP/8AAEQgADQATA1IRAEcRAEIRAP/EABsAAAIDAAMAAAAAAAAAAAAAAAYHAAIDAQQF/8QAMBAAAQMCAgcGBwEAAAAAAAAAAQIDBAARBRIGExUhMVGhFDNBQmFxBxYiI2KBkdH/2gAMA1IARwBCAAA/APA0FwjbU1cfX6nVtFzNkzXsQLcRzoPxDCUQWEuuNXBVl5eB/wApfx4yOzh5aMwJtRlAY7NMdj5s2qcUjNa17G163YwEPMNuhuwWkKH7FF0PRaDsxvEJ62o7C0BQUs8bpzWHM2B3DeaK2e6T7Vf5c/DpXDuH6OtrKW4c6QkAWdaYASrd4ZlA+m8UjsF8tNXZUfl0rtfD6I2/qs/jamBgvlqbKj8ulbYWgYmiXjmJ/fdZYU6Gx9KQlIJCE8bD+8bm5vRiz3SfapsqPy6VdqbiUhpDrctqOlSRZpqMgpT7ZgT67zX/2Q==",
        "arithmetic": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//yQARCAANABMDASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwD/AHhxHNuXJlRGuD2v64YwokUOTHJcooD4RY0K/DekRIp8nxME6+7C1ffP2Qu9h+zLF0J3QDqzwpXa69y3oT9sJSO8TwAhTS1kkYPC8uw9HA2sACC2dSarfR0FQOD/2Q==",
        "cmyk": "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP/8AAFAgADQATBEMRAE0RAFkRAEsRAP/EABsAAAICAwEAAAAAAAAAAAAAAAUGAAcBAgME/8QAMBAAAQMCAwQJBAMAAAAAAAAAAQIDBAARBRIhExUxUQYUIjNBQmFxoQcWI2KBkdH/2gAOBEMATQBZAEsAAD8AAdBcI31NXH2+x2bRczZM17EC3Ec6T8QwlEFhLrjVwVZeXgf8qv48ZHVw8tGYE2p9lO8dacoDHVpjsfNm2TikZrWvY2vXdjAQ8w26G7BaQofyKbofRaDuxvEJ62o7C0BQUs8bpzWHM2B0GpoNKd4601s90n2rf7c/T4rDuH9HW1lLcOdISALOtMAJVp4ZlA+mooYp3tHWqOwXy1au6o/L4r1fT6I2/ss/jaj8pZ1qwMF8tTdUfl8V2wtAxNEvHMT/ADussKdDY7KQlIJCE8bD++Nzc3oNKWdacWe6T7VN1R+XxW7U3EpDSHW5bUdKkizTUZBSn2zAn11NDFLOY1//2Q==",
        "exif": "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAANABMDASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABgAF/8QAHRABAAICAwEBAAAAAAAAAAAAAQIRAAQDBSFhcf/EABYBAQEBAAAAAAAAAAAAAAAAAAMEBv/EACIRAQABAgQHAAAAAAAAAAAAAAECABEDBSExBBRBgaHB0f/aAAwDAQACEQMRAD8AJ63VRC5lH5mvq9PFgSQB9xBoaPE1mpq6XFK5y9QusmhihEkl7+t2j4HNhgRDU6337UaOp46KhJ+hljSOpFiNh8DLA5qLqHg+1oDM5Wr/2Q==",
        "cmyk_plain": "/9j/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//wAAUCAANABMEQxEATREAWREASxEA/8QAGwAAAgIDAQAAAAAAAAAAAAAABQYABwECAwT/xAAwEAABAwIDBAkEAwAAAAAAAAABAgMEABEFEiETFTFRBhQiM0FCYXGhBxYjYoGR0f/aAA4EQwBNAFkASwAAPwAB0FwjfU1cfb7HZtFzNkzXsQLcRzpPxDCUQWEuuNXBVl5eB/yq/jxkdXDy0ZgTan2U7x1pygMdWmOx82bZOKRmta9ja9d2MBDzDbobsFpCh/Ipuh9FoO7G8QnrajsLQFBSzxunNYczYHQamg0p3jrTWz3Sfat/tz9PisO4f0dbWUtw50hIAs60wAlWnhmUD6aihine0dao7BfLVq7qj8vivV9Pojb+yz+NqPylnWrAwXy1N1R+XxXbC0DE0S8cxP8AO6ywp0NjspCUgkITxsP743Nzeg0pZ1pxZ7pPtU3VH5fFbtTcSkNIdbltR0qSLNNRkFKfbMCfXU0MUs5jX//Z",
        "ycck": "/9j/7gAOQWRvYmUAZAAAAAAC/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP/8AAFAgADQATBEMRAE0RAFkRAEsRAP/EABsAAAICAwEAAAAAAAAAAAAAAAUGAAcBAgME/8QAMBAAAQMCAwQJBAMAAAAAAAAAAQIDBAARBRIhExUxUQYUIjNBQmFxoQcWI2KBkdH/2gAOBEMATQBZAEsAAD8AAdBcI31NXH2+x2bRczZM17EC3Ec6T8QwlEFhLrjVwVZeXgf8qv48ZHVw8tGYE2p9lO8dacoDHVpjsfNm2TikZrWvY2vXdjAQ8w26G7BaQofyKbofRaDuxvEJ62o7C0BQUs8bpzWHM2B0GpoNKd4601s90n2rf7c/T4rDuH9HW1lLcOdISALOtMAJVp4ZlA+mooYp3tHWqOwXy1au6o/L4r1fT6I2/ss/jaj8pZ1qwMF8tTdUfl8V2wtAxNEvHMT/ADussKdDY7KQlIJCE8bD++Nzc3oNKWdacWe6T7VN1R+XxW7U3EpDSHW5bUdKkizTUZBSn2zAn11NDFLOY1//2Q==",
    }.items()
}
