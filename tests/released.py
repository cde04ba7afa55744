"""Whether a built wheel may be published as a tag: python released.py DIST v0.1.0."""

import sys
import zipfile
from email.parser import Parser
from pathlib import Path


def faults(folder: Path, tag: str) -> list[str]:
    """What speaks against it, a line each."""
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1 or len(sorted(folder.glob("*.tar.gz"))) != 1:
        return [f"{folder} should hold one wheel and one source archive"]
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(wheel.read(name).decode("utf-8"))
    found = []
    if tag != f"v{about['Version']}":
        found.append(f"the tag is {tag}, the version {about['Version']}")
    if any("example.org" in url for url in about.get_all("Project-URL", [])):
        found.append("pyproject.toml: write the addresses of the project into [project.urls]")
    return found


if __name__ == "__main__":
    found = faults(Path(sys.argv[1]), sys.argv[2])
    print(*found, sep="\n")
    sys.exit(bool(found))
