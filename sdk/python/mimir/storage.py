"""Small values stored between calls, private to the plugin and to the workspace: at most 1,000 values, 1 MB each and
16 MB in total."""

from __future__ import annotations

from . import _host


def get(key: str) -> bytes | None:
    """Returns the value of a key, or ``None`` if the key does not exist."""
    return _host.call(_host.storage, "get", "storage", key)


def set(key: str, value: bytes | str) -> None:  # noqa: A001
    """Sets the value of a key."""
    _host.call(_host.storage, "set", "storage", key, value.encode() if isinstance(value, str) else value)


def delete(key: str) -> None:
    """Removes a key."""
    _host.call(_host.storage, "delete", "storage", key)


def keys(prefix: str = "") -> list[str]:
    """Lists the keys that begin with a prefix."""
    return _host.call(_host.storage, "keys", "storage", prefix)
