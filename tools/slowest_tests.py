#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slowest_tests.py JUNIT.xml [COUNT]: the slowest tests of a run of ctest --output-junit, and how long all of them took
together."""

import sys
import xml.etree.ElementTree as xml


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: slowest_tests.py JUNIT.xml [COUNT]")
    count = int(sys.argv[2]) if len(sys.argv) == 3 else 10
    try:
        cases = xml.parse(sys.argv[1]).getroot().findall("testcase")
    except (OSError, xml.ParseError) as error:
        sys.exit(f"cannot read {sys.argv[1]}: {error}; ctest --output-junit FILE writes such a file")
    times = sorted(((float(case.get("time", 0)), case.get("name")) for case in cases), reverse=True)
    for seconds, name in times[:count]:
        print(f"{seconds:8.1f} s  {name}")
    print(f"{sum(seconds for seconds, _ in times):8.1f} s  all {len(times)} tests, one after the other")


if __name__ == "__main__":
    main()
