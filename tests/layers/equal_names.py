# SPDX-License-Identifier: Apache-2.0
"""Equal names of two files that one library is made of, in namespaces without a name.

Batches of files are compiled as one where that is quicker (CMAKE_UNITY_BUILD): there, such names meet, and functions
of one name with other parameters too, where one is a template's argument. A person who searches for one finds two
things. The same alias may stand twice: the compiler refuses two that differ.
"""

import re

# Programs and plugins of one file each, and what is never compiled in batches.
ALONE = ("sdk/examples/", "sdk/author/templates/", "tests/", "devices/gpu/", "devices/cuda/", "devices/rocm/",
         "sdk/app/python/")

STRIPPED = re.compile(
    r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
    re.DOTALL | re.MULTILINE,
)
TEMPLATE = re.compile(r"^template ?<.*?>(?= ?(?:struct|class|using|inline|constexpr|static|auto|void|bool|[A-Za-z]))")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (?:alignas\([^)]*\) )?(\w+)")
ENTRY = re.compile(r"TENON_(?:OP|KERNEL)\((\w+)\)")
MACROS = (
    "TEST",
    "TEST_P",
    "TEST_F",
    "TYPED_TEST",
    "INSTANTIATE_TEST_SUITE_P",
    "GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST",
    "PrintTo",
)


def statements(text, is_header):
    """(namespaces, declaration): of a header all that stands in a namespace, of another file what is its own, in a
    namespace without a name."""
    text = STRIPPED.sub(lambda match: '""' if '"' in match.group() else " ", text)
    scopes, start = [], 0
    for match in re.finditer("[{};]", text):
        declaration = " ".join(text[start:match.start()].split())
        start = match.end()
        at_namespace = all(scope is not None for scope in scopes)
        counts = is_header or "" in scopes or declaration.startswith("static ") or ENTRY.match(declaration)
        if match.group() != "}" and at_namespace and counts and declaration and not declaration.startswith("namespace"):
            yield "::".join(scope for scope in scopes if scope), declaration
        if match.group() == "{":
            opened = re.search(r'(?:^|\s)(?:namespace(?:\s+([\w:]+))?|extern "")$', " ".join(declaration.split()))
            scopes.append(
                None if not opened else opened.group(1) or ("" if "namespace" in opened.group() else "extern")
            )
        elif match.group() == "}" and scopes:
            scopes.pop()


def named(declaration):
    """The names that a declaration makes."""
    text = TEMPLATE.sub("", declaration).strip()
    if match := re.match(r"using (\w+) ?=", text):
        return [match.group(1)]
    if text.startswith(("using ", "static_assert", "friend ", "typedef ")):
        return []
    if match := ENTRY.match(text) or TYPE.match(text):
        return [match.group(1)]
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">" and text[i - 1] != "-")
        if depth > 0 or letter not in "=([{" and i < len(text) - 1:
            continue
        before = (text[:i] if letter in "=([{" else text).rstrip()
        name = re.search(r"(\w+)$", before)
        if (
            not name
            or before[: name.start()].endswith("::")
            or name.group(1) in MACROS
            or name.group(1).isdigit()
            or " " not in before
        ):
            return []
        others = re.findall(r", (k[A-Z]\w*)(?:\[\w*\])? =", text) if letter in "=[" else []
        return [name.group(1), *others]
    return []


def is_function(declaration):
    return "(" in declaration.split("=")[0] and not TYPE.match(TEMPLATE.sub("", declaration).strip())


def equal_names(files):
    """files: {path: text} of one library. [(name, [paths])] of what several of them define; of headers types and
    constants, since functions are overloaded there."""
    found = {}
    for path, text in files.items():
        for scope, declaration in statements(text, path.endswith(".h")):
            for name in named(declaration) if not (path.endswith(".h") and is_function(declaration)) else ():
                found.setdefault((scope, name), {})[path] = declaration if declaration.startswith("using ") else path
    return sorted((name, sorted(said)) for (_, name), said in found.items()
                  if len(set(said.values())) > 1 and not all(path.endswith(".h") for path in said))
