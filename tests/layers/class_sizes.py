# SPDX-License-Identifier: Apache-2.0
"""How many methods a class declares: at most thirty, so that a person can hold it. What has more stands in
class_sizes.txt, whose numbers may fall and never grow.

usage: class_sizes.py --lower [ROOT]   writes into class_sizes.txt how many there are now, where these are fewer

Counted is every function that stands in a class's body: constructors, operators and what is deleted too, but not what
is in the classes within it, which are counted by themselves. Tables of a vendor's functions are no classes.
"""

import re
import sys

import ratchet

RATCHET = "tests/layers/class_sizes.txt"
MOST = 30
TABLES = {"devices/cuda/api.h CudaApi", "devices/rocm/api.h HipApi"}

STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
HEAD = re.compile(r"\b(?:class|struct)\s+(\w+)\s*(?:final\s*)?(?::[^;{()]*)?\{")
LABEL = re.compile(r"\b(?:public|private|protected)\s*:")
TEMPLATE = re.compile(r"^template\s*<[^;]*?>\s*(?=[\w:~])")
NO_FUNCTION = ("using ", "friend ", "typedef ", "enum ", "static_assert", "class ", "struct ")
FUNCTION = re.compile(r"(?:~?\w+|operator\s*\S+)\s*\(")
POINTER = re.compile(r"\(\s*\*")  # a member that points to a function


def bodies(text):
    """(name, body) of each class, those within others too."""
    for match in HEAD.finditer(text):
        depth = 0
        for at in range(match.end() - 1, len(text)):
            depth += (text[at] == "{") - (text[at] == "}")
            if depth == 0:
                yield match.group(1), text[match.end():at]
                break


def outermost(body):
    """A body with each block in it as one statement's end."""
    kept, depth = [], 0
    for character in body:
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            kept.append(";" if depth == 0 else "")
        elif depth == 0:
            kept.append(character)
    return LABEL.sub(";", "".join(kept))


def methods(body):
    count = 0
    for statement in outermost(body).split(";"):
        statement = TEMPLATE.sub("", statement.strip())
        head = statement if "operator" in statement else statement.split("=")[0]
        if not statement.startswith(NO_FUNCTION) and FUNCTION.search(head) and not POINTER.search(head):
            count += 1
    return count


def large(tree, is_test):
    """{"file class": methods} of the classes that have too many."""
    found = {}
    for source, text in tree.sources.items():
        if is_test(source) or source.startswith("tests/"):
            continue
        for name, body in bodies(DIRECTIVE.sub("", STRING.sub('""', text))):
            number = methods(body)
            if number > MOST and f"{source} {name}" not in TABLES:
                found[f"{source} {name}"] = number
    return found


def problems(root, found):
    return [f"{name} has {number} methods; {RATCHET} allows {most or MOST}: divide it by its nouns"
            for name, number, most in sorted(ratchet.grown(root, RATCHET, found))]


def fewer(root, found):
    """What a reader of the test is told where the numbers could be lowered."""
    return [f"{name} has {number or 'no more than ' + str(MOST)} methods, {most} are allowed: "
            "tests/layers/class_sizes.py --lower" for name, number, most in ratchet.fallen(root, RATCHET, found)]


def main(arguments):
    import layers
    ratchet.command(arguments, __doc__, RATCHET, lambda root: layers.class_sizes_of(layers.Tree(root)))


if __name__ == "__main__":
    main(sys.argv[1:])
