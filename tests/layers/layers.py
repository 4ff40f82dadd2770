# SPDX-License-Identifier: Apache-2.0
"""Which way each room may look, as data, and the checks that read it.

An include is resolved to a file of the tree (relative to the including file, to its package's folder, to the
root, or to an `include` folder of a room) or to an outside library. A check returns a list of texts, one for each
violation; an empty list is success. Tests (*_test.cc) may look further, as each rule says.
"""

import fnmatch
import os
import posixpath
import re
from pathlib import Path

import class_sizes
import equal_names
import known_ops

ROOMS = ("plugin_api", "bytes", "core", "plugins", "ops", "passes", "devices", "net", "files", "sdk", "tests")
SOURCE_ENDINGS = (".h", ".hpp", ".c", ".cc", ".cpp", ".cu", ".inc")

# What each unit may include: folders of the tree, and outside libraries. "*" is any library but
# those of PRIVATE_LIBRARIES. A package's own folder is always allowed.
# bytes is what all may look at, because it looks at nothing.
PACKAGE = (("plugin_api", "sdk/author/plugin", "sdk/author/extras", "bytes"), ("*",))
APPLICATION = (("public host API", "bytes"), ("*",))


def application(*rooms):
    return ((*APPLICATION[0], *rooms), APPLICATION[1])


RULES = {
    "plugin_api": ((), ()),
    "core": (("plugin_api", "bytes"), ()),
    "core/graph/graphdef": (("core", "plugin_api"), ("protobuf",)),
    "plugins": (("core", "plugin_api", "bytes"), ("boost", "json")),
    "net/cluster": (("core", "plugin_api"), ("protobuf",)),
    "sdk/author/plugin": (("plugin_api", "bytes"), ()),
    # For those who include the headers that read packed files, and write pictures.
    "sdk/author/extras": (("plugin_api", "sdk/author/plugin", "bytes"), ("zlib", "PNG")),
    "sdk/author/testing": (("plugin_api", "sdk/author/plugin"), ("GoogleTest",)),
    "sdk/app/host": (("sdk/app/c", "plugins", "net/cluster", "core", "plugin_api", "bytes"),
                     ("protobuf", "spdlog", "fmt")),
    "bytes": ((), ()),
    "sdk/app/c": (("plugin_api",), ()),
    "sdk/app/data": APPLICATION,
    "sdk/app/train": application("sdk/app/data", "sdk/app/model"),
    "sdk/app/model": application("sdk/app/data"),
    "sdk/app/model_c": application("sdk/app/data", "sdk/app/train", "sdk/app/model"),
    # `tenon train` runs the training library's jobs.
    "sdk/app/cli": application("sdk/app/data", "sdk/app/train", "sdk/app/model"),
    # tenon.op makes plugins.
    "sdk/app/python": application("sdk/app/data", "sdk/app/train", "sdk/app/model", "plugin_api"),
    # An example is either an application or a stranger's package.
    "sdk/examples": application("sdk/app/data", "sdk/app/model", "sdk/app/train", "plugin_api", "sdk/author/plugin"),
    "sdk/author/templates": PACKAGE,
    # One source for two vendors.
    "devices/cuda": (("devices/gpu", *PACKAGE[0]), PACKAGE[1]),
    "devices/rocm": (("devices/gpu", *PACKAGE[0]), PACKAGE[1]),
}
PACKAGE_ROOMS = ("ops", "passes", "devices", "net", "files")
# Boost: the loader, and the fibers of an emulated grid; of it, Beast: the server of a worker's metrics. JSON: manifests
# in plugins, what `--json` prints in the command line, credentials, and what an op parses.
PRIVATE_LIBRARIES = {
    "boost": ("plugins", "devices/gpu"),
    "beast": ("sdk/app/cli",),
    "json": ("plugins", "sdk/app/cli", "sdk/examples", "net/grpc", "ops/parse"),
}
PUBLIC_HOST_API = ("sdk/app/host/include/", "sdk/app/c/include/", "plugin_api/include/tenon/session_options.h")

