"""The archive for installing by hand: program, README, licences, manual pages and completions."""

from pathlib import Path

from .archives import Entry, write_tar_gz, write_zip
from .documents import readme
from .release_input import ReleaseInput


def make_archive(given: ReleaseInput) -> Path:
    """Writes the `.tar.gz`, or the `.zip` for Windows."""
    top = f"mimir-{given.version}-{given.target.triple}"
    files = {given.target.program: given.program_entry, "README.md": Entry(readme())}
    for name, text in given.documents.licences.items():
        files[name] = Entry(text)
    if not given.is_windows:
        for name, text in given.documents.man.items():
            files[f"man/man1/{name}"] = Entry(text)
    for shell, text in given.documents.completions.items():
        if (shell == "powershell") == given.is_windows:
            files[f"completions/{completion_name(shell)}"] = Entry(text)
    files = {f"{top}/{name}": entry for name, entry in files.items()}
    path = given.out / (f"{top}.zip" if given.is_windows else f"{top}.tar.gz")
    write_zip(path, files) if given.is_windows else write_tar_gz(path, files)
    return path


def completion_name(shell: str) -> str:
    """A file name that says for which shell it is."""
    return {"bash": "mimir.bash", "zsh": "_mimir", "fish": "mimir.fish", "powershell": "mimir.ps1"}[shell]
