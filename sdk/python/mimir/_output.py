"""Results of tools: text, structured content, images, audio, files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from . import _schema

T = TypeVar("T")


@dataclass
class Json(Generic[T]):
    """Structured content with a text for the model. Without ``text``, the text is compact JSON."""

    value: T
    text: str | None = None


@dataclass
class Output:
    """The result of a call, with any number of content parts.

    >>> Output.of("Two pages").image("image/png", b"\\x89P").parts[1][0]
    'image'
    """

    #: Kind (``text``, ``image``, ``audio``, ``file``) and the fields of each part.
    parts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    structured: Any = None
    exit_code: int | None = None

    @classmethod
    def of(cls, text: str) -> "Output":
        """Creates a result with one text part."""
        return cls().text(text)

    def text(self, text: str) -> "Output":
        """Adds a text part."""
        self.parts.append(("text", {"text": text}))
        return self

    def image(self, mime_type: str, data: bytes) -> "Output":
        """Adds an image."""
        self.parts.append(("image", {"mime_type": mime_type, "data": data}))
        return self

    def audio(self, mime_type: str, data: bytes) -> "Output":
        """Adds audio."""
        self.parts.append(("audio", {"mime_type": mime_type, "data": data}))
        return self

    def file(self, name: str, mime_type: str, data: bytes) -> "Output":
        """Adds a file for the caller."""
        self.parts.append(("file", {"name": name, "mime_type": mime_type, "data": data}))
        return self

    def texts(self) -> list[str]:
        """Returns the text parts."""
        return [fields["text"] for kind, fields in self.parts if kind == "text"]


def to_output(value: Any) -> Output:
    """Converts the return value of a tool."""
    if isinstance(value, Output):
        return value
    if value is None:
        return Output()
    if isinstance(value, str):
        return Output.of(value)
    text = None
    if isinstance(value, Json):
        value, text = value.value, value.text
    plain = _schema.to_json(value)
    output = Output.of(json.dumps(plain, ensure_ascii=False, separators=(",", ":")) if text is None else text)
    output.structured = plain
    return output
