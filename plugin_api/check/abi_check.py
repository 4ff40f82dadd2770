#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guards the plugin ABI: headers that stand alone, tags on every function, and a layout that changes knowingly.

  abi_check.py                     checks the headers and compares their layout with layout.txt
  abi_check.py --update --why TEXT rewrites layout.txt and include/tenon/layout_hash.h after a wanted change, and notes
  it in changes.txt abi_check.py --append-only OLD   says whether layout.txt grew from the snapshot OLD by appending
  alone (binds from 1.0)

The snapshot lists each struct's size and alignment, each member's offset, size and type, each function with its tags
and the types of its parameters, whose names do not count, and each constant. While the major version is 0 host and
plugin compare hashes: one of the handshake, one of each capability that a plugin brings, one of each extension. Each is
of the headers that it includes, so that what changes in one of them refuses its own users alone. What is for
applications is in the snapshot and in no hash.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOM = Path(__file__).resolve().parents[1]
DRAFT = "tenon/ext/draft/"
HASH_HEADER = "tenon/layout_hash.h"
DRAFT_HASH_HEADER = (
    DRAFT + "layout_hash.h"
)  # that only the drafts themselves include: a change of one builds nothing else anew
HASH_HEADERS = (HASH_HEADER, DRAFT_HASH_HEADER)
# For applications, not plugins: compiled here, and versioned apart.
APPLICATION = ("tenon/app.h", "tenon/session_options.h", "tenon/dlpack.h", "tenon/model.h", "tenon/train.h")
TAGGED_APPLICATION = ("tenon/model.h", "tenon/train.h")  # app.h is older than its tags
# The headers that speak of each hash, with all that they include. What every plugin has to do with is the handshake's.
HANDSHAKE = ("tenon/abi.h", "tenon/status.h")
CAPABILITIES = {
    "OPS": "tenon/op.h",
    "GRADIENTS": "tenon/op.h",
    "KERNELS": "tenon/kernel.h",
    "DEVICE": "tenon/device.h",
    "COMPILER": DRAFT + "compile.h",
    "TRANSPORT": DRAFT + "transport.h",
    "COLLECTIVE": DRAFT + "collective.h",
    "PLACER": DRAFT + "place.h",
    "FILESYSTEM": DRAFT + "filesystem.h",
}
DRAFT_CAPABILITIES = {
    "GRAPH_PASS": DRAFT + "graph_pass.h",
    "DEVICE_COPY": DRAFT + "device_copy.h",
    "LOOP_COMPILER": DRAFT + "compile_loop.h",
    "VARIANTS": DRAFT + "variant.h",
}
EXTENSIONS = {
    "FILES": "tenon/ext/files.h",
    "NATIVE_HANDLE": DRAFT + "native_handle.h",
    "GRAPH_CAPTURE": DRAFT + "capture.h",
    "PROFILE": DRAFT + "profile.h",
    "TILE": DRAFT + "tile.h",
}
WARNINGS = ("-Wall", "-Wextra", "-Wpadded", "-Werror", "-fsyntax-only")
COMPILERS = (("gcc", "-xc", "-std=c11"), ("g++", "-xc++", "-std=c++20"),
             ("clang", "-xc", "-std=c11"), ("clang++", "-xc++", "-std=c++20"))
FORBIDDEN = re.compile(r"\b(bool|_Bool|enum|long|short|size_t|ssize_t|wchar_t|intptr_t|uintptr_t|union)\b")
THREADS = ("any", "loader", "step", "callback")
HASH_NAME = re.compile(r"TENON_(?:LAYOUT_HASH|HASH_\w+|TEXT_\w+)$")
GROWS = "TENON_ABI_MINOR"  # the one constant whose value may change within a major version


class Problem(Exception):
    """A header that this script cannot read."""


@dataclass
class Struct:
    name: str
    members: list = field(default_factory=list)  # (name, type: its declaration without names of parameters, with tags)
    frozen: bool = False