# Inside core: a folder may include itself and the folders named here.
CORE_BELOW = {
    "base": (),
    "tensor": ("base",),
    "graph": ("base", "tensor"),
    "grad": ("base", "tensor", "graph"),
    "optimize": ("base", "tensor", "graph", "grad"),
    "place": ("base", "tensor", "graph"),
    "partition": ("base", "tensor", "graph"),
    "trace": ("base",),
    "files": ("base",),
    "exec": ("base", "tensor", "graph", "grad", "optimize", "place", "partition", "trace"),
    "session": ("base", "tensor", "graph", "grad", "optimize", "place", "partition", "trace", "files", "exec"),
}
# The same inside core/exec; "" is the folder itself.
EXEC_BELOW = {
    "threads": (),
    "device": ("threads",),
    "work": ("threads",),
    "kernel": ("threads", "device", "work"),
    "exchange": (),
    "plan": ("threads", "device", "work", "kernel", "exchange"),
    "program": ("threads", "device", "work", "kernel", "exchange", "plan"),
    "lower": ("threads", "device", "work", "kernel", "exchange", "plan", "program"),
    "dataflow": ("threads", "device", "work", "kernel", "exchange", "plan"),
    "": ("threads", "device", "work", "kernel", "exchange", "plan", "program", "lower", "dataflow"),
    "parts": ("threads", "device", "work", "kernel", "exchange", "plan", "program", "lower", "dataflow", ""),
}
PROTOBUF_FOLDER = "core/graph/graphdef/"

LIBRARIES = (
    ("google/protobuf/", "protobuf"),
    ("boost/asio/", "beast"),
    ("boost/beast/", "beast"),
    ("boost/", "boost"),
    ("nlohmann/", "json"),
    ("Eigen/", "Eigen"),
    ("unsupported/Eigen/", "Eigen"),
    ("dnnl", "oneDNN"),
    ("oneapi/", "oneDNN"),
    ("grpc", "gRPC"),
    ("CLI/", "CLI11"),
    ("spdlog/", "spdlog"),
    ("fmt/", "fmt"),
    ("gtest/", "GoogleTest"),
    ("gmock/", "GoogleTest"),
    ("benchmark/", "Google Benchmark"),
    ("zlib.h", "zlib"),
    ("png.h", "PNG"),
    ("xbyak/", "Xbyak"),
)
C_STANDARD = frozenset(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign "
    "stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar "
    "wchar wctype".split())
