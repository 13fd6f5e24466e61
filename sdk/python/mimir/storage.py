"""Small values stored between calls, private to the plugin and to the workspace: at most 1,000 values, 1 MB each and
16 MB in total. In unit tests, values are in memory, without these limits."""

from __future__ import annotations

from . import _host


def get(key: str) -> bytes | None:
    """Returns the value of a key, or ``None`` if the key does not exist."""
    values = _test_values()
    return _host.call(_host.storage, "get", "storage", key) if values is None else values.get(key)


def set(key: str, value: bytes | str) -> None:  # noqa: A001
    """Sets the value of a key."""
    values, data = _test_values(), value.encode() if isinstance(value, str) else value
    if values is None:
        _host.call(_host.storage, "set", "storage", key, data)
    else:
        values[key] = bytes(data)


def delete(key: str) -> None:
    """Removes a key."""
    values = _test_values()
    if values is None:
        _host.call(_host.storage, "delete", "storage", key)
    else:
        values.pop(key, None)


def keys(prefix: str = "") -> list[str]:
    """Lists the keys that begin with a prefix."""
    values = _test_values()
    if values is None:
        return _host.call(_host.storage, "keys", "storage", prefix)
    return sorted(key for key in values if key.startswith(prefix))


def _test_values() -> dict[str, bytes] | None:
    return None if _host.IS_COMPONENT else _host.test_storage
