"""A folder that a command is to write a model into."""

from pathlib import Path

from hardner.errors import FileError


def check_model_folder(out: Path, force: bool) -> None:
    """Before any work, whether the model can be put there."""
    from hardner.checkpoint import CONFIG

    if out.exists() and not force:
        raise FileError(out, "exists already; name another folder, or replace it with --force")
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / CONFIG).is_file())):
        raise FileError(out, "is not a hardner model, so it is not replaced; name another folder")
