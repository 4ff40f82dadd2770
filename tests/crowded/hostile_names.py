# SPDX-License-Identifier: Apache-2.0
"""Writes the assembly of a library that exports every name of some libraries, each of which ends the process: what a
process is that loaded other versions of them.

usage: hostile_names.py OUTPUT.s NAMES [LIBRARY...]     NAMES: what tools/private_libraries wrote. LIBRARY: more, as far
as they are there.
"""

import pathlib
import subprocess
import sys

SYSTEM = ("libstdc++.so.6", "libc.so.6", "libm.so.6", "libgcc_s.so.1")
OF_THE_LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


def main():
    output, listed, *libraries = sys.argv[1:]
    names = {
        line.split(" ", 1)[1] for line in pathlib.Path(listed).read_text().splitlines() if line.startswith("symbol ")
    }
    for library in libraries:
        names |= exported(library)
    compiler = lambda name: subprocess.run(
        ["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()
    for library in SYSTEM:
        names -= exported(compiler(library))
    names -= OF_THE_LINKER
    lines = [".text"]
    for name in sorted(names):
        lines += [f'.globl "{name}"', f'.type "{name}", @function', f'"{name}":']
    lines += [" jmp abort@PLT", '.section .note.GNU-stack, "", @progbits', ""]
    pathlib.Path(output).write_text("\n".join(lines))
    print(f"{len(names)} names")


if __name__ == "__main__":
    main()
