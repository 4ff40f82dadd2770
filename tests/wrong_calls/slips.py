# SPDX-License-Identifier: Apache-2.0
"""What a caller gets wrong, by the types of a call's arguments: each slip changes one thing in arguments that are
right, also in what they point to."""

import ctypes
from dataclasses import dataclass

from headers import COUNTS, MEMBERS, STRUCTS

SOMETHING = ctypes.create_string_buffer(b"something")
HUGE = ((1 << 64) - 1, 1 << 40)  # sizes and counts that cannot be
ANY = "any"  # whatever is said, so long as somebody lives to say it
ERROR = "error"  # any error
INVALID = "INVALID_ARGUMENT"
UNIMPLEMENTED = "UNIMPLEMENTED"

# Pointers in structs that may be NULL whatever the counts: the struct says so.
MAY_BE_NULL = {
    ("tenon_run_options", "cancellation"),
    ("tenon_run_options", "out_trace"),
    ("tenon_run_options", "watch"),
    ("tenon_run_options", "watch_argument"),
    ("tenon_callable_options", "cancellation"),
    ("tenon_callable_options", "feed_devices"),
    ("tenon_callable_options", "fetch_devices"),
    ("tenon_session_options", "debug"),
    ("tenon_model_load_options", "session"),
    ("tenon_elements_spec", "turns"),
    ("tenon_rnn_options", "sequence_length"),
    ("tenon_sampled_loss_options", "candidates"),
    ("tenon_dl_tensor", "strides"),
    ("tenon_tensor_view", "buffer"),
    ("tenon_dl_managed_tensor", "manager_ctx"),
    ("tenon_dl_managed_tensor", "deleter"),
    ("tenon_dl_managed_tensor_versioned", "manager_ctx"),
    ("tenon_dl_managed_tensor_versioned", "deleter"),
}
# Structs that somebody else checks: a plugin's descriptor (tests/wrong_plugins), and what a function writes.
NOT_LOOKED_INTO = {"tenon_plugin"}


@dataclass
class Slip:
    words: str
    names: str  # what an error must say: the argument or the member that is wrong
    expected: str
    do: object  # of the arguments


class Arguments(list):
    """Of one call, right ones, and what their pointers lead to: `at[address]` is a ctypes object."""

    def __init__(self, values, at):
        super().__init__(values)
        self.at = at


@dataclass
class Place:
    """Where a value stands: get and put of the arguments."""
    words: str
    names: str
    get: object
    put: object
    parent: object = None  # of a member

    def member(self, name):
        return Place(
            f"{self.words}.{name}",
            name,
            lambda args: getattr(self.get(args), name),
            lambda args, value: setattr(self.get(args), name, value),
            self,
        )

    def element(self, index):
        """Of the array that the pointer leads to."""
        return Place(f"{self.words}[{index}]", self.names, lambda args: args.at[self.get(args)][index],
                     lambda args, value: args.at[self.get(args)].__setitem__(index, value))

    def target(self):
        return Place(self.words, self.names, lambda args: args.at[self.get(args)], None)

    def slip(self, what, value, expected=INVALID):
        return Slip(f"{self.words} = {what}", self.names, expected, lambda args: self.put(args, value))


def argument(index, name):
    return Place(name, name, lambda args: args[index], lambda args, value: args.__setitem__(index, value))


def of_span(place):
    yield Slip(
        f"{place.words} = {{NULL, 5}}",
        place.names,
        INVALID,
        lambda args: (place.member("data").put(args, None), place.member("size").put(args, 5)),
    )
    for size in HUGE:
        yield Slip(
            f"{place.words}.size = {size}",
            place.names,
            INVALID,
            lambda args, size=size: (
                place.member("data").put(args, ctypes.addressof(SOMETHING)),
                place.member("size").put(args, size),
            ),
        )


def of_shape(place, least):
    rank, dims = place.member("rank"), place.member("dims")
    for value in (*range(least - 2, least), 255, 100_000, 2**31 - 1):
        yield Slip(
            f"{place.words}.rank = {value}", place.names, INVALID, lambda args, value=value: rank.put(args, value)
        )
    yield Slip(
        f"{place.words} of rank 2 without dims",
        place.names,
        INVALID,
        lambda args: (rank.put(args, 2), dims.put(args, None)),
    )


def of_output(place):
    for member, value in (("node", -5), ("node", 2**40), ("index", -3), ("index", 2**30)):
        yield place.member(member).slip(str(value), value, ERROR)


def of_dl_tensor(place):
    for value in (-1, 255, 100_000, 1_000_000, 2**31 - 1):
        yield place.member("ndim").slip(str(value), value)
    yield place.member("shape").slip("NULL", None)
    yield place.member("data").slip("NULL", None)
    yield place.member("byte_offset").slip("2^63", 2**63)
    strides = (ctypes.c_int64 * 254)(*[2**61] * 254)
    yield Slip(
        f"{place.words}.strides of 2^61",
        "",
        INVALID,
        lambda args: place.member("strides").put(args, ctypes.addressof(strides)),
    )


