#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The headers as a later minor version may have them: longer_headers.py INCLUDE rewrites INCLUDE/tenon in place.

Every struct that may grow gets members at its end, and the layout hashes stay, as they do from 1.0 on. What is built
against these headers has longer structs than the host, and a host that is built against them longer ones than a plugin;
either must work with the other as before.
"""

import re
import sys
from pathlib import Path

GROWING = re.compile(r"(typedef struct (\w+) \{\s*uint32_t struct_size;.*?)(\n\} \2;)", re.DOTALL)


def main():
    count = 0
    for header in sorted(Path(sys.argv[1], "tenon").rglob("*.h")):
        text = header.read_text(encoding="utf-8")
        longer, found = GROWING.subn(r"\1\n  uint64_t appended_later[3];\3", text)
        count += found
        header.write_text(longer, encoding="utf-8")
    if count < 30:
        sys.exit(f"{count} structs that may grow were found; the headers are not as this script knows them")


if __name__ == "__main__":
    main()
