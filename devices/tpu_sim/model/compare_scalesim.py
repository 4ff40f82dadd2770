# SPDX-License-Identifier: Apache-2.0
"""Cycles of the SCALE-Sim simulator for the topologies in scalesim/, and the table that compares the cycle model with it.

usage: compare_scalesim.py run [--array ROWSxCOLUMNS ...]   needs scalesim 3.0.0 and numpy below 2
       compare_scalesim.py table MODEL_CYCLES               needs Python alone

`run` simulates every layer that scalesim/cycles.csv has not yet, one shape of a layer once, and writes that file after
each. `table` asks the program MODEL_CYCLES (target tpu_sim_cycles) for the model's cycles and prints both side by side.

SCALE-Sim runs weight-stationary with its default buffers and the bandwidth that it needs to never wait (mode CALC);
`compute` is its count of cycles, from the first weight to the last result, beginning at 0.
"""

import argparse
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent / "scalesim"
CYCLES = FOLDER / "cycles.csv"
TOPOLOGIES = ("gemm", "alexnet", "resnet50")
ARRAYS = ("32x32", "128x128")
VERSION = "3.0.0"
FIELDS = ("rows", "columns", "topology", "layer", "m", "n", "k", "compute", "stall")

CONFIGURATION = """[general]
run_name = run
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = 1024
FilterSramSzkB = 1024
OfmapSramSzkB = 1024
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = 10
ReadRequestBuffer = 60
WriteRequestBuffer = 60
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


def topology(name):
    """Pairs (row of the CSV file, (m, n, k) of the layer as a product of matrices)."""
    with open(FOLDER / f"{name}.csv", newline="") as file:
        for row in list(csv.reader(file))[1:]:
            numbers = [int(x) for x in row[1:] if x]
            if name == "gemm":
                yield row, tuple(numbers)
            else:
                height, width, filter_height, filter_width, channels, filters, stride = numbers
                out = -(-(height - filter_height + stride) // stride) * -(-(width - filter_width + stride) // stride)
                yield row, (out, filters, filter_height * filter_width * channels)


def simulate(header, row, is_gemm, rows, columns):
    """(compute, stall) of one layer."""
    from scalesim.scale_sim import scalesim  # pylint: disable=import-outside-toplevel

    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        layout = "Layer name,\n"
        for name, text in (("configuration", CONFIGURATION.format(rows=rows, columns=columns)),
                           ("topology", header + ",".join(row) + "\n"), ("layout", layout)):
            paths[name] = os.path.join(folder, f"{name}.csv")
            pathlib.Path(paths[name]).write_text(text)
        run = scalesim(save_disk_space=True, verbose=False, config=paths["configuration"],
                       topology=paths["topology"], layout=paths["layout"], input_type_gemm=is_gemm)
        run.run_scale(top_path=folder)
        items = run.runner.single_layer_sim_object_list[0].get_compute_report_items()
        return int(items[1]), int(items[2])


def read_cycles():
    if not CYCLES.exists():
        return []
    with open(CYCLES, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write_cycles(entries):
    with open(CYCLES, "w", newline="") as file:
        file.write(f"# Written by compare_scalesim.py: cycles of SCALE-Sim {VERSION}, weight-stationary.\n")
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(entries)


def run(arrays):
    import importlib.metadata  # pylint: disable=import-outside-toplevel

    found = importlib.metadata.version("scalesim")
    if found != VERSION:
        sys.exit(f"scalesim {found} is installed; the figures are those of {VERSION}")
    entries = read_cycles()
    have = {(e["rows"], e["columns"], e["topology"], e["layer"]) for e in entries}
    known = {}  # a layer's cycles follow from its row without the name
    for array in arrays:
        rows, columns = array.split("x")
        for name in TOPOLOGIES:
            header = open(FOLDER / f"{name}.csv").readline()
            for row, (m, n, k) in topology(name):
                if (rows, columns, name, row[0]) in have:
                    continue
                key = (rows, columns, *row[1:])
                if key not in known:
                    known[key] = simulate(header, row, name == "gemm", int(rows), int(columns))
                compute, stall = known[key]
                entries.append(dict(zip(FIELDS, (rows, columns, name, row[0], m, n, k, compute, stall))))
                write_cycles(entries)
                print(f"{array} {name} {row[0]} {m}x{n}x{k}: {compute} cycles, of which {stall} stall", flush=True)


def table(program):
    entries = read_cycles()
    lines = "".join(f"{e['rows']} {e['columns']} {e['m']} {e['n']} {e['k']}\n" for e in entries)
    answer = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.split()
    totals = {}
    print(f"{'array':9} {'topology':9} {'layer':22} {'m':>6} {'n':>5} {'k':>5} {'SCALE-Sim':>10} {'model':>10} {'off':>8}")
    for entry, cycles in zip(entries, answer, strict=True):
        theirs, ours = int(entry["compute"]), int(cycles)
        array = f"{entry['rows']}x{entry['columns']}"
        total = totals.setdefault((array, entry["topology"]), [0, 0, 0.0])
        total[0] += theirs
        total[1] += ours
        total[2] = max(total[2], abs(ours / theirs - 1))
        print(f"{array:9} {entry['topology']:9} {entry['layer']:22} {entry['m']:>6} {entry['n']:>5} {entry['k']:>5} "
              f"{theirs:>10} {ours:>10} {100 * (ours / theirs - 1):>7.3f}%")
    for (array, name), (theirs, ours, worst) in totals.items():
        print(f"{array:9} {name:9} all layers: {theirs} and {ours}, {100 * (ours / theirs - 1):.3f}%; "
              f"the worst layer is {100 * worst:.3f}% off")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--array", action="append")
    commands.add_parser("table").add_argument("program")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.array or ARRAYS)
    else:
        table(arguments.program)


if __name__ == "__main__":
    main()
