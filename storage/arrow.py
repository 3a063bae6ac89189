"""Rows as one Arrow record batch, in the C data interface of the Arrow format, with nothing but the standard library.

DuckDB scans any object that exports ``__arrow_c_array__``. Columns are laid out here at the speed of C, and everything
after that (parsing, planning, inserting, committing) happens in DuckDB without the GIL.
"""

import ctypes
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from turnout.storage.columns import COLUMNS, IDENTITIES, LABELS, column, identities, labelled
from turnout.storage.rows import Row

_TEXT: Final = b"u"
_IDENTITY: Final = b"w:16"
_TYPECODES: Final = {b"i": "i", b"l": "q", b"g": "d", b"c": "b", b"tsu:UTC": "q"}
_NULLABLE: Final = 2


class _Schema(ctypes.Structure):
    """``struct ArrowSchema``."""


class _Array(ctypes.Structure):
    """``struct ArrowArray``."""


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


# Memory belongs to the Python objects below; a consumer that is done has only to be told so, by the rules of Arrow.
def _release_schema(address: int) -> None:
    _Schema.from_address(address).release = None


def _release_array(address: int) -> None:
    _Array.from_address(address).release = None


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_CALLBACKS: Final = (_Release(_release_schema), _Release(_release_array))
_SCHEMA_RELEASE, _ARRAY_RELEASE = (ctypes.cast(callback, ctypes.c_void_p).value for callback in _CALLBACKS)


def _capsule(struct: ctypes.Structure, name: bytes) -> object:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(struct), name, None)


def _format(name: str) -> bytes:
    if name in IDENTITIES:
        return _IDENTITY
    kind = str(Row.__annotations__[name])
    for word, code in (
        ("datetime", b"tsu:UTC"),
        ("bool", b"c"),
        ("float", b"g"),
        ("int", b"l"),
    ):
        if word in kind:
            return code
    return _TEXT


class RowBatch:
    """What a registered view reads: the rows loaded last, as columns of the names and order of ``Row``.

    A statement over it must have ended before other rows are loaded.
    """

    def __init__(self) -> None:
        self._schemas: list[_Schema] = []
        self._arrays: list[_Array] = []
        self._columns: dict[str, _Column] = {}
        self._index = _Column(2)
        fields, arrays = zip(*(self._declare(name) for name in COLUMNS), strict=True)
        self._schema = _Schema(b"+s", b"", None, 0, len(fields), _pointers(_Schema, fields))
        self._whole = _Column(1)
        self._whole.array.n_children, self._whole.array.children = (
            len(arrays),
            _pointers(_Array, arrays),
        )
        self._schemas += [*fields, self._schema]
        self._arrays += [*arrays, self._whole.array]

    def _declare(self, name: str) -> tuple[_Schema, _Array]:
        code = _format(name)
        schema = _Schema(code, name.encode(), None, _NULLABLE)
        own = self._columns[name] = _Column(3 if code == _TEXT else 2, code)
        if name not in LABELS:
            return schema, own.array
        self._schemas.append(schema)
        self._arrays.append(own.array)
        indexed = _Schema(b"i", name.encode(), None, _NULLABLE, 0, None, ctypes.pointer(schema))
        places = _Array(0, 0, 0, 2, 0, self._index.addresses, None, ctypes.pointer(own.array))
        return indexed, places

    def __arrow_c_schema__(self) -> object:
        for schema in self._schemas:
            schema.release = _SCHEMA_RELEASE
        return _capsule(self._schema, b"arrow_schema")

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        for struct in self._arrays:
            struct.release = _ARRAY_RELEASE
        return self.__arrow_c_schema__(), _capsule(self._whole.array, b"arrow_array")

    def load(self, rows: Sequence[Row]) -> None:
        """Lay out ``rows``.

        Raises ``StorageError``, ``TypeError``, ``ValueError`` or ``OverflowError`` for a value that no column takes.
        """
        places, combinations = labelled(rows)
        labels = dict(zip(LABELS, zip(*combinations, strict=True), strict=True))
        for name, own in self._columns.items():
            if own.code == _IDENTITY:
                own.hold(len(rows), None, array("B", identities(rows, name)))
            else:
                own.fill(list(labels[name]) if name in labels else column(rows, name))
        for struct in self._arrays:
            if struct.dictionary:
                struct.length = len(rows)
        self._index.hold(len(rows), None, array("i", places))
        self._whole.hold(len(rows), None)


class _Column:
    """One ``ArrowArray`` and the memory that it points to."""

    def __init__(self, buffers: int, code: bytes = b"") -> None:
        self.code = code
        self.addresses = (ctypes.c_void_p * buffers)()
        self.array = _Array(0, 0, 0, buffers, 0, self.addresses)
        self._memory: tuple[array[Any] | None, ...] = ()

    def fill(self, values: list[Any]) -> None:
        """Lay out ``values``; None is null."""
        count, nulls, valid = len(values), values.count(None), None
        if nulls == count:
            # No value, of whatever size, and as many ends of texts: zeros do for both.
            zeros = array("q", bytes(8 * (count + 1)))
            self.hold(count, _bits(values, nulls), *[zeros] * (len(self.addresses) - 1))
            return
        if nulls:
            valid = _bits(values, nulls)
            missing = "" if self.code == _TEXT else 0
            values = [missing if value is None else value for value in values]
        if self.code != _TEXT:
            self.hold(count, valid, array(_TYPECODES[self.code], values))
            return
        text = "".join(values)
        encoded = text.encode()
        lengths = map(len, values) if len(encoded) == len(text) else (len(value.encode()) for value in values)
        self.hold(
            count,
            valid,
            array("i", accumulate(lengths, initial=0)),
            array("b", encoded),
        )

    def hold(self, length: int, *buffers: "array[Any] | None") -> None:
        """Point at ``buffers``, the first of which says what is null, and keep them alive."""
        self.array.length = length
        self.array.null_count = 0 if buffers[0] is None else -1
        self.addresses[:] = [None if buffer is None else buffer.buffer_info()[0] for buffer in buffers]
        self._memory = buffers


def _pointers(kind: Any, structs: Sequence[Any]) -> Any:
    return (ctypes.POINTER(kind) * len(structs))(*map(ctypes.pointer, structs))


def _bits(values: list[Any], nulls: int) -> "array[Any]":
    size = (len(values) + 7) // 8
    if nulls == len(values):
        return array("b", bytes(size))
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    return array("b", int(bits, 2).to_bytes(size, "little"))
