#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A deep LSTM over three devices gives the losses of the whole on one, and more work at once takes less of the devices'
time. Covers P3, P4.

usage: deep_lstm_test.py PROGRAM
Times are those of the simulated devices' clock, not of this machine.
"""

import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", done.stdout)]
    times = {
        what.strip(): (float(length), float(busy))
        for what, length, busy in re.findall(r"^(\D+?) +([0-9.]+) us, each device busy +([0-9.]+) %", done.stdout, re.M)
    }
    return losses, times


class DeepLstm(unittest.TestCase):
    def same_losses(self, found, wanted):
        self.assertEqual(len(found), len(wanted))
        self.assertGreater(len(wanted), 8)
        for a, b in zip(found, wanted):
            self.assertAlmostEqual(a, b, delta=1e-3 * b)

    def test_losses_fall_and_are_those_of_one_device(self):
        whole, no_times = run("--devices", "CPU:0")
        self.assertEqual(no_times, {})  # no clock of its own
        self.assertLess(whole[3], 0.6 * whole[0])
        for arguments in ([], ["--compile"], ["--layers", "3", "--devices", "TPU:0"]):
            losses, _ = run(*arguments)
            self.same_losses(losses, whole)
        # What steps at once say is what each says alone.
        self.assertEqual(whole[4:8], whole[8:12])

    def test_at_once_is_less_of_the_devices_time(self):
        for arguments in ([], ["--compile"], ["--layers", "6"]):
            _, times = run("--steps", "1", *arguments)
            for work in "training, microbatches", "steps":
                with self.subTest(work=work, arguments=arguments):
                    self.assertLess(times[work + " at once"][0], times[work + " in a row"][0])

    def test_devices_work_at_the_same_time_within_a_step(self):
        _, times = run("--steps", "1")
        # One device after the other would be a third.
        self.assertGreater(times["steps in a row"][1], 60)
        self.assertGreater(times["training, microbatches at once"][1], 80)

    def test_a_device_that_is_not_there_is_named(self):
        done = subprocess.run([PROGRAM, "--devices", "GPU:7"], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("GPU:7", done.stderr)


if __name__ == "__main__":
    unittest.main()
