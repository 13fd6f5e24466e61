"""Programs on the host, each run through the command policy and its sandbox. Needs: ``Needs().command(PATTERN, WHY)``."""

from __future__ import annotations

from dataclasses import dataclass

from . import _host

_NEED = "Needs().command(PATTERN, WHY)"


@dataclass(frozen=True)
class Finished:
    """Result of a program."""

    #: Exit code; 128 plus the signal number if a signal ended the program.
    exit_code: int
    stdout: bytes
    stderr: bytes
    #: Both streams in the order of arrival.
    combined: bytes
    #: True if a stream exceeded the output limit, in which case its middle is missing.
    truncated: bool
    #: Run time in seconds.
    duration: float

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode("utf-8", "replace")


def run(program: str, *arguments: str, directory: str | None = None, env: dict[str, str] | None = None,
        stdin: bytes | str = b"", timeout: float | None = None) -> Finished:
    """Runs a program without a shell. ``timeout`` is in seconds, ``directory`` relative to the workspace."""
    module = _host.commands
    data = stdin.encode() if isinstance(stdin, str) else stdin
    command = module and module.Command(program, list(arguments), directory, list((env or {}).items()), data, _ms(timeout))
    return _finished(_host.call(module, "run", _NEED, command))


def shell(script: str, *, directory: str | None = None, timeout: float | None = None) -> Finished:
    """Runs a shell script. The host parses it and decides about each simple command in it."""
    return _finished(_host.call(_host.commands, "run_shell", _NEED, script, directory, _ms(timeout)))


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else max(0, round(seconds * 1000))


def _finished(made) -> Finished:
    return Finished(made.exit_code, made.stdout, made.stderr, made.combined, made.truncated, made.duration_ms / 1000)
