#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model learns its text with the whole softmax and with a sampled one, and shards of the weights, also on
parameter servers, change nothing. Covers P9, P10.

usage: language_model_test.py PROGRAM TENON
"""

import math
import re
import subprocess
import sys
import unittest

PROGRAM, TENON = sys.argv.pop(1), sys.argv.pop(1)


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", done.stdout)]
    reached, best = map(float, re.search(r"perplexity ([0-9.]+) .* is ([0-9.]+)", done.stdout).groups())
    return losses, reached, best


class LanguageModel(unittest.TestCase):
    def test_both_come_near_the_best_perplexity(self):
        for softmax in "full", "sampled":
            with self.subTest(softmax=softmax):
                losses, reached, best = run("--softmax", softmax, "--steps", "2000")
                self.assertGreater(reached, 0.95 * best)  # better would be cheating, but for chance
                self.assertLess(reached, 1.35 * best)     # of 200 words
                if softmax == "full":
                    self.assertAlmostEqual(losses[0], math.log(200), places=4)

    def test_shards_give_the_losses_of_the_whole(self):
        whole, reached, _ = run("--steps", "201")
        parted, reached_so, _ = run("--steps", "201", "--shards", "3")
        self.assertEqual(len(whole), len(parted))
        for a, b in zip(whole, parted):
            self.assertAlmostEqual(a, b, delta=1e-4 * a)
        self.assertAlmostEqual(reached, reached_so, delta=1e-3 * reached)

    def test_parameter_servers_give_the_losses_of_one_process(self):
        with subprocess.Popen(
            [TENON, "cluster", "up", "--workers", "1", "--ps", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as cluster:
            try:
                said = next((line for line in cluster.stdout if "--master" in line), None)
                self.assertIsNotNone(said)
                words = said[said.index("--master"):].split()
                for softmax in "full", "sampled":
                    here, _, _ = run("--softmax", softmax, "--steps", "101")
                    there, _, _ = run("--softmax", softmax, "--steps", "101", "--shards", "2", *words)
                    self.assertEqual(len(here), len(there))
                    for a, b in zip(here, there):
                        self.assertAlmostEqual(a, b, delta=1e-4 * a)
            finally:
                cluster.terminate()


if __name__ == "__main__":
    unittest.main()
