# SPDX-License-Identifier: Apache-2.0
"""What the device code of devices/gpu/code became: kernels, registers, spills and bytes by file and architecture.

    report.py FOLDER [--most-spilled BYTES]     FOLDER: the build's devices/cuda/images

Reads what ptxas said (-Xptxas -v) when the images were made. With --most-spilled it fails, and names the kernels, when one
spills more bytes to local memory than that.
"""

import argparse
import re
import sys
from pathlib import Path

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def kernels(log):
    """(name, architecture, registers, spilled bytes) of each kernel of a log."""
    name = architecture = None
    spilled = 0
    for line in log.splitlines():
        if match := ENTRY.search(line):
            name, architecture = match.groups()
        elif match := SPILL.search(line):
            spilled = int(match.group(2)) + int(match.group(3))
        elif (match := USED.search(line)) and name is not None:
            yield name, architecture, int(match.group(1)), spilled
            name, spilled = None, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most-spilled", type=int)
    arguments = parser.parse_args()
    logs = sorted(arguments.folder.glob("*.fatbin.log"))
    if not logs:
        sys.exit(f"{arguments.folder} has no logs of nvcc (*.fatbin.log)")
    print(f"{'file':<16}{'architecture':<14}{'kernels':>8}{'registers, most':>17}{'mean':>7}{'spilling':>10}{'bytes':>12}")
    too_much = []
    for log in logs:
        image = log.with_suffix("")
        if not image.exists():
            continue  # it did not compile, or compiles just now
        size = image.stat().st_size
        by_architecture = {}
        for name, architecture, registers, spilled in kernels(log.read_text()):
            by_architecture.setdefault(architecture, []).append((registers, spilled))
            if arguments.most_spilled is not None and spilled > arguments.most_spilled:
                too_much.append(f"{name} ({architecture}): {spilled} bytes, {registers} registers")
        for architecture, found in sorted(by_architecture.items()):
            registers = [each[0] for each in found]
            spilling = sum(1 for each in found if each[1] > 0)
            print(f"{log.name.split('.')[0]:<16}{architecture:<14}{len(found):>8}{max(registers):>17}{sum(registers) / len(found):>7.1f}"
                  f"{spilling:>10}{size:>12}")
            size = 0  # the image is of all architectures; its bytes stand in the first line
    if too_much:
        sys.exit("kernels that spill more than %d bytes:\n  %s" % (arguments.most_spilled, "\n  ".join(too_much)))


if __name__ == "__main__":
    main()
