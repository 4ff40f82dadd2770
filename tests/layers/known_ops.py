#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What passes, compilers and trainers know of ops by name.

An op says of itself what it does to elements ("Properties" in tenon/op.h), so that one of a stranger's gets what ours
get. Where names stand all the same, they are counted, file by file: known_ops.txt has the numbers, which may fall and
never grow. Not counted are definitions, registrations of kernels, and what builds a node of an op.

usage: known_ops.py --lower [ROOT]   writes into known_ops.txt how many names there are now, where these are fewer
"""

import re
import sys

import ratchet

RATCHET = "tests/layers/known_ops.txt"
# Who rewrites graphs, or asks what they do: whole folders, and files.
KNOWERS = ("core/", "passes/", "ops/collective/p", "devices/cpu_codegen/", "devices/cpu_onednn/",
           "devices/gpu/fuse/", "devices/tpu_sim/", "sdk/author/plugin/include/", "sdk/author/extras/include/",
           "sdk/app/train/", "sdk/app/model/", "sdk/app/host/")
# What builds a node of an op, or registers a kernel of one.
BUILDS = re.compile(r"(?:\b(?:Op|Node|AddNode|On|CpuKernel|OneDnnKernel|Kernel|Registration|SimKernel|\w*Kernel\w*)"
                    r"(?:<[^;{}]*?>)?\(\s*|TENON_\w*(?:KERNEL|OP)\w*\([^;]*?)\"([^\"\n]*)\"", re.DOTALL)
LITERAL = re.compile(r"\"([A-Za-z_][\w>]*)\"")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def named(text, ops):
    """The names of ops that stand in a source, but for those by which it builds or registers."""
    text = COMMENT.sub("", text)
    text = BUILDS.sub(lambda match: match.group().replace('"' + match.group(1) + '"', ""), text)
    return [match.group(1) for match in LITERAL.finditer(text) if match.group(1) in ops]


def counts(tree, ops, is_test):
    found = {}
    for source, text in tree.sources.items():
        if source.startswith(KNOWERS) and not is_test(source) and "/testing/" not in source:
            number = len(named(text, ops))
            if number:
                found[source] = number
    return found


def problems(root, found):
    return [f"{source}: names {number} ops, and {RATCHET} allows {most}: ask for a property of theirs (Properties() of "
            "tenon/sdk/node.h), and give one to ops that lack it"
            for source, number, most in sorted(ratchet.grown(root, RATCHET, found))]


def fewer(root, found):
    """What a reader of the test is told where the numbers could be lowered."""
    return [f"{source}: names {number} ops, {most} are allowed: tests/layers/known_ops.py --lower"
            for source, number, most in ratchet.fallen(root, RATCHET, found)]


def main(arguments):
    import layers
    ratchet.command(arguments, __doc__, RATCHET, lambda root: layers.known_op_counts(layers.Tree(root)))


if __name__ == "__main__":
    main(sys.argv[1:])
