"""HTTP requests through ``wasi:http``. Needs: ``Needs().host(HOST, METHODS, WHY)``."""

from __future__ import annotations

import json as _json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from . import _host
from ._error import Error

#: Bytes of one write: the most that ``blocking-write-and-flush`` takes.
_CHUNK = 4096


@dataclass(frozen=True)
class Response:
    """The response to a request."""

    status: int
    #: Names in lower case. Values of a repeated header are joined by commas.
    headers: dict[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """True for a status from 200 to 299."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return _json.loads(self.body)
        except ValueError as error:
            raise Error.network(f"the response is not JSON: {error}") from None


def fetch(url: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | str | None = None,
          json: Any = None) -> Response:
    """Sends a request and returns the response with its body. ``json`` is sent as the body, with its content type."""
    types, handler = _host.http_types, _host.http_handler
    if types is None or handler is None:
        # Raises the error that names the need.
        _host.call(None, "fetch", "Needs().host(HOST, METHODS, WHY)")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Error.invalid_input(f"`{url}` is not a URL: expected http://… or https://…")
    fields = {name.lower(): value for name, value in (headers or {}).items()}
    if json is not None:
        body = _json.dumps(json, ensure_ascii=False)
        fields.setdefault("content-type", "application/json")
    data = body.encode() if isinstance(body, str) else body or b""
    if data:
        fields.setdefault("content-length", str(len(data)))
    request = types.OutgoingRequest(types.Fields.from_list([(name, value.encode()) for name, value in fields.items()]))
    request.set_method(_method(types, method))
    request.set_scheme(types.Scheme_Https() if parts.scheme == "https" else types.Scheme_Http())
    request.set_authority(parts.netloc)
    request.set_path_with_query((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    outgoing = request.body() if data else None
    try:
        future = handler.handle(request, None)
    except _host.Err as error:
        raise _failed(url, error.value) from None
    if outgoing is not None:
        with outgoing.write() as stream:
            for at in range(0, len(data), _CHUNK):
                stream.blocking_write_and_flush(data[at : at + _CHUNK])
        types.OutgoingBody.finish(outgoing, None)
    with future.subscribe() as pollable:
        pollable.block()
    made = future.get()
    result = made.value if isinstance(made, _host.Ok) else made
    if not isinstance(result, _host.Ok):
        raise _failed(url, getattr(result, "value", None))
    response = result.value
    status = response.status()
    received: dict[str, str] = {}
    for name, value in response.headers().entries():
        text, name = value.decode("utf-8", "replace"), name.lower()
        received[name] = f"{received[name]}, {text}" if name in received else text
    return Response(status, received, _read(url, response))


def _read(url: str, response: Any) -> bytes:
    content = bytearray()
    incoming = response.consume()
    with incoming.stream() as stream:
        while True:
            try:
                content += stream.blocking_read(1 << 16)
            except _host.Err as error:
                if type(error.value).__name__ == "StreamError_Closed":
                    return bytes(content)
                raise Error.network(f"{url}: the response ended early") from None


def _method(types: Any, method: str) -> Any:
    name = method.capitalize()
    known = name in ("Get", "Head", "Post", "Put", "Delete", "Connect", "Options", "Trace", "Patch")
    return getattr(types, f"Method_{name}")() if known else types.Method_Other(method)


def _failed(url: str, code: Any) -> Error:
    kind = type(code).__name__.removeprefix("ErrorCode_")
    reason = getattr(code, "value", None)
    text = f"{url}: {kind}" + (f" ({reason})" if reason else "")
    return Error("permission-denied" if kind == "HttpRequestDenied" else "network", text)
