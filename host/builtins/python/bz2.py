"""Substitute for `bz2`, whose C library this engine lacks: it can be imported, and fails when it is used.

Packages that only import it, such as networkx, load. Code that tries one format after the other, such as `tarfile`,
gets the OSError that means "not this format".
"""

__all__ = ["BZ2File", "BZ2Compressor", "BZ2Decompressor", "open", "compress", "decompress"]

_WHY = "bz2 is not available in this engine; use gzip or zlib, or run the code with `backend: process`"


def _fail(*_, **__):
    raise OSError(_WHY)


class BZ2Compressor:
    def __init__(self, compresslevel=9):
        _fail()


class BZ2Decompressor:
    def __init__(self):
        _fail()


class BZ2File:
    def __init__(self, filename, mode="r", *, compresslevel=9):
        self.name = filename
        self.mode = mode

    read = readline = readlines = write = writelines = seek = tell = peek = read1 = readinto = _fail
    __iter__ = __next__ = _fail

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def open(filename, mode="rb", compresslevel=9, encoding=None, errors=None, newline=None):
    _fail()


def compress(data, compresslevel=9):
    _fail()


def decompress(data):
    _fail()