@dataclass
class Header:
    path: str
    text: str  # without comments
    includes: list = field(default_factory=list)  # of these headers
    structs: list = field(default_factory=list)
    functions: dict = field(default_factory=dict)  # name of a function or of a type of functions -> as a member's type
    constants: list = field(default_factory=list)
    macros: dict = field(default_factory=dict)  # function-like -> text


def includes(room=ROOM):
    """The folders of headers: plugins', and where it is there applications'."""
    return [folder for folder in (room / "include", room.parent / "sdk/app/c/include") if folder.is_dir()]


def header_paths(folders):
    return sorted(p.relative_to(folder).as_posix() for folder in folders for p in folder.rglob("*.h"))


def find(folders, path):
    return next(folder / path for folder in folders if (folder / path).is_file())


def flags(folders):
    return [f"-I{folder}" for folder in folders]


# ---- Compiling ----

def check_compiles(folders):
    """Each header alone, as C11 and as C++20."""
    problems = []
    compilers = [c for c in COMPILERS if shutil.which(c[0])]
    if not compilers:
        return ["no C compiler was found (gcc or clang); install g++"]
    for path in header_paths(folders):
        for compiler in compilers:
            done = subprocess.run([*compiler, *WARNINGS, *flags(folders), "-"], input=f'#include "{path}"\n',
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                problems.append(f"{path}: {' '.join(compiler)}:\n{done.stderr}")
    return problems


# ---- Reading ----

def without_comments(text):
    # A text may hold "//".
    return re.sub(
        r'("(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*', lambda found: found.group(1) or " ", text, flags=re.DOTALL
    )


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def without_tags(text):
    """Takes TENON_THREAD(...), TENON_OWN(...) and TENON_NULLABLE(...) away; their arguments may hold one level of
    parentheses."""
    return squeeze(re.sub(r"\bTENON_(?:THREAD|OWN|NULLABLE)\s*\((?:[^()]|\([^()]*\))*\)", " ", text))


def body_end(text, begin):
    depth = 0
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise Problem("a brace is never closed")


def statements(text):
    """Splits at semicolons outside parentheses and braces."""
    depth, begin = 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(c, 0)
        if c == ";" and depth == 0:
            yield text[begin:i]
            begin = i + 1
    if text[begin:].strip():
        raise Problem(f"no semicolon after: {squeeze(text[begin:])[:80]}")


FUNCTION_POINTER = re.compile(r"\(\s*\*\s*(\w+)\s*\)\s*\(")
MEMBER = re.compile(r"^(?:const\s+|struct\s+|enum\s+)*\w+(?:\s+const)?[\s*]*(?:const\s*\*\s*)*\b(\w+)(?:\s*\[\w+\])?$")


def member_name(declaration):
    pointer = FUNCTION_POINTER.search(declaration)
    if pointer:
        return pointer.group(1)
    plain = MEMBER.match(declaration)
    if not plain or ":" in declaration or "," in declaration:
        raise Problem(f"a member that this check cannot read (one name, no bit-field): {declaration}")
    return plain.group(1)


# ---- Types ----

def end_of_group(text, begin):
    """Behind the parenthesis that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise Problem(f"a parenthesis is never closed: {text}")


def split_parameters(text):
    depth, begin = 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            yield text[begin:i].strip()
            begin = i + 1
    yield text[begin:].strip()


PARAMETER = re.compile(r"^(.*[\s*])(\w+)(\s*\[\w*\])?$")
QUALIFIERS = re.compile(r"\b(?:const|struct|volatile)\b")


def parameter(text):
    """The name and the type of one parameter; no name where it has none."""
    pointer = FUNCTION_POINTER.search(text)
    if pointer:
        return pointer.group(1), f"{text[:pointer.start()]}(*){parameter_types(text[pointer.end() - 1:])}"
    found = PARAMETER.match(text)
    if not found or not QUALIFIERS.sub("", found.group(1)).strip(" *"):
        return "", text
    return found.group(2), found.group(1).strip() + (found.group(3) or "")


def parameter_types(text):
    """A list of parameters in parentheses, without their names."""
    return "(" + ", ".join(parameter(each)[1] for each in split_parameters(text[1:end_of_group(text, 0) - 1])) + ")"


def parentheses_depth(text, end):
    return text.count("(", 0, end) - text.count(")", 0, end)


def list_of_parameters(bare):
    """Where the parameters of a function or of a pointer to one begin; -1: it is none. A callback among them is one of
    them."""
    pointer = FUNCTION_POINTER.search(bare)
    return pointer.end() - 1 if pointer and parentheses_depth(bare, pointer.start()) == 0 else bare.find("(")


def nullables(statement):
    """The names in TENON_NULLABLE."""
    found = re.search(r"\bTENON_NULLABLE\s*\(([^()]*)\)", statement)
    return [squeeze(name) for name in found.group(1).split(",")] if found else []


def tags_of(statement, names):
    """"any borrow", with the number of a parameter in place of its name."""
    tags = re.findall(r"\bTENON_(?:THREAD|OWN)\s*\(((?:[^()]|\([^()]*\))*)\)", statement)
    numbered = [
        re.sub(
            r"\((\w+)",
            lambda found: f"({names.index(found.group(1)) if found.group(1) in names else found.group(1)}",
            tag,
        )
        for tag in tags
    ]
    nullable = [str(names.index(name)) if name in names else name for name in nullables(statement)]
    return " ".join(
        [squeeze(tag).replace(" ", "") for tag in numbered] + ([f"null({','.join(nullable)})"] if nullable else [])
    )


def type_of(statement):
    """A declaration as the other side must agree to it: no names of parameters, and its tags."""
    bare = squeeze(without_tags(statement).replace("TENON_EXPORT", ""))
    begin = list_of_parameters(bare)
    if begin < 0:
        return bare
    names = [parameter(each)[0] for each in split_parameters(bare[begin + 1:end_of_group(bare, begin) - 1])]
    tags = tags_of(statement, names)
    return f"{bare[:begin]}{parameter_types(bare[begin:])}{' [' + tags + ']' if tags else ''}"


def split_preprocessor(text):
    """The text without directives, and the #define lines."""
    text = text.replace("\\\n", " ")
    lines = text.split("\n")
    code = [line for line in lines if not line.lstrip().startswith("#")]
    defines = [line.strip() for line in lines if re.match(r"\s*#\s*define\b", line)]
    return "\n".join(code), defines


def read_defines(header, defines):
    for line in defines:
        match = re.match(r"#\s*define\s+(\w+)(\([^)]*\))?[ \t]*(.*)", line)
        name, arguments, value = match.group(1), match.group(2), squeeze(match.group(3))
        if arguments:
            header.macros[name + squeeze(arguments)] = value
        elif "TENON_TEXT_" in value:
            header.macros[name] = value  # whose end is the hash that this is for
        elif value and not value.startswith("__") and not HASH_NAME.match(name):
            header.constants.append(name)


def frozen_names(raw):
    """Structs whose comment says "Frozen value"."""
    return set(re.findall(r"/\*\s*Frozen value(?:(?!\*/).)*\*/\s*typedef struct (\w+)", raw, re.DOTALL))


def read_header(folders, path):
    raw = find(folders, path).read_text(encoding="utf-8")
    header = Header(path, without_comments(raw))
    header.includes = [name for name in re.findall(r'#\s*include\s+"([^"]+)"', header.text) if name not in HASH_HEADERS]
    code, defines = split_preprocessor(header.text)
    read_defines(header, defines)
    code = re.sub(r'extern\s+"C"\s*\{', "", code)
    frozen = frozen_names(raw)
    match = re.search(r"typedef\s+struct\s+(\w+)\s*\{", code)
    while match:
        end = body_end(code, match.end() - 1)
        struct = Struct(match.group(1), frozen=match.group(1) in frozen)
        for statement in statements(code[match.end():end]):
            struct.members.append((member_name(without_tags(statement)), type_of(statement)))
        tail = re.match(r"\s*(\w+)\s*;", code[end + 1:])
        if not tail or tail.group(1) != struct.name:
            raise Problem(f"{path}: the typedef of struct {struct.name} has another name")
        header.structs.append(struct)
        code = code[:match.start()] + code[end + 1 + tail.end():]
        match = re.search(r"typedef\s+struct\s+(\w+)\s*\{", code)
    if re.search(r"\bstruct\s+\w+\s*\{", code):
        raise Problem(f"{path}: a struct without typedef")
    for statement in statements(code.rstrip().rstrip("}")):
        pointer = FUNCTION_POINTER.search(statement)
        if statement.strip().startswith("typedef") and pointer:
            header.functions[pointer.group(1)] = type_of(statement)
        elif statement.strip().startswith("TENON_EXPORT"):
            header.functions[re.search(r"(\w+)\s*\(", without_tags(statement)).group(1)] = type_of(statement)
    return header


def read_headers(folders):
    return [read_header(folders, path) for path in header_paths(folders) if path not in (*APPLICATION, *HASH_HEADERS)]


def read_application(folders):
    return [read_header(folders, path) for path in header_paths(folders) if path in APPLICATION]


# ---- Rules ----

def check_structs(headers):
    """A struct may grow, and then begins with its size, or it says that it is frozen."""
    problems = []
    for header in headers:
        for match in FORBIDDEN.finditer(split_preprocessor(header.text)[0]):
            problems.append(f"{header.path}: {match.group(1)} has no fixed width; use the types of stdint.h")
        for struct in header.structs:
            names = [name for name, _ in struct.members]
            sized = names[:2] == ["struct_size", "must_understand"]
            if sized == struct.frozen:
                problems.append(
                    f"{header.path}: {struct.name} must either begin with struct_size and must_understand, or "
                    "have a comment before it that begins with 'Frozen value', and not both"
                )
    return problems


def declarations(code):
    """Pairs (name, statement) of all that can be called, except callbacks inside a parameter list."""
    for statement in re.split(r"[;{}]", code):
        bare = without_tags(statement)
        found = FUNCTION_POINTER.search(bare)
        if found and parentheses_depth(bare, found.start()) == 0:
            yield found.group(1), statement
        elif not found or parentheses_depth(bare, found.start()) > 0:
            plain = re.match(r"(?!typedef\b)[\w\s*]*?\b(\w+)\s*\(", bare)
            if plain and bare:
                yield plain.group(1), statement


def pointers(statement):
    """The parameters that are pointers, and "return" where that is one."""
    bare = squeeze(without_tags(statement).replace("TENON_EXPORT", ""))
    begin = list_of_parameters(bare)
    found = {"return"} if "*" in re.sub(r"\(\s*\*.*", "", bare[:begin]) else set()
    for each in split_parameters(bare[begin + 1:end_of_group(bare, begin) - 1]):
        name, declaration = parameter(each)
        if name and ("*" in declaration or "[" in declaration):
            found.add(name)
    return found


def check_tag_values(name, statement):
    problems = []
    threads = re.findall(r"\bTENON_THREAD\s*\(\s*(\w*)\s*\)", statement)
    owns = re.findall(r"\bTENON_OWN\s*\(((?:[^()]|\([^()]*\))*)\)", statement)
    if len(threads) != 1:
        problems.append(f"{name} has {len(threads)} TENON_THREAD tags; it needs one")
    if not owns:
        problems.append(f"{name} has no TENON_OWN tag")
    problems += [f"{name}: TENON_THREAD({t}); known: {', '.join(THREADS)}" for t in threads if t not in THREADS]
    parameters = set(re.findall(r"\b(\w+)\s*(?:\[\w*\]\s*)?(?=[,)])", without_tags(statement))) | {"return"}
    for own in owns:
        moved = re.fullmatch(r"(?:give|take)\((\w+)(?:->\w+)?\)", own.replace(" ", ""))
        if own not in ("borrow", "static") and not moved:
            problems.append(f"{name}: TENON_OWN({own}); known: borrow, static, give(x), take(x)")
        elif moved and moved.group(1) not in parameters:
            problems.append(f"{name}: TENON_OWN({own}) names no parameter")
    return problems + [
        f"{name}: TENON_NULLABLE names '{each}', which is no pointer that crosses"
        for each in nullables(statement)
        if each not in pointers(statement)
    ]


def check_tags(headers):
    """Each function pointer, function type and function says who may call it and who owns what.

    One exemption: a callback inside a parameter list, whose rule is the comment of the function that takes it."""
    problems = []
    for header in headers:
        code = re.sub(r'extern\s+"C"\s*\{', "", split_preprocessor(header.text)[0])
        for name, statement in declarations(code):
            problems += [f"{header.path}: {text}" for text in check_tag_values(name, statement)]
    return problems


# ---- Snapshot ----

PROBE_BEGIN = """
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#define MEMBER(s, m) printf("%zu %zu\\n", offsetof(s, m), sizeof(((s*)0)->m))
static void text(const char* value) { printf("\\"%s\\"\\n", value); }
static void number(int64_t value) { printf("%" PRId64 "\\n", value); }
static void big(uint64_t value) { printf("%" PRIu64 "\\n", value); }
#define CONSTANT(c) _Generic((c), char*: text, const char*: text, unsigned long: big, unsigned long long: big, \\
                             default: number)(c)
int main(void) {
"""


def probe(folders, headers, compiler="cc"):
    """Asks the compiler for every number, in the order in which snapshot() needs them."""
    lines = [f'#include "{header.path}"' for header in headers] + [PROBE_BEGIN]
    for header in headers:
        for struct in header.structs:
            lines.append(f'  printf("%zu %zu\\n", sizeof({struct.name}), _Alignof({struct.name}));')
            lines += [f"  MEMBER({struct.name}, {name});" for name, _ in struct.members]
        lines += [f"  CONSTANT({name});" for name in header.constants]
    lines.append("  return 0;\n}\n")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "probe")
        done = subprocess.run([compiler, "-xc", "-std=c11", *flags(folders), "-", "-o", str(program)],
                              input="\n".join(lines), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Problem(f"the layout could not be asked for:\n{done.stderr}")
        output = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return iter(output.splitlines())


def snapshot_lines(headers, values):
    """{header: its lines}"""
    out = {}
    for header in headers:
        lines = [f"header {header.path}"]
        for struct in header.structs:
            size, align = next(values).split()
            lines.append(f"struct {struct.name} size {size} align {align}{' frozen' if struct.frozen else ''}")
            for name, declaration in struct.members:
                offset, size = next(values).split()
                lines.append(f"  member {name} offset {offset} size {size} : {declaration}")
        lines += [f"constant {name} {next(values)}" for name in header.constants]
        lines += [f"function {name} : {text}" for name, text in header.functions.items()]
        lines += [f"macro {name} : {text}" for name, text in header.macros.items()]
        out[header.path] = lines
    return out


def snapshot(folders):
    headers = read_headers(folders) + read_application(folders)
    lines = snapshot_lines(headers, probe(folders, headers))
    return "".join("\n".join(each) + "\n" for each in lines.values())


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def with_includes(headers, paths):
    """The paths, and all that their headers include."""
    by_path, wanted, left = {header.path: header for header in headers}, set(), list(paths)
    while left:
        path = left.pop()
        if path in wanted:
            continue
        if path not in by_path:
            raise Problem(f"{path} is not there")
        wanted.add(path)
        left += by_path[path].includes
    return sorted(wanted)


def layout_hashes(folders):
    """{"LAYOUT_HASH": of the handshake, "HASH_OPS": ..., "TEXT_FILES": ...}"""
    headers = read_headers(folders)
    lines = snapshot_lines(headers, probe(folders, headers))
    lines["tenon/abi.h"] = [line for line in lines.get("tenon/abi.h", []) if f"constant {GROWS} " not in line]
    there = {header.path for header in headers}

    def of(path):
        return digest([line for each in with_includes(headers, [path, *HANDSHAKE]) for line in lines[each]])

    hashes = {"LAYOUT_HASH": digest([line for each in HANDSHAKE if each in there for line in lines[each]])}
    hashes |= {f"HASH_{name}": of(path) for name, path in (CAPABILITIES | DRAFT_CAPABILITIES).items() if path in there}
    hashes |= {f"TEXT_{name}": of(path) for name, path in EXTENSIONS.items() if path in there}
    return hashes


def hash_headers(hashes):
    """{path: text} of the two headers."""
    drafts = {name: value for name, value in hashes.items() if name.removeprefix("HASH_") in DRAFT_CAPABILITIES}
    headers = {HASH_HEADER: hash_header({name: value for name, value in hashes.items() if name not in drafts})}
    return headers | ({DRAFT_HASH_HEADER: hash_header(drafts)} if drafts else {})


def hash_header(hashes):
    out = (
        "/* SPDX-License-Identifier: Apache-2.0 */\n"
        "/* Generated by plugin_api/check/abi_check.py --update; do not edit. Hashes of layouts, which host and plugin compare\n"
        " * until 1.0: of the handshake, of each capability, and, as the end of its id, of each extension. */\n"
    )
    for name, value in hashes.items():
        text = f'"#{value}"' if name.startswith("TEXT_") else f"UINT64_C(0x{value})"
        out += f"#define TENON_{name} {text}\n"
    return out


def check_changes(room, text):
    """Each change of the snapshot has a line that says why: the last one is of this snapshot."""
    notes = room / "check" / "changes.txt"
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    last = next((line for line in reversed(lines) if line and not line.startswith("#")), "")
    if last.split(" ", 1)[0] != digest(text.splitlines()) or len(last.split()) < 3:
        return ["check/changes.txt does not end with a line on this layout; run abi_check.py --update --why TEXT"]
    return []


def check_layout(room):
    """layout.txt and the hash are those of the headers."""
    now = snapshot(includes(room))
    recorded = room / "check" / "layout.txt"
    then = recorded.read_text(encoding="utf-8") if recorded.exists() else ""
    problems = []
    if now != then:
        old, new = set(then.splitlines()), set(now.splitlines())
        changes = [f"  - {line}" for line in then.splitlines() if line not in new]
        changes += [f"  + {line}" for line in now.splitlines() if line not in old]
        problems.append("the layout is not that of check/layout.txt; if that is wanted, run abi_check.py --update:\n" +
                        "\n".join(changes or ["  (the order changed)"]))
    else:
        for path, text in hash_headers(layout_hashes(includes(room))).items():
            header = room / "include" / path
            if not header.exists() or header.read_text(encoding="utf-8") != text:
                problems.append(f"{path} is not that of the headers; run abi_check.py --update")
    return problems + check_changes(room, now)


def check_released(room):
    """Of each released version of this major number the layout only grew. Until 1.0 nothing is promised, and nothing
    stands there."""
    now = (room / "check" / "layout.txt").read_text(encoding="utf-8")
    major = re.search(r"^constant TENON_ABI_MAJOR (\d+)$", now, re.MULTILINE)
    problems = []
    for released in sorted((room / "check" / "released").glob("*.txt")):
        if major and released.name.split(".")[0] == major.group(1):
            problems += [
                f"{released.name}: {problem}" for problem in append_only(released.read_text(encoding="utf-8"), now)
            ]
    return problems


# ---- Append-only ----

def parse_snapshot(text):
    """Everything but drafts: structs {name: (head, [(member, rest)])}, others {kind and name: rest}."""
    structs, others, draft, members = {}, {}, False, None
    for line in text.splitlines():
        kind, name, rest = (line.strip().split(" ", 2) + ["", ""])[:3]
        if kind == "header":
            draft = name.startswith(DRAFT)
        elif draft:
            continue
        elif kind == "struct":
            members = []
            structs[name] = (rest, members)
        elif kind == "member":
            members.append((name, rest))
        else:
            others[f"{kind} {name}"] = rest
    return structs, others


def compare_struct(name, old, new):
    (old_head, old_members), (new_head, new_members) = old, new
    problems = []
    for index, member in enumerate(old_members):
        now = new_members[index] if index < len(new_members) else None
        if now != member:
            problems.append(f"struct {name}: member {index} was '{member[0]} {member[1]}', is "
                            f"'{' '.join(now) if now else 'gone'}'")
    grown = len(new_members) > len(old_members)
    if "frozen" in old_head.split():
        if old_head != new_head or grown:
            problems.append(f"struct {name} is a frozen value and changed: {old_head} -> {new_head}")
    elif old_head.split()[3:] != new_head.split()[3:]:
        problems.append(f"struct {name}: alignment or kind changed: {old_head} -> {new_head}")
    return problems, grown


def append_only(old, new):
    """The violations; empty when NEW only appends to OLD and, if it does, raises the minor version."""
    (old_structs, old_others), (new_structs, new_others) = parse_snapshot(old), parse_snapshot(new)
    problems = []
    grown = bool(set(new_structs) - set(old_structs) or set(new_others) - set(old_others))
    for name, struct in old_structs.items():
        if name not in new_structs:
            problems.append(f"struct {name} is gone")
            continue
        found, more = compare_struct(name, struct, new_structs[name])
        problems += found
        grown = grown or more
    for name, value in old_others.items():
        if name == f"constant {GROWS}":
            continue
        if name not in new_others:
            problems.append(f"{name} is gone")
        elif new_others[name] != value:
            problems.append(f"{name} was '{value}', is '{new_others[name]}'")
    before, after = (int(others.get(f"constant {GROWS}", 0)) for others in (old_others, new_others))
    if after < before or (grown and after == before):
        problems.append(f"{GROWS} is {after} after {before}; raise it when something is appended")
    return problems


def check_all(room=ROOM):
    folders = includes(room)
    headers = read_headers(folders) + [
        header for header in read_application(folders) if header.path in TAGGED_APPLICATION
    ]
    return (
        check_compiles(folders)
        + check_structs(headers)
        + check_tags(headers)
        + check_layout(room)
        + check_released(room)
    )


def update(why, room=ROOM):
    text = snapshot(includes(room))
    changed = check_changes(room, text)
    if changed and not why.strip():
        raise Problem("the layout changed: say why with --why TEXT; the line goes to check/changes.txt")
    (room / "check" / "layout.txt").write_text(text, encoding="utf-8")
    hashes = layout_hashes(includes(room))
    for path, contents in hash_headers(hashes).items():
        (room / "include" / path).write_text(contents, encoding="utf-8")
    if changed:
        with (room / "check" / "changes.txt").open("a", encoding="utf-8") as notes:
            notes.write(f"{digest(text.splitlines())} {squeeze(why)}\n")
    return hashes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--why", metavar="TEXT", default="", help="with --update: why the layout changes")
    parser.add_argument("--append-only", metavar="OLD", type=Path)
    given = parser.parse_args()
    try:
        if given.update:
            print("\n".join(f"{name} {value}" for name, value in update(given.why).items()))
        if given.append_only:
            new = (ROOM / "check" / "layout.txt").read_text(encoding="utf-8")
            problems = append_only(given.append_only.read_text(encoding="utf-8"), new)
        else:
            problems = check_all()
    except (Problem, OSError) as problem:
        problems = [str(problem)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