SYSTEM_FOLDERS = ("sys/", "linux/", "arpa/", "netinet/", "net/if", "asm/")
SYSTEM_HEADERS = frozenset(
    "aio.h cpuid.h dirent.h dlfcn.h elf.h endian.h execinfo.h fcntl.h ftw.h glob.h link.h malloc.h "
    "netdb.h poll.h pthread.h pwd.h sched.h semaphore.h spawn.h strings.h syslog.h termios.h "
    "ucontext.h unistd.h x86intrin.h cxxabi.h".split())

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s\\]{0,16})\((?P<raw>.*?)\)(?P=d)"|"(?P<text>(?:\\.|[^"\\\n])*)"'
    r"|'(?:\\.|[^'\\\n])+'", re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")',
                     re.MULTILINE)

# How packages under ops/ write the name of an op. `.name =` also names arguments and attributes: an
# op's name begins with a capital or an underscore, and one or two letters name a type attribute.
OP_NAMES = (
    re.compile(r'\.name\s*=\s*(?:TENON_\w+\s*\(\s*)?"(_?[A-Z]\w{2,})'),
    re.compile(r'\b(?:TENON_\w*OP\w*|REGISTER_OP\w*|Op|OpDef|OpDefinition|DefineOp)\s*[({]\s*"(_?[A-Z]\w{2,})'),
    re.compile(r'\bTENON_(?:DEFINE_)?OP\s*\(\s*(_?[A-Z][A-Za-z0-9_]*[a-z]\w*)\s*[,)]'),
)
# Looked for even where ops/ does not define them.
WELL_KNOWN_OPS = frozenset(
    "Add AddN AddV2 Assign AssignVariableOp BiasAdd Cast Concat ConcatV2 Const Conv2D Dequeue Enqueue "
    "Enter Exit Gather GatherV2 Identity IdentityN If LoopCond MatMul Merge Mul NextIteration NoOp "
    "PartitionedCall Placeholder ReadVariableOp RefEnter RefMerge RefSwitch Relu Reshape RestoreV2 SaveV2 "
    "Send Recv Shape StackPop StackPopV2 StackPush StackPushV2 StatefulPartitionedCall StatelessIf "
    "StatelessWhile Sum Switch SymbolicGradient VarHandleOp Variable VariableV2 While ZerosLike _Arg "
    "_HostRecv _HostSend _Recv _Retval _Send".split())
DEVICE_TYPES = frozenset("CPU GPU TPU CUDA ROCM HIP XLA_CPU XLA_GPU TPU_SIM".split())
DEVICE_IN_NAME = re.compile(r"device:(?:%s)\b" % "|".join(sorted(DEVICE_TYPES)), re.IGNORECASE)


class Tree:
    """The source files of a tree, each as text without comments."""

    def __init__(self, root):
        self.root = Path(root)
        self.sources = {}
        self.include_roots = []
        for room in ROOMS:
            for folder, folders, files in os.walk(self.root / room):
                folders[:] = sorted(f for f in folders if f not in ("build", "__pycache__", ".git"))
                where = Path(folder).relative_to(self.root).as_posix()
                if posixpath.basename(where) == "include" and room != "tests":
                    self.include_roots.append(where)
                for name in sorted(files):
                    if name.endswith(SOURCE_ENDINGS):
                        text = (Path(folder) / name).read_text(encoding="utf-8", errors="replace")
                        self.sources[f"{where}/{name}"] = without_comments(text)

    def exists(self, path):
        return path in self.sources or (self.root / path).is_file()

    def resolve(self, source, name):
        """The path in the tree that `source` means by `name`, or None for an outside header."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        if not beside.startswith("..") and self.exists(beside):
            return beside
        own = "/".join(source.split("/")[:2])  # a package's folder is on the path of its sources
        for folder in (own, *self.include_roots):
            if self.exists(f"{folder}/{name}"):
                return f"{folder}/{name}"
        # A generated header (graph.pb.h) has the path of its source and need not exist yet.
        return name if name.split("/")[0] in ROOMS and "/" in name else None

    def includes(self, source):
        """Pairs (name as written, path in the tree or None)."""
        for match in INCLUDE.finditer(self.sources[source]):
            name = match.group(1) or match.group(2)
            yield name, self.resolve(source, name)


def without_comments(text):
    return TOKEN.sub(lambda m: " " if m.group().startswith(("//", "/*")) else m.group(), text)


def string_literals(text):
    for match in TOKEN.finditer(text):
        literal = match.group("raw") if match.group("raw") is not None else match.group("text")
        if literal is not None:
            yield literal


def library_of(name):
    """The outside library that a header belongs to; "C", "C++" and "system" are always there."""
    for prefix, library in LIBRARIES:
        if name.startswith(prefix):
            return library
    if name.endswith(".pb.h"):
        return "protobuf"
    if name.endswith(".h") and name[:-2] in C_STANDARD:
        return "C"
    if name.startswith(SYSTEM_FOLDERS) or name in SYSTEM_HEADERS or name.endswith("intrin.h"):
        return "system"
    if re.fullmatch(r"[a-z_]+", name):
        return "C++"
    if name.startswith("tenon/"):
        return "a generated header"
    return f"an unknown library ({name})"


def is_test(path):
    """A test, or what a package's tests share, in its folder testing/."""
    parts = path.split("/")
    return posixpath.splitext(path)[0].endswith("_test") or (parts[0] in PACKAGE_ROOMS and "testing" in parts[:-1])


def unit_of(path):
    """The key of RULES, or the package folder (ops/math), that a file belongs to; None has no rule."""
    if path.startswith(PROTOBUF_FOLDER):
        return PROTOBUF_FOLDER.rstrip("/")
    parts = path.split("/")
    for key in ("/".join(parts[:3]), "/".join(parts[:2]), parts[0]):
        if key in RULES:
            return key
    if parts[0] in PACKAGE_ROOMS and len(parts) > 2:
        return "/".join(parts[:2])
    return None


def under(path, folder):
    if folder == "public host API":
        return path.startswith(PUBLIC_HOST_API)
    return path.startswith(folder + "/")


def check_rooms(tree):
    problems = []
    for source in tree.sources:
        unit = unit_of(source)
        if unit is None:
            continue
        folders, libraries = RULES.get(unit, PACKAGE)
        folders = (unit, *folders)
        if is_test(source):  # never core for a package: its tests use what a stranger's tests can
            folders += ("tests", "sdk/author/testing", "public host API")
            libraries = ("*", *libraries)
        for name, target in tree.includes(source):
            if target is not None:
                allowed = any(under(target, folder) for folder in folders)
                found = target
            else:
                found = library_of(name)
                allowed = found == "C" or (unit != "plugin_api" and found in ("C++", "system"))
                allowed = allowed or found in libraries
                owners = PRIVATE_LIBRARIES.get(found, (unit,))
                allowed = allowed or ("*" in libraries and (unit in owners or is_test(source)))
            if not allowed:
                problems.append(f"{source} includes {name} ({found}); {unit} may include "
                                f"{', '.join(folders)}; libraries: {', '.join(libraries) or 'none'}")
    return problems


def check_core_order(tree):
    """Tests of core may look anywhere in core."""
    problems = []
    for source in tree.sources:
        parts = source.split("/")
        if parts[0] != "core" or is_test(source):
            continue
        if len(parts) < 3 or parts[1] not in CORE_BELOW:
            problems.append(f"{source}: core has no folder for it; its folders are {', '.join(CORE_BELOW)}")
            continue
        allowed = (parts[1], *CORE_BELOW[parts[1]])
        for name, target in tree.includes(source):
            target_parts = (target or "").split("/")
            if target_parts[0] == "core" and target_parts[1] not in allowed:
                problems.append(f"{source} includes {name}; core/{parts[1]} may include {', '.join(allowed)}")
    return problems


def exec_room(path):
    """The room of core/exec that a file belongs to; None: it is no file of core/exec."""
    parts = path.split("/")
    if parts[:2] != ["core", "exec"]:
        return None
    return parts[2] if len(parts) > 3 else ""


def check_exec_order(tree):
    """As check_core_order, of the rooms in core/exec."""
    problems = []
    for source in tree.sources:
        room = exec_room(source)
        if room is None or is_test(source):
            continue
        if room not in EXEC_BELOW:
            problems.append(
                f"{source}: core/exec has no room for it; its rooms are {', '.join(filter(None, EXEC_BELOW))}"
            )
            continue
        for name, target in tree.includes(source):
            other = exec_room(target or "")
            if other is not None and other != room and other not in EXEC_BELOW[room]:
                allowed = ", ".join(map(repr, EXEC_BELOW[room])) or "no other room"
                problems.append(f"{source} includes {name}; core/exec/{room} may include {allowed}")
    return problems


# Headers that include each other by way of others: (folder, names). The list may get shorter, and never longer.
KNOWN_CIRCLES = (
    ("devices/cpu_codegen", "code/code emit/frame emit/generator emit/nodes"),
    ("devices/cpu_codegen", "reduce/reduce_all reduce/reduce_columns reduce/reduce_rows run/elements run/executable"),
    ("devices/gpu", "code/attention code/attention_row"),
    ("devices/gpu", "code/attention_gradient code/attention_gradient_row"),
    ("devices/gpu", "code/elementwise code/map"),
    ("devices/gpu", "code/reduce code/reduction"),
    ("devices/gpu", "collective/collectives collective/copies device driver kernels/kernel patience queue staging "
                    "timeline watcher"),
    ("devices/gpu", "emulation/grid emulation/loaded"),
    ("devices/gpu", "fuse/attention fuse/attention_gradient"),
    ("devices/tpu_sim", "device driver queue timeline"),
    ("ops/dataset", "base/archive base/held_elements"),
    ("sdk/app/cli", "command line/help"),
    ("sdk/app/cli", "describe json"),
)


def circles(graph):
    """The sets of two or more nodes of which each reaches every other (Tarjan, SIAM J. Comput. 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for following in sorted(graph.get(node, ())):
            if following not in number:
                visit(following)
            if following in stack:
                low[node] = min(low[node], low[following])
        if low[node] == number[node]:
            members = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(sorted(members))

    for start in sorted(graph):
        if start not in number:
            visit(start)
    return found


def product_includes(tree):
    """Pairs (source, what it includes), both files of the product."""
    for source in tree.sources:
        if not is_test(source) and not source.startswith("tests/"):
            yield from ((source, target) for _, target in tree.includes(source) if target in tree.sources)


def check_circles(tree):
    """No file (a header and the source beside it are one) includes, by way of others, itself."""
    graph = {}
    for source, target in product_includes(tree):
        source, target = posixpath.splitext(source)[0], posixpath.splitext(target)[0]
        if source != target:
            graph.setdefault(source, set()).add(target)
    found = circles(graph)
    known = [sorted(f"{folder}/{name}" for name in names.split()) for folder, names in KNOWN_CIRCLES]
    return ["include circle: " + ", ".join(each) for each in found if each not in known] + [
        f"{', '.join(each)}: no include circle any more, or not all of it: bring KNOWN_CIRCLES of layers.py in line"
        for each in known if each not in found and f"{each[0]}.h" in tree.sources
    ]


def audience_of(path):
    """The room that a file belongs to; each wing of the SDK is one."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "sdk" else parts[0]


def check_room_circles(tree):
    """Rooms look one way: none includes, by way of others, what includes it."""
    graph = {}
    for source, target in product_includes(tree):
        if audience_of(source) != audience_of(target):
            graph.setdefault(audience_of(source), set()).add(audience_of(target))
    return ["circle of rooms: " + ", ".join(each) for each in circles(graph)]


def check_googletest(tree):
    """The testing kit is for every test framework: GoogleTest is known to its adapter alone."""
    return [
        f"{source} includes {name}; only googletest.h of sdk/author/testing may know GoogleTest"
        for source in tree.sources
        if source.startswith("sdk/author/testing/") and not source.endswith(("/googletest.h", "_test.cc"))
        for name, _ in tree.includes(source)
        if library_of(name) == "GoogleTest"
    ]


def check_protobuf(tree):
    """Generated messages, too, stay behind core/graph/graphdef."""
    return [f"{source} includes {name}; in core, protobuf stays in {PROTOBUF_FOLDER}"
            for source in tree.sources
            if source.startswith("core/") and not source.startswith(PROTOBUF_FOLDER) and not is_test(source)
            for name, _ in tree.includes(source) if library_of(name) == "protobuf"]


RETAINS = re.compile(r"\b(?:buffer_retain|retain_input)\b(?!(?:[^;{}]*;){1,2}\s*(?:return\s+)?[^;{}]*\bKeptTensor\()")


def check_kept(tree):
    """Ops keep values in KeptTensors alone, which are charged: who takes a reference hands it to one in the next
    statement."""
    return [f"{source}: keeps a buffer outside of a KeptTensor ({match.group()}), where nobody charges the record"
            for source, text in tree.sources.items() if source.startswith("ops/") and not is_test(source)
            for match in RETAINS.finditer(without_comments(text))]


def op_names(text):
    """The names of the ops that a file under ops/ defines."""
    return {match.group(1) for pattern in OP_NAMES for match in pattern.finditer(text)}


def defined_ops(tree):
    names = set()
    for source, text in tree.sources.items():
        if source.startswith("ops/") and not is_test(source):
            names |= op_names(text)
    return names


def check_op_extraction(tree):
    """Each package that offers ops defines one; else op_names() no longer knows how they are written."""
    packages = {}
    for source, text in tree.sources.items():
        if source.startswith("ops/") and source.count("/") >= 2 and not is_test(source):
            packages.setdefault(source.split("/")[1], set()).update(op_names(text))
    return [f"ops/{package}: no op name found; teach op_names() in tests/layers/layers.py how it is written"
            for package, names in packages.items() if not names]


def check_names(tree):
    ops = defined_ops(tree) | WELL_KNOWN_OPS
    problems = []
    for source, text in tree.sources.items():
        if not source.startswith("core/") or is_test(source):
            continue
        for literal in string_literals(text):
            if literal in ops:
                problems.append(f'{source}: core names the op "{literal}"; use a trait or a role')
            if literal in DEVICE_TYPES or DEVICE_IN_NAME.search(literal):
                problems.append(f'{source}: core names a device type in "{literal}"; ask the device')
    return problems


# Programs of their own, which their CMake projects or who tests them name.
BUILT_ELSEWHERE = ("sdk/author/templates/", "tests/consume_examples/", "sdk/app/python/wheel/test_program/",
                   "sdk/app/python/tests/")


def cmake_texts(tree):
    """(folder, text) of each CMake file of the rooms and of cmake/."""
    for room in (*ROOMS, "cmake"):
        for file in [*(tree.root / room).rglob("CMakeLists.txt"), *(tree.root / room).rglob("*.cmake")]:
            yield file.parent.relative_to(tree.root).as_posix(), re.sub(r"#.*", "", file.read_text())


def globbed(folder, text, source):
    for kind, words in re.findall(r"file\((GLOB\w*)([^)]*)\)", text):
        for variable, pattern in re.findall(r'"(\$\{\w+\}/)?([^"$]*\*[^"]*)"', words):
            if variable and "/" in pattern and fnmatch.fnmatch(source, f"*/{pattern}"):
                return True
            if not variable and source.startswith(f"{folder}/"):
                rest = source[len(folder) + 1:]
                rest = posixpath.basename(rest) if kind == "GLOB_RECURSE" else rest
                if rest.count("/") == pattern.count("/") and fnmatch.fnmatch(rest, pattern):
                    return True
    return False


def check_built(tree):
    texts = list(cmake_texts(tree))
    words = set(re.findall(r"[\w.]+", " ".join(text for _, text in texts)))
    return [
        f"{source}: no CMake file names it, so that it is never built"
        for source in tree.sources
        if source.endswith((".c", ".cc", ".cpp", ".cu"))
        and not source.startswith(BUILT_ELSEWHERE)
        and not {posixpath.basename(source), Path(source).stem, Path(source).stem.removesuffix("_plugin")} & words
        and not any(globbed(*each, source) for each in texts)
    ]


def check_equal_names(tree):
    folders = {folder for folder, _ in cmake_texts(tree)}
    libraries = {}
    for source, text in tree.sources.items():
        if source.endswith((".cc", ".h")) and not source.startswith(equal_names.ALONE) and not is_test(source):
            folder = posixpath.dirname(source)
            while folder and folder not in folders:
                folder = posixpath.dirname(folder)
            libraries.setdefault(folder, {})[source] = text
    return [
        f"{' and '.join(paths)}: each has a {name} of its own; give the second another name, or both one in a header"
        for files in libraries.values()
        for name, paths in equal_names.equal_names(files)
    ]


def known_op_counts(tree):
    return known_ops.counts(tree, defined_ops(tree), is_test)


def class_sizes_of(tree):
    return class_sizes.large(tree, is_test)


def check_class_sizes(tree):
    return class_sizes.problems(tree.root, class_sizes_of(tree))


def check_known_ops(tree):
    return known_ops.problems(tree.root, known_op_counts(tree))


def check_test_namespaces(tree):
    """Tests of one program are compiled in batches: what a file brings in by using declarations, and its names, are its
    own."""
    tests = [
        source for source in tree.sources if source.endswith("_test.cc") and not source.startswith(equal_names.ALONE)
    ]
    folders = [posixpath.dirname(source) for source in tests]
    return [
        f"{source}: its namespace is '{found}'; it must end in '::{Path(source).stem}'"
        for source, folder in zip(tests, folders)
        if folders.count(folder) > 1
        for text in [tree.sources[source]]
        for found in re.findall(r"^namespace ([\w:]+) \{$(?!\n(?:extern |const Settings kBench))", text, re.MULTILINE)
        if not found.endswith(f"::{Path(source).stem}")
    ]


CHECKS = (
    check_rooms,
    check_core_order,
    check_exec_order,
    check_circles,
    check_room_circles,
    check_googletest,
    check_protobuf,
    check_op_extraction,
    check_names,
    check_kept,
    check_built,
    check_equal_names,
    check_test_namespaces,
    check_known_ops,
    check_class_sizes,
)
