"""Release files: valid by their schemas, and checked before a release."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from seq2see import __version__

ROOT = Path(__file__).parents[2]
RELEASE = runpy.run_path(str(ROOT / "scripts/check_release_files.py"), run_name="release")
SCHEMAS = {
    ".github/workflows/checks.yml": "github-workflows",
    ".github/workflows/release.yml": "github-workflows",
    ".github/ISSUE_TEMPLATE/bug.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/feature.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
    "CITATION.cff": "citation-file-format",
    "compose.yaml": "compose-spec",
}
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.3.0] - 2027-01-01\n\n### Added\n- x\n"


@pytest.mark.parametrize(("path", "schema"), SCHEMAS.items())
def test_files_follow_their_schemas(path: str, schema: str) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, ROOT / path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_all_github_files_have_a_schema() -> None:
    paths = {path.relative_to(ROOT).as_posix() for path in ROOT.glob(".github/**/*.yml")}
    assert paths <= SCHEMAS.keys()


def test_pre_commit_runs_the_checks() -> None:
    client = pytest.importorskip("pre_commit.clientlib")
    config = client.load_config(ROOT / ".pre-commit-config.yaml")
    hooks = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]
    assert hooks == ["scripts/check"]


def test_workflows_run_existing_scripts() -> None:
    for workflow in ROOT.glob(".github/workflows/*.yml"):
        for script in re.findall(r"scripts/\w+", workflow.read_text("utf-8")):
            assert (ROOT / script).stat().st_mode & 0o111, script


def test_citation_has_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_addresses_are_placeholders_in_one_form() -> None:
    """scripts/release looks for this host."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    hosts = {url.split("/")[2] for url in urls.values()}
    assert len(hosts) == 1
    if hosts == {"seq2see.invalid"}:
        assert "seq2see\\.invalid" in (ROOT / "scripts/release").read_text("utf-8")


def test_container_has_no_compiler_or_test_dependencies() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    build, final = text.split("\nFROM ")[1:]
    assert "'.[serve]'" in build
    assert "apt-get" not in text
    assert re.findall(r"(?m)^(USER|HEALTHCHECK|RUN) ", final) == ["RUN", "USER", "HEALTHCHECK"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("x", "x", None),
        ("## [Unreleased]\n", "", "must begin with the section [Unreleased]"),
        ("[Unreleased]\n", "[Unreleased]\n- y\n", "no entries under [Unreleased]"),
        ("2027-01-01", "soon", "must have the section [0.3.0] - DATE"),
        ("- x", "", "must have entries for 0.3.0"),
    ],
)
def test_change_log_is_checked_before_a_release(old: str, new: str, problem: str | None) -> None:
    text = CHANGELOG.replace(old, new)
    problems = list(RELEASE["find_changelog_problems"](text, "0.3.0"))
    assert bool(problems) == (problem is not None)
    assert not problem or problem in problems[0]


def test_version_must_have_three_numbers() -> None:
    assert any("MAJOR.MINOR.PATCH" in problem for problem in RELEASE["find_problems"]("0.3"))
