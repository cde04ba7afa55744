"""The wheel, built from the tree and installed elsewhere, works."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from released import faults

import hardner

ROOT = Path(__file__).parents[1]


def call(*words: str | Path, cwd: Path, python: str | Path = sys.executable) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [str(python), *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    setuptools = pytest.importorskip("setuptools", reason="wheels are built by setuptools")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip("the wheel is built by setuptools 77 or newer")
    folder = tmp_path_factory.mktemp("wheel")
    # From a copy: setuptools leaves a folder `build` where it works.
    copy = folder / "tree"
    copy.mkdir()
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        (copy / name).symlink_to(ROOT / name)
    pip = ("-m", "pip", "wheel", copy, "--no-deps", "--no-build-isolation", "--quiet")
    call(*pip, "--wheel-dir", folder / "dist", cwd=folder)
    (made,) = (folder / "dist").glob("*.whl")
    return made


def test_an_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    call("-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = ("-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel)
    call(*pip, cwd=tmp_path)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(call("-c", code, cwd=tmp_path, python=python).strip())
    # What hardner needs is taken from the environment of the tests, hardner itself is not.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    said = call(ROOT / "tests" / "installed.py", cwd=tmp_path, python=python)
    assert said == f"hardner {hardner.__version__} at {site / 'hardner'} works\n"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    roots = {name.partition("/")[0] for name in names}
    assert roots == {"hardner", f"hardner-{hardner.__version__}.dist-info"}
    tracked = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "hardner").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in names if name.startswith("hardner/")} == tracked


def test_what_may_not_be_published_is_told(wheel: Path) -> None:
    folder, version = wheel.parent, f"v{hardner.__version__}"
    assert faults(folder, version) == [f"{folder} should hold one wheel and one source archive"]
    (folder / "hardner.tar.gz").touch()
    assert f"the tag is v9.9.9, the version {version[1:]}" in faults(folder, "v9.9.9")
    placeholder = "pyproject.toml: write the addresses of the project into [project.urls]"
    says = "example.org" in (ROOT / "pyproject.toml").read_text("utf-8")
    assert (placeholder in faults(folder, version)) == says
