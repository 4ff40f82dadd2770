# SPDX-License-Identifier: Apache-2.0
"""What the committed cases cover: their number, and of each op the dtypes and the values of attributes. Needs no
TensorFlow.

coverage.py             a line an op
coverage.py --summary   the sums and the ops without cases alone
"""

import argparse
import collections
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


class Covered:
    """What the cases of one op have."""

    def __init__(self):
        self.cases = self.refused = self.gradients = 0
        self.dtypes = collections.Counter()
        self.attrs = collections.defaultdict(set)

    def add(self, case, defaults):
        self.cases += 1
        self.refused += "error" in case or any("error" in run for run in case.get("runs", []))
        self.gradients += "dx" in case or "gradients" in case
        for tensor in case.get("in", []):
            self.dtypes[tensor[0]] += 1
        if "graph" in case:
            return
        for name, value in {**defaults, **case["attrs"]}.items():
            (kind, found), = value.items()
            if kind in ("type", "types"):
                continue
            self.attrs[name].add(json.dumps(found))


def attr_defaults(signatures):
    """{op: {attr: {kind: default}}} for the attributes that are no types."""
    found = {}
    for signature in signatures:
        found[signature["name"]] = {name: {kind: default} for name, kind, _, default, _ in signature["attrs"]
                                    if default is not None and "type" not in kind}
    return found


def values(found):
    shown = sorted(found, key=lambda text: (len(text), text))
    return "|".join(text[:24] for text in shown[:6]) + (f"|... {len(shown)}" if len(shown) > 6 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    with open(HERE / "signatures.jsonl", encoding="utf-8") as lines:
        signatures = [json.loads(line) for line in lines]
    defaults = attr_defaults(signatures)
    ops, inside = collections.defaultdict(Covered), set()
    for path in sorted((HERE / "cases").glob("*.jsonl")):
        for line in path.open(encoding="ascii"):
            case = json.loads(line)
            ops[case["op"]].add(case, defaults.get(case["op"], {}))
            inside.update(case.get("ops", []))
    if not options.summary:
        for name, op in sorted(ops.items()):
            attrs = "".join(f"; {attr}={values(found)}" for attr, found in sorted(op.attrs.items()))
            print(
                f"{name}: {op.cases} cases, {op.refused} refused, {op.gradients} gradients; {' '.join(sorted(op.dtypes))}{attrs}"
            )
    ours = [signature["name"] for signature in signatures]
    total = sum(op.cases for op in ops.values())
    print(
        f"{total} cases of {len(ops)} ops, {total / max(1, len(ops)):.1f} an op; {sum(op.refused for op in ops.values())} refused, "
        f"{sum(op.gradients for op in ops.values())} with gradients"
    )
    print(
        "without cases of their own, but inside other ops' cases:",
        " ".join(n for n in ours if n not in ops and n in inside) or "none",
    )
    print("without cases:", " ".join(n for n in ours if n not in ops and n not in inside) or "none")


if __name__ == "__main__":
    main()
