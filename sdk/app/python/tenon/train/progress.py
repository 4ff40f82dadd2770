# SPDX-License-Identifier: Apache-2.0
"""How far a training loop is, for people."""

import sys
import time


def _time(seconds):
    seconds = int(seconds)
    return (
        f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if seconds >= 3600
        else f"{seconds // 60}:{seconds % 60:02}"
    )


class Progress:
    """For a Trainer's on_step: one line that changes, in terminals and notebooks; elsewhere a line for each tenth of
    the steps. `file`: instead of standard output; `seconds`: between two changes of the line.

        trainer = tenon.train.Trainer(..., on_step=tenon.train.Progress())
    """

    _PLAIN = ("step", "steps", "loss", "examples_per_second", "seconds_left")

    def __init__(self, file=None, seconds: float = 0.2):
        self._file, self._seconds = file, seconds
        self._next, self._width = 0.0, 0

    def _text(self, report):
        step, steps = report["step"], report["steps"]
        parts = [f"step {step:,} of {steps:,}", f"{step / steps:.0%}" if steps else "", f"loss {report['loss']:.4g}"]
        parts += [f"{name} {value:.4g}" for name, value in report.items() if name not in self._PLAIN]
        if report["examples_per_second"] > 0:
            parts.append(f"{report['examples_per_second']:,.0f} examples/s")
        if step < steps:
            parts.append(f"{_time(report['seconds_left'])} left")
        return "  ".join(part for part in parts if part)

    def __call__(self, report):
        file = self._file or sys.stdout
        step, steps = report["step"], report["steps"]
        last = step >= steps
        if file.isatty() or (self._file is None and "ipykernel" in sys.modules):
            now = time.monotonic()
            if now < self._next and not last:
                return
            self._next = now + self._seconds
            text = self._text(report)
            file.write("\r" + text.ljust(self._width) + ("\n" if last else ""))
            self._width = len(text)
            file.flush()
        elif last or step * 10 // max(steps, 1) != (step - 1) * 10 // max(steps, 1):
            print(self._text(report), file=file, flush=True)
