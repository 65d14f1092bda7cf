"""What a user gets with the packages: the licence, types for type checkers, and a command that needs no PATH."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("plans", "crown", "ivm_triangle", "spark_jobs", "bench")


@pytest.fixture(scope="module")
def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_the_licence_that_the_metadata_name_is_there(setup: configparser.ConfigParser) -> None:
    assert setup["metadata"]["license"] == "Apache-2.0"
    text = (ROOT / setup["metadata"]["license_files"]).read_text()
    assert "Apache License" in text.splitlines()[0]
    assert "Version 2.0" in text.splitlines()[1]
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_has_types(package: str, setup: configparser.ConfigParser) -> None:
    assert (ROOT / package / "py.typed").is_file()
    assert setup["options.package_data"]["*"] == "py.typed"
    assert f"{package}*" in setup["options.packages.find"]["include"].split()
