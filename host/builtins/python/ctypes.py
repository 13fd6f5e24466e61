"""Substitute for `ctypes`: this engine cannot load C libraries, so no C function can be called.

The simple types and their sizes are those of this engine (32 bits). Packages that only query them, such as sympy, load;
loading a library or creating an array or a structure fails.
"""

import struct as _struct
import sys as _sys

DEFAULT_MODE = RTLD_LOCAL = 0
RTLD_GLOBAL = 256

_WHY = "ctypes is not available in this engine: C libraries cannot be loaded; run the code with `backend: process`"


def _fail(*_, **__):
    raise OSError(_WHY)


class ArgumentError(Exception):
    pass


class _SimpleCData:
    _type_ = None

    def __init__(self, value=None):
        self.value = self._empty() if value is None else self._checked(value)

    @classmethod
    def _empty(cls):
        if cls._type_ in "cuzZP":
            return b"\0" if cls._type_ == "c" else "\0" if cls._type_ == "u" else None
        return False if cls._type_ == "?" else 0.0 if cls._type_ in "fdg" else 0

    @classmethod
    def _checked(cls, value):
        kind = cls._type_
        if kind in "bBhHiIlLqQ":
            bits = 8 * cls._size_
            value = int(value.__index__()) & ((1 << bits) - 1)
            return value - (1 << bits) if kind.islower() and value >> (bits - 1) else value
        return float(value) if kind in "fdg" else bool(value) if kind == "?" else value

    def __repr__(self):
        return f"{type(self).__name__}({self.value!r})"

    __class_getitem__ = __mul__ = _fail


def _simple(name, kind, size=None):
    size = size or _struct.calcsize("P" if kind in "zZPO" else "i" if kind == "u" else "d" if kind == "g" else kind)
    return type(name, (_SimpleCData,), {"_type_": kind, "_size_": size, "__module__": "ctypes"})


c_bool = _simple("c_bool", "?")
c_char = _simple("c_char", "c")
c_wchar = _simple("c_wchar", "u")
c_byte = c_int8 = _simple("c_byte", "b")
c_ubyte = c_uint8 = _simple("c_ubyte", "B")
c_short = c_int16 = _simple("c_short", "h")
c_ushort = c_uint16 = _simple("c_ushort", "H")
c_int = c_int32 = _simple("c_int", "i")
c_uint = c_uint32 = _simple("c_uint", "I")
c_long = _simple("c_long", "l")
c_ulong = _simple("c_ulong", "L")
c_longlong = c_int64 = _simple("c_longlong", "q")
c_ulonglong = c_uint64 = _simple("c_ulonglong", "Q")
c_ssize_t = _simple("c_ssize_t", "i")
c_size_t = _simple("c_size_t", "I")
c_float = _simple("c_float", "f")
c_double = _simple("c_double", "d")
c_longdouble = _simple("c_longdouble", "g", 16)
c_char_p = _simple("c_char_p", "z")
c_wchar_p = _simple("c_wchar_p", "Z")
c_void_p = _simple("c_void_p", "P")
py_object = _simple("py_object", "O")


def sizeof(kind):
    size = getattr(kind, "_size_", None)
    return _fail() if size is None else size


alignment = sizeof


class Structure:
    __init__ = _fail


class Union(Structure):
    pass


class Array(Structure):
    pass


class _Pointer(Structure):
    pass


BigEndianStructure = LittleEndianStructure = Structure
BigEndianUnion = LittleEndianUnion = Union


class CDLL:
    __init__ = _fail


class PyDLL(CDLL):
    pass


class LibraryLoader:
    def __init__(self, kind):
        self._dlltype = kind

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        _fail()

    LoadLibrary = __getitem__ = _fail


cdll = LibraryLoader(CDLL)
pydll = LibraryLoader(PyDLL)
pythonapi = LibraryLoader(PyDLL)


def POINTER(kind):
    name = "None" if kind is None else kind if isinstance(kind, str) else kind.__name__
    return type(f"LP_{name}", (_Pointer,), {"_type_": kind, "_size_": _struct.calcsize("P")})


def CFUNCTYPE(restype, *argtypes, use_errno=False, use_last_error=False):
    return type("CFunctionType", (_Pointer,), {"_size_": _struct.calcsize("P")})


PYFUNCTYPE = CFUNCTYPE

pointer = byref = addressof = resize = cast = _fail
create_string_buffer = create_unicode_buffer = string_at = wstring_at = memmove = memset = _fail
get_errno = set_errno = _fail


def _find_library(name):
    return None


__path__ = []
util = type(_sys)("ctypes.util", "No library is found here.")
util.find_library = _find_library
_sys.modules["ctypes.util"] = util
