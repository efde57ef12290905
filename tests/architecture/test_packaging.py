"""The wheel runs in a clean environment outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "-o",
        directory,
        ROOT,
        cwd=directory,
    )
    (built,) = directory.glob("*.whl")
    return built


def test_wheel_contains_all_package_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "src"
    files = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert {p.relative_to(package).as_posix() for p in files} <= names
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


def test_wheel_runs_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    """Dependencies are taken from this environment, the package itself is not."""
    environment = tmp_path / "venv"
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel, cwd=tmp_path)
    site = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    )
    # A path in a .pth file is searched last, and .pth files in it (one installs this checkout) are
    # not read.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    check_command(environment, site, tmp_path)


@pytest.mark.slow
def test_wheel_installs_with_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    site = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    )
    check_command(environment, site, tmp_path)


def check_command(environment: Path, site: Path, directory: Path) -> None:
    module_path = run(
        environment / "bin" / "python",
        "-c",
        "import seq2see; print(seq2see.__file__)",
        cwd=directory,
    )
    assert Path(module_path.strip()).is_relative_to(site)
    assert "63,082,496" in run(environment / "bin" / "seq2see", "info", "base", cwd=directory)
    demo = run(environment / "bin" / "seq2see", "demo", "--max-epochs", "0.01", cwd=directory)
    assert "ambiguous pronouns are correct" in demo
