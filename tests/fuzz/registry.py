"""All kinds of input."""

from pathlib import Path

from fuzz.folders import folder_kinds
from fuzz.kinds import Kind, file_kinds
from fuzz.projects import project_kind


def all_kinds(work: Path, only: set[str] | None = None) -> list[Kind]:
    """Every kind, or those of these names; their seeds are made below a folder."""
    made = [*file_kinds(work / "files"), *folder_kinds(work / "folders")]
    made.append(project_kind(work / "projects"))
    return [kind for kind in made if not only or kind.name in only]
