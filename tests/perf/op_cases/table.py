# SPDX-License-Identifier: Apache-2.0
"""The results: a file of rows, and the tables made of it."""
import math
import re

from .inputs import SIZES
from .reasons import REASONS

LEAST = 0.9  # a ratio below has a reason


class Results:
    """Rows of (case, size, threads): us of Tenon's and of TensorFlow's. They lie in ops.tsv after each change."""

    def __init__(self, folder):
        self.folder, self.path, self.rows = folder, folder / "ops.tsv", {}
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            name, size, threads, mine, theirs = line.split("\t")
            self.rows[name, size, int(threads)] = float(mine), float(theirs)

    def has(self, name, size, threads):
        return (name, size, threads) in self.rows

    def ratio(self, name, size, threads):
        """TensorFlow's time over Tenon's; infinite where nothing is known."""
        mine, theirs = self.rows.get((name, size, threads), (1.0, math.inf))
        return theirs / mine

    def keep(self, name, size, threads, mine, theirs):
        self.rows[name, size, threads] = mine, theirs
        self.path.write_text("".join(f"{n}\t{s}\t{t}\t{m:.4g}\t{o:.4g}\n" for (n, s, t), (m, o) in self.rows.items()))

    def write(self, failed):
        """Writes ops.md, and gives back its lines."""
        ops = {key: theirs / mine for key, (mine, theirs) in self.rows.items() if key[0] != "(a step)"}
        lines = ["| threads | size | cases | geometric mean | below 0.9 |", "| --- | --- | --- | --- | --- |"]
        for threads in sorted({key[2] for key in ops}):
            for size in SIZES:
                lines += row(threads, size, [ratio for key, ratio in ops.items() if key[1:] == (size, threads)])
        lines += row("all", "all", list(ops.values()))
        lines += [
            "",
            "| case | size | threads | Tenon, us | TensorFlow, us | ratio |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for key in sorted(self.rows, key=lambda key: self.ratio(*key)):
            mine, theirs = self.rows[key]
            lines.append(f"| {key[0]} | {key[1]} | {key[2]} | {mine:.3g} | {theirs:.3g} | {theirs / mine:.2f} |")
        lines += [f"\n{name}, {size}: {why}" for name, size, why in failed]
        (self.folder / "ops.md").write_text("\n".join(lines) + "\n")
        return lines

    def write_page(self, path):
        """The page that is committed: a line for each case with its ratios by size and threads, and why one is low.
        Gives back the cases that say nothing of it."""
        columns = [(size, threads) for threads in sorted({key[2] for key in self.rows}) for size in SIZES]
        lines, silent = [
            "case\t" + "\t".join(f"{size} {threads}" for size, threads in columns) + "\twhy one is below 0.9"
        ], []
        for name in sorted({key[0] for key in self.rows}):
            ratios = [self.ratio(name, *column) for column in columns]
            low = any(ratio < LEAST for ratio in ratios)
            why = (
                next((reason for pattern, reason in REASONS.items() if re.fullmatch(pattern, name)), "") if low else ""
            )
            if low and not why:
                silent.append(name)
            lines.append(
                name + "\t" + "\t".join("" if ratio == math.inf else f"{ratio:.2f}" for ratio in ratios) + f"\t{why}"
            )
        path.write_text("\n".join(lines) + "\n")
        return silent


def row(threads, size, ratios):
    if not ratios:
        return []
    return [
        f"| {threads} | {size} | {len(ratios)} | {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} | {sum(ratio < LEAST for ratio in ratios)} |"
    ]