def of_view(place):
    yield from of_dl_tensor(place.member("dl"))
    yield place.member("byte_size").slip("2^62", 2**62)
    for member, value in (
        ("byte_size", 1),
        ("dtype", 21),
        ("dtype", 97),
    ):  # what does not go with the others may be named by any of them
        yield Slip(
            f"{place.words}.{member} = {value}",
            "",
            INVALID,
            lambda args, member=member, value=value: place.member(member).put(args, value),
        )


ELEMENTS_OF_KIND = {1: "tenon_span", 6: "tenon_shape", 7: "tenon_tensor_view", 8: "tenon_span"}


def of_attr_value(place, args):
    kind = place.get(args).kind
    yield place.member("data").slip("NULL", None)
    for count in HUGE:
        yield Slip(
            f"{place.words}: {count} values",
            place.names,
            INVALID,
            lambda args, count=count: place.member("count").put(args, count),
        )
        yield Slip(
            f"{place.words}: a list of {count}",
            place.names,
            INVALID,
            lambda args, count=count: (
                place.member("kind").put(args, kind | 0x100),
                place.member("count").put(args, count),
            ),
        )
    yield place.member("kind").slip("77", 77, ERROR)
    if kind & 0xff in ELEMENTS_OF_KIND:
        yield from of_struct(place.member("data").element(0), ELEMENTS_OF_KIND[kind & 0xff], args)


def of_head(place, args):
    value = place.get(args)
    if any(bytes(value)[8:]):
        yield place.member("struct_size").slip("0", 0)
    for size in (4, 12, 7):
        yield place.member("struct_size").slip(str(size), size)
    yield Slip(
        f"{place.words}.must_understand",
        "",
        UNIMPLEMENTED,
        lambda args: place.member("must_understand").put(args, 1 << 30),
    )


def of_struct(place, struct, args):
    if struct in NOT_LOOKED_INTO:
        return
    if struct == "tenon_span":
        yield from of_span(place)
    elif struct == "tenon_shape":
        yield from of_shape(place, 0 if place.words.endswith("spec.shape") else -1)
    elif struct == "tenon_output":
        yield from of_output(place)
    elif struct == "tenon_tensor_view":
        yield from of_view(place)
    elif struct == "tenon_dl_tensor":
        yield from of_dl_tensor(place)
    elif struct == "tenon_attr_value":
        yield from of_attr_value(place, args)
    else:
        yield from of_members(place, struct, args)


def of_members(place, struct, args):
    members = dict(MEMBERS[struct])
    if "struct_size" in members:
        yield from of_head(place, args)
    for name, kind in members.items():
        member = place.member(name)
        if kind.stars:
            yield from of_pointer_member(member, struct, name, kind, args)
        elif kind.base in STRUCTS:
            yield from of_struct(member, kind.base, args)


def of_pointer_member(member, struct, name, kind, args):
    count = COUNTS.get((struct, name))
    if (struct, name) in MAY_BE_NULL:
        pass
    elif count in dict(MEMBERS[struct]):
        counter = member.parent.member(count)
        yield Slip(
            f"{counter.words} = 3, and {name} NULL",
            name,
            INVALID,
            lambda args: (member.put(args, None), counter.put(args, 3)),
        )
        for value in HUGE:
            yield Slip(f"{counter.words} = {value}", name, INVALID, lambda args, value=value: counter.put(args, value))
    else:
        yield member.slip("NULL", None)
    if member.get(args) in args.at:
        yield from of_target(member, kind, args)


def of_target(place, kind, args):
    """What a pointer to const leads to: a struct, or an array of values or of pointers."""
    target = args.at[place.get(args)]
    if kind.stars == 2:
        yield place.element(len(target) - 1).slip("NULL", None)
        inner = place.element(len(target) - 1)
        if kind.base in STRUCTS:
            yield from of_struct(inner.target(), kind.base, args)
    elif isinstance(target, ctypes.Array):
        if kind.base in STRUCTS:
            yield from of_struct(place.element(len(target) - 1), kind.base, args)
    elif kind.base in STRUCTS:
        yield from of_struct(place.target(), kind.base, args)


COUNTING = ("count", "capacity", "bytes")
NUMBERING = ("node", "index", "which", "part", "signature")


def of_call(function, args):
    for i, (name, kind) in enumerate(function.parameters):
        place = argument(i, name)
        if kind.stars and place.get(args) is None:
            continue  # a list without elements, or what the right call leaves out
        if kind.stars:
            yield place.slip("NULL", None, ANY if name in function.nullable else INVALID)
            address = place.get(args)
            if address in args.at:
                yield from of_target(place, kind, args)
        elif kind.base == "tenon_shape":
            yield from of_shape(place, 0)
        elif kind.base in STRUCTS:
            yield from of_struct(place, kind.base, args)
        elif kind.base == "uint64_t" and name.endswith(COUNTING):
            for value in HUGE:
                yield Slip(f"{name} = {value}", "", INVALID, lambda args, i=i, value=value: args.__setitem__(i, value))
        elif name in NUMBERING:
            for value in (-1, 2**40 if kind.base.endswith("64_t") else 2**30):
                yield Slip(f"{name} = {value}", "", ERROR, lambda args, i=i, value=value: args.__setitem__(i, value))
