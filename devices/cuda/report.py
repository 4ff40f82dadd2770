# SPDX-License-Identifier: Apache-2.0
"""What the device code of devices/gpu/code became: kernels, registers, spills and bytes by file and architecture.

    report.py FOLDER [--table FILE] [--spilling FILE --release 13.0] [--cuobjdump PROGRAM]     FOLDER: the build's
    devices/cuda/images

Reads what ptxas said (-Xptxas -v) when the images were made. --table: registers and spilled bytes of every kernel, a
line each, go into FILE. With --spilling it fails, and names the kernels, where one spills to local memory that FILE
does not name, and where one that it names spills no more; the file is of one release of the toolkit, with another (77)
nothing is compared. With --cuobjdump the registers are the machine code's own, and have to be those that ptxas told.
"""

import argparse
import re
import subprocess
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


def in_machine_code(cuobjdump, image):
    """{(name, architecture): registers} of an image."""
    said = subprocess.run([cuobjdump, "-res-usage", image], capture_output=True, text=True, check=True).stdout
    found, architecture, name = {}, None, None
    for line in said.splitlines():
        if match := re.match(r"arch = (sm_\w+)", line):
            architecture = match.group(1)
        elif match := re.match(r"\s*Function (\w+):", line):
            name = match.group(1)
        elif (match := re.search(r"REG:(\d+)", line)) and name is not None:
            found[name, architecture] = int(match.group(1))
            name = None
    return found


def compare_spills(spilling, file, release):
    lines = [line.split("#")[0].split() for line in file.read_text().splitlines()]
    lines = [line for line in lines if line]
    if lines[0] != ["release", release]:
        print(f"{file} is of {' '.join(lines[0])}, the toolkit is {release}: spills are not compared")
        sys.exit(77)
    named = {tuple(line) for line in lines[1:]}
    new, gone = sorted(spilling.keys() - named), sorted(named - spilling.keys())
    problems = [
        f"{name} ({architecture}) spills {spilling[name, architecture]} bytes and is not named in {file.name}"
        for name, architecture in new
    ]
    problems += [
        f"{name} ({architecture}) spills nothing any more: take it out of {file.name}" for name, architecture in gone
    ]
    if problems:
        sys.exit("\n".join(problems))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--spilling", type=Path)
    parser.add_argument("--release", default="")
    parser.add_argument("--cuobjdump")
    arguments = parser.parse_args()
    logs = sorted(arguments.folder.glob("*.fatbin.log"))
    if not logs:
        sys.exit(f"{arguments.folder} has no logs of nvcc (*.fatbin.log)")
    print(
        f"{'file':<16}{'architecture':<14}{'kernels':>8}{'registers, most':>17}{'mean':>7}{'spilling':>10}{'bytes':>12}"
    )
    table, spilling = [], {}
    for log in logs:
        image = log.with_suffix("")
        if not image.exists():
            continue  # it did not compile, or compiles just now
        size = image.stat().st_size
        own = in_machine_code(arguments.cuobjdump, image) if arguments.cuobjdump else None
        by_architecture = {}
        for name, architecture, registers, spilled in kernels(log.read_text()):
            by_architecture.setdefault(architecture, []).append((registers, spilled))
            table.append((log.name.split(".")[0], name, architecture, str(registers), str(spilled)))
            if spilled:
                spilling[name, architecture] = spilled
            if own is not None and own.get((name, architecture)) != registers:
                sys.exit(
                    f"{image.name}: {name} ({architecture}) has {own.get((name, architecture))} registers in the machine code, ptxas told of {registers}"
                )
        for architecture, found in sorted(by_architecture.items()):
            registers = [each[0] for each in found]
            print(
                f"{log.name.split('.')[0]:<16}{architecture:<14}{len(found):>8}{max(registers):>17}{sum(registers) / len(found):>7.1f}"
                f"{sum(1 for each in found if each[1] > 0):>10}{size:>12}"
            )
            size = 0  # the image is of all architectures; its bytes stand in the first line
    if arguments.table:
        arguments.table.write_text(
            "file\tkernel\tarchitecture\tregisters\tspilled bytes\n"
            + "".join("\t".join(row) + "\n" for row in sorted(table))
        )
    if arguments.spilling:
        compare_spills(spilling, arguments.spilling, arguments.release)


if __name__ == "__main__":
    main()
