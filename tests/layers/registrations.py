# SPDX-License-Identifier: Apache-2.0
"""Ops and kernels register where they stand (sdk/author/plugin/include/tenon/sdk/list.h): what the files of a plugin
define is what it provides.

Of each built plugin: every definition is in a list, every entry of a list is in the plugin's table, and no two kernels
are for the same node with the same priority, so that the order of a list decides nothing.

usage: registrations.py BUILD_FOLDER
"""

import collections
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"(?P<name>.*::k\w+)_in_(?P<list>tenon_\w+)")
DEFINITION = re.compile(r"[\w:]*::k[A-Z]\w*")
KINDS = ("ops", "kernels")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sizes_of_symbols(library):
    sizes = {}
    for line in run("nm", "-C", "-S", "--defined-only", library).splitlines():
        parts = line.split(maxsplit=3)
        if len(parts) == 4 and parts[2] in "bBdDrR":
            sizes[parts[3]] = int(parts[1], 16)
    return sizes


def faults_of_lists(sizes, provides):
    entries = collections.defaultdict(set)
    for match in filter(None, map(ENTRY.fullmatch, sizes)):
        entries[match["list"].rpartition("_")[2]].add(match["name"])  # tenon_cpu_kernels
    listed = set().union(*entries.values())
    sizes_of_definitions = {sizes[name] for name in listed}
    unlisted = sorted(
        name
        for name, size in sizes.items()
        if DEFINITION.fullmatch(name)
        and size in sizes_of_definitions
        and not ENTRY.fullmatch(name)
        and name not in listed
    )
    faults = [
        f"{name} is in no list; define it with TENON_OP, or the TENON_..._KERNEL of its package" for name in unlisted
    ]
    faults += [f"its files define {len(entries[kind])} {kind}, and it provides {len(provides[kind])}"
               for kind in KINDS if len(entries[kind]) != len(provides[kind])]
    return faults


def fit_one_node(a, b):
    """Whether a node may have types that both kernels allow."""
    return all(
        set(a["constraints"][attr]) & set(b["constraints"][attr])
        for attr in a["constraints"].keys() & b["constraints"].keys()
    )


def faults_of_order(kernels):
    rivals = collections.defaultdict(list)
    for kernel in kernels:
        rivals[kernel["op"], kernel["device_type"], kernel["label"], kernel["priority"]].append(kernel)
    return [
        f"two kernels of {op} fit the same node with priority {priority}: {a['constraints']} and {b['constraints']}"
        for (op, _, _, priority), group in rivals.items()
        for a, b in itertools.combinations(group, 2)
        if fit_one_node(a, b)
    ]


def main():
    build = pathlib.Path(sys.argv[1])
    plugins = sorted((build / "lib/tenon/plugins").glob("*.so"))
    faults, counts = [], collections.Counter()
    for plugin in plugins:
        provides = json.loads(run(build / "bin/tenon-manifest", plugin))["provides"]
        with tempfile.NamedTemporaryFile("r") as kernels:
            run(build / "bin/tenon-manifest", plugin, "--kernels", kernels.name)
            named, provides["kernels"] = provides["kernels"], json.load(kernels)
        if set(named) != {kernel["op"] for kernel in provides["kernels"]} or len(named) != len(set(named)):
            faults.append(f"{plugin.name}: its manifest does not name the ops of its kernels, each once")
        found = faults_of_lists(sizes_of_symbols(plugin), provides) + faults_of_order(provides["kernels"])
        faults += [f"{plugin.name}: {fault}" for fault in found]
        counts.update({kind: len(provides[kind]) for kind in KINDS})
    if not counts["ops"] or not counts["kernels"]:
        faults.append(f"{len(plugins)} plugins in {build} provide {counts['ops']} ops and {counts['kernels']} kernels")
    for fault in faults:
        print(fault)
    print(f"{len(plugins)} plugins provide {counts['ops']} ops and {counts['kernels']} kernels")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
