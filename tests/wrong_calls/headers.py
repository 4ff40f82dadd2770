# SPDX-License-Identifier: Apache-2.0
"""The functions and structs of the public headers for applications, as ctypes sees them: read from the headers
themselves, so that nothing of them is left out."""

import ctypes
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plugin_api" / "check"))
import abi_check  # noqa: E402  pylint: disable=wrong-import-position

FOLDERS = abi_check.includes()

SCALARS = {
    "uint8_t": ctypes.c_uint8,
    "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
FUNCTIONS_OF = ("tenon/app.h", "tenon/model.h", "tenon/train.h")
STRUCTS_OF = ("tenon/abi.h", "tenon/tensor.h", "tenon/dlpack.h", "tenon/graph.h", "tenon/op.h", *FUNCTIONS_OF)


@dataclass
class Type:
    """base: the name of a scalar or struct, or "" of a function; stars: how often it is pointed to; const: what it
    points to is only read."""
    base: str
    stars: int
    const: bool

    @staticmethod
    def of(text):
        if "(" in text:
            return Type("", 1, False)
        words = re.sub(r"\bstruct\b", " ", text)
        return Type(
            re.sub(r"\bconst\b|\*", " ", words).split()[0], words.count("*"), words.lstrip().startswith("const")
        )

    @property
    def ctype(self):
        return (
            ctypes.c_void_p
            if self.stars
            else None if self.base == "void" else SCALARS.get(self.base) or STRUCTS.get(self.base, ctypes.c_void_p)
        )  # else a type of functions


@dataclass
class Function:
    name: str
    result: Type
    parameters: list  # of (name, Type)
    nullable: list = field(default_factory=list)


STRUCTS = {}  # name -> ctypes.Structure
MEMBERS = {}  # name -> [(member, Type)]
COUNTS = {}  # (struct, member) -> the member that counts its elements


def read_structs():
    for path in STRUCTS_OF:
        raw = abi_check.find(FOLDERS, path).read_text(encoding="utf-8")
        for struct in abi_check.read_header(FOLDERS, path).structs:
            members = [
                (name, Type.of(re.sub(rf"\b{name}$", "", text) if "(" not in text else text))
                for name, text in struct.members
            ]
            MEMBERS[struct.name] = members
            STRUCTS[struct.name] = type(
                struct.name, (ctypes.Structure,), {"_fields_": [(name, each.ctype) for name, each in members]}
            )
        for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\n\}", raw, re.DOTALL):
            for member, count in re.findall(r"\*\s*(\w+);\s*/\*\s*\[(\w+)\]", body):
                COUNTS[struct, member] = count


def read_functions():
    functions = {}
    for path in FUNCTIONS_OF:
        code = re.sub(
            r'extern\s+"C"\s*\{',
            "",
            abi_check.split_preprocessor(
                abi_check.without_comments(abi_check.find(FOLDERS, path).read_text(encoding="utf-8"))
            )[0],
        )
        for name, statement in abi_check.declarations(code):
            if "TENON_EXPORT" not in statement:
                continue
            bare = abi_check.squeeze(abi_check.without_tags(statement).replace("TENON_EXPORT", ""))
            begin = abi_check.list_of_parameters(bare)
            parameters = [
                abi_check.parameter(each)
                for each in abi_check.split_parameters(bare[begin + 1 : abi_check.end_of_group(bare, begin) - 1])
            ]
            functions[name] = Function(
                name,
                Type.of(bare[:begin][: -len(name)]),
                [(each, Type.of(text)) for each, text in parameters if each],
                abi_check.nullables(statement),
            )
    return functions


read_structs()
FUNCTIONS = read_functions()
