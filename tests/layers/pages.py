#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How pages and lines look: READMEs are short, lines are narrow, and what a page names is there.

usage: pages.py --lower [ROOT]   writes into wide_lines.txt how many wide lines there are now, where these are fewer

A check returns a list of texts, one for each violation; an empty list is success.
"""

import collections
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path

import ratchet

README_WORDS = 600
WIDEST = 120  # characters of a line
RATCHET = "tests/layers/wide_lines.txt"
# Pages whose tables a program fills, which no other line may be as wide as.
WRITTEN_BY_PROGRAMS = {"tests/requirements.md": "tests/layers/requirements.py",
                       "tests/perf/peers.md": "tests/perf/peers.py"}
CODE = (".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".inc", ".py", ".cmake")
LEFT_OUT = ("build", "__pycache__", ".git", "node_modules")  # folders of a tree that is no clone

FENCE = re.compile(r"^\s*```")
INLINE = re.compile(r"`(?:[^`\n]|\n(?!\n))*`")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:|//")
HEADING = re.compile(r"^#+ +(.*?)\s*$")
NAMED = re.compile(r"(?<![\w./-])((?:[\w.-]+/)+[\w.-]+\.md)\b")


def names(root):
    """Paths of the tree: what git knows or would take, and in a tree that is no clone all but what builds leave. A link
    that leads nowhere and what was removed without git's knowledge are among them."""
    if (root / ".git").exists():
        words = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode == 0:
            return sorted(name for name in set(done.stdout.split("\0")) if name)
    found = []
    for folder, folders, files_here in os.walk(root):
        folders[:] = [each for each in folders if each not in LEFT_OUT]
        found += [(Path(folder) / name).relative_to(root).as_posix() for name in files_here]
    return sorted(found)


def files(root):
    """Of these names the files that can be read."""
    return [name for name in names(root) if (root / name).is_file()]


def lines_of(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace").splitlines()


def pages(root):
    return [path for path in files(root) if path.endswith(".md")]


def is_code(path):
    return path.endswith(CODE) or posixpath.basename(path) == "CMakeLists.txt"


def check_readme_words(tree):
    counts = {path: len(" ".join(lines_of(tree.root, path)).split()) for path in pages(tree.root)
              if posixpath.basename(path) == "README.md"}
    return [f"{path}: {count} words; a README has {README_WORDS} at most: move what is reference to a page of its own"
            for path, count in counts.items() if count > README_WORDS]


def check_page_widths(tree):
    return [f"{path}:{number}: {len(line)} characters; a line of a page has {WIDEST} at most"
            for path in pages(tree.root) if path not in WRITTEN_BY_PROGRAMS
            for number, line in enumerate(lines_of(tree.root, path), 1) if len(line) > WIDEST]


def prose(lines):
    """A page's text without its code, line for line."""
    inside, kept = False, []
    for line in lines:
        fence = FENCE.match(line) is not None
        kept.append("" if inside or fence else line)
        inside = inside != fence
    return INLINE.sub(lambda code: re.sub(r"[^\n]", "x", code.group()), "\n".join(kept))


def anchors(lines):
    """What '#...' may name in a page."""
    found, seen = set(), collections.Counter()
    for line, outside in zip(lines, prose(lines).split("\n")):
        heading = HEADING.match(line) if outside else None
        if heading:
            name = re.sub(r"[^\w\- ]", "", heading.group(1).lower()).replace(" ", "-")
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return found


def links(root):
    """Of each link within the tree the page and line of it, itself, the path that it means, and the anchor."""
    for path in pages(root):
        text = prose(lines_of(root, path))
        for link in LINK.finditer(text):
            target = link.group(1)
            if not ELSEWHERE.match(target):
                name, _, anchor = target.partition("#")
                there = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
                yield path, text.count("\n", 0, link.end()) + 1, target, there, anchor


def check_links(tree):
    problems = []
    for path, number, target, there, anchor in links(tree.root):
        if not (tree.root / there).exists():
            problems.append(f"{path}:{number}: the link {target} leads nowhere")
        elif anchor and there.endswith(".md") and anchor not in anchors(lines_of(tree.root, there)):
            problems.append(f"{path}:{number}: the link {target} names a heading that {there} does not have")
    return problems


def check_symlinks(tree):
    """A link of the file system leads to something of the tree, however the folders were moved."""
    return [f"{name}: this link leads to {os.readlink(tree.root / name)}, where nothing is"
            for name in names(tree.root) if (tree.root / name).is_symlink() and not (tree.root / name).exists()]


def check_found(tree):
    """Every page but READMEs, which folders show, is found from another one."""
    linked = {there for path, _, _, there, _ in links(tree.root) if there != path}
    return [f"{path}: no page links to it; docs/README.md and the room's README do"
            for path in pages(tree.root) if path not in linked and not path.endswith("README.md")]


def check_named_pages(tree):
    """A page that a page or a comment names by its path is there, from the root or from the folder of who names it."""
    problems = []
    for path in files(tree.root):
        if not (path.endswith(".md") or is_code(path)) or path.endswith("_test.py"):
            continue
        for number, line in enumerate(lines_of(tree.root, path), 1):
            for name in NAMED.findall(line):
                beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
                if not ((tree.root / name).exists() or (tree.root / beside).exists()):
                    problems.append(f"{path}:{number}: there is no {name}")
    return problems


def room_of(path):
    """The room whose wide lines a file's are: two folders, of the SDK's wings three."""
    parts = path.split("/")[:-1]
    return "/".join(parts[:3] if parts[:2] in (["sdk", "app"], ["sdk", "author"]) else parts[:2]) or "."


def wide_lines(root):
    """{room: [places]} of the lines of code that are too wide."""
    found = collections.defaultdict(list)
    for path in filter(is_code, files(root)):
        found[room_of(path)] += [f"{path}:{number}" for number, line in enumerate(lines_of(root, path), 1)
                                 if len(line) > WIDEST]
    return {room: places for room, places in found.items() if places}


def numbers(root):
    return {room: len(places) for room, places in wide_lines(root).items()}


def check_wide_lines(tree):
    """Wide lines become fewer, never more. A room that wide_lines.txt does not name has none."""
    found = wide_lines(tree.root)
    return [f"{room}: {number} lines of code are wider than {WIDEST} characters, and {RATCHET} allows {most}: break "
            f"those that are new (git diff shows them); the last is {found[room][-1]}"
            for room, number, most in ratchet.grown(tree.root, RATCHET, numbers(tree.root))]


def fewer(tree):
    """What a reader of the test is told where the numbers could be lowered."""
    return [f"{room}: {number} wide lines, {most} are allowed: tests/layers/pages.py --lower"
            for room, number, most in ratchet.fallen(tree.root, RATCHET, numbers(tree.root))]


def lower(root):
    ratchet.lower(root, RATCHET, numbers(root))


CHECKS = (check_readme_words, check_page_widths, check_links, check_symlinks, check_found, check_named_pages,
          check_wide_lines)


if __name__ == "__main__":
    ratchet.command(sys.argv[1:], __doc__, RATCHET, numbers)
