# SPDX-License-Identifier: Apache-2.0
"""What an op's definition says, read from the signature language of plugin_api/include/tenon/op.h."""

import re
from typing import Any, List, NamedTuple, Optional

REQUIRED = object()  # in place of a default


class Argument(NamedTuple):
    """An input or an output: of one type (`dtype` or the attribute `type_attr`), several of it (`number_attr`), or a
    list of types."""

    name: str
    text: str
    dtype: str = ""
    type_attr: str = ""
    number_attr: str = ""
    type_list_attr: str = ""

    @property
    def is_list(self):
        return bool(self.number_attr or self.type_list_attr)


class Attribute(NamedTuple):
    name: str
    kind: str  # "int", "list(type)", ...
    text: str
    default: Any = REQUIRED
    allowed: Optional[List[str]] = None  # types or strings


_GROUPS = {
    "numbertype": "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 uint16 complex128 half uint32 uint64",
    "realnumbertype": "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64",
    "quantizedtype": "qint8 quint8 qint32 qint16 quint16",
}


def split(text, separator):
    """Splits outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _parse_argument(text, kinds):
    name, _, type_text = (part.strip() for part in text.partition(":"))
    number = ""
    inner = type_text
    if "*" in inner:
        number, _, inner = (part.strip() for part in inner.partition("*"))
    reference = re.fullmatch(r"Ref\((.*)\)", inner)
    inner = reference.group(1).strip() if reference else inner
    kind = kinds.get(inner)
    if kind == "list(type)":
        return Argument(name, type_text, type_list_attr=inner)
    if kind == "type":
        return Argument(name, type_text, type_attr=inner, number_attr=number)
    return Argument(name, type_text, dtype=inner, number_attr=number)


def _parse_value(text, kind):
    text = text.strip()
    if kind.startswith("list("):
        return [_parse_value(part, kind[5:-1]) for part in split(text.strip("[]"), ",")]
    if kind == "bool":
        return text == "true"
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    if kind in ("string", "func"):
        return text[1:-1] if text[:1] in "'\"" else text
    if kind == "shape":
        if text in ("unknown", "<unknown>"):
            return None
        return tuple(None if part in ("?", "-1") else int(part) for part in split(text.strip("[]{}"), ","))
    return text  # types by their names; tensors as they are written


def _parse_attribute(text):
    name, _, rest = (part.strip() for part in text.partition(":"))
    pieces = split(rest, "=") if not re.search(r"[<>]=", rest) else re.split(r"(?<![<>])=", rest)
    declared = pieces[0].strip()
    default_text = "=".join(pieces[1:]).strip() if len(pieces) > 1 else None
    is_list = declared.startswith("list(")
    inner = declared[5 : declared.rindex(")")].strip() if is_list else declared
    allowed = None
    braces = re.match(r"\{(.*)\}", inner, re.DOTALL)
    if braces:
        allowed = split(braces.group(1), ",")
        kind = "string" if allowed and allowed[0][:1] in "'\"" else "type"
        if kind == "string":
            allowed = [option[1:-1] for option in allowed]
        else:
            allowed = [name for option in allowed for name in _GROUPS.get(option, option).split()]
    else:
        kind = re.match(r"\w+", inner).group(0)
        if kind in _GROUPS:
            allowed, kind = _GROUPS[kind].split(), "type"
    kind = f"list({kind})" if is_list else kind
    default = REQUIRED if default_text is None else _parse_value(default_text, kind)
    return Attribute(name, kind, rest, default, allowed)


class OpDefinition:
    """An op as its plugin defines it. `inputs`, `outputs`, `attrs` are its arguments; `doc` what it does, `properties`
    what to elements."""

    def __init__(self, name, plugin, inputs, outputs, attrs, doc, stateful, has_gradient, properties=""):
        self.name, self.plugin, self.doc = name, plugin, doc
        self.stateful, self.has_gradient, self.properties = stateful, has_gradient, properties
        self.attrs = [_parse_attribute(text) for text in split(attrs, ";")]
        kinds = {attr.name: attr.kind for attr in self.attrs}
        self.inputs = [_parse_argument(text, kinds) for text in split(inputs, ",")]
        self.outputs = [_parse_argument(text, kinds) for text in split(outputs, ",")]
        self.attr_kinds = kinds
        by_inputs = set()
        for argument in self.inputs:
            by_inputs.update(filter(None, (argument.type_attr, argument.number_attr, argument.type_list_attr)))
        self.inferred = by_inputs  # attributes that the inputs say

    def attr(self, name) -> Optional[Attribute]:
        return next((attr for attr in self.attrs if attr.name == name), None)

    @property
    def signature_text(self):
        words = lambda arguments: ", ".join(f"{argument.name}: {argument.text}" for argument in arguments)
        return f"{self.name}({words(self.inputs)}) -> ({words(self.outputs)})"

    def __repr__(self):
        return f"<tenon.OpDefinition {self.signature_text} of {self.plugin}>"
