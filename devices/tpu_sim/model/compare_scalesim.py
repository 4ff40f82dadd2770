# SPDX-License-Identifier: Apache-2.0
"""Cycles of the SCALE-Sim simulator for the topologies in scalesim/, and the table that compares the cycle model with
it.

usage: compare_scalesim.py run [--array ROWSxCOLUMNS ...]   needs scalesim 3.0.0 and numpy below 2
       compare_scalesim.py table MODEL_CYCLES               needs Python alone

`run` simulates every layer that scalesim/cycles.csv has not yet, one shape of a layer once, and writes that file after
each. `table` asks the program MODEL_CYCLES (target tpu_sim_cycles) for the model's cycles and prints both side by side.

SCALE-Sim runs weight-stationary, with buffers of 1 MiB and the bandwidth that it needs to never wait (mode CALC);
`compute` is the number of its last cycle, from 0 on. With a given bandwidth (mode USER) there is nothing to compare: it
fetches all operands that fit before cycle 0, and adds a wait for a prefetch twice (read_buffer.service_reads).
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


def whole_windows():
    """m of each convolution without the windows that the image's edge cuts."""
    out = {}
    for name in TOPOLOGIES:
        for row, (m, _, _) in topology(name):
            if name != "gemm":
                height, width, filter_height, filter_width, _, _, stride = (int(x) for x in row[1:] if x)
                m = ((height - filter_height) // stride + 1) * ((width - filter_width) // stride + 1)
            out[name, row[0]] = m
    return out


def table(program):
    entries, windows = read_cycles(), whole_windows()
    lines = "".join(f"{e['rows']} {e['columns']} {m} {e['n']} {e['k']}\n" for e in entries
                    for m in (e["m"], windows[e["topology"], e["layer"]]))
    answer = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.split()
    totals = {}
    print(
        "same product: of the size that SCALE-Sim computes; same layer: of the whole windows (scalesim/differences.csv)"
    )
    print(f"{'array':8} {'topology':9} {'layer':22} {'m':>6} {'n':>5} {'k':>5} {'SCALE-Sim':>10} {'same product':>21} "
          f"{'same layer':>21}")
    for entry, product, layer in zip(entries, answer[::2], answer[1::2], strict=True):
        cycles = [int(entry["compute"]), int(product), int(layer)]
        off = [100 * (c / cycles[0] - 1) for c in cycles]
        array = f"{entry['rows']}x{entry['columns']}"
        total = totals.setdefault((array, entry["topology"]), [[0, 0, 0], [0, 0, 0]])
        for i in range(3):
            total[0][i] += cycles[i]
            total[1][i] = max(total[1][i], abs(off[i]))
        print(f"{array:8} {entry['topology']:9} {entry['layer']:22} {entry['m']:>6} {entry['n']:>5} {entry['k']:>5} "
              f"{cycles[0]:>10} {cycles[1]:>10} {off[1]:>+9.3f}% {cycles[2]:>10} {off[2]:>+9.3f}%")
    for (array, name), (cycles, worst) in totals.items():
        print(
            f"{array:8} {name:9} in all: {cycles[0]}, {cycles[1]} ({100 * (cycles[1] / cycles[0] - 1):+.3f}%, the worst layer "
            f"{worst[1]:.3f}%), {cycles[2]} ({100 * (cycles[2] / cycles[0] - 1):+.3f}%, the worst {worst[2]:.3f}%)"
        )


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
