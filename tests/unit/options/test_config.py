from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.config import configured

needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is read from Python 3.11 on")


def write(folder: Path, text: str) -> dict[str, str]:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return {"PAIMON_CONFIG": str(path)}


def test_nothing_is_configured_where_there_is_no_file(tmp_path: Path) -> None:
    assert configured({"XDG_CONFIG_HOME": str(tmp_path)}) == {}


@needs_toml
def test_the_file_gives_a_warehouse_and_file_system_options(tmp_path: Path) -> None:
    environ = write(
        tmp_path, 'warehouse = "/wh"\n"fs.key" = "k"\n[s3]\nendpoint = "http://x"\n"path.style.access" = true\n'
    )
    assert configured(environ) == {
        "warehouse": "/wh",
        "fs.key": "k",
        "s3.endpoint": "http://x",
        "s3.path.style.access": "true",
    }


@needs_toml
def test_the_environment_wins(tmp_path: Path) -> None:
    environ = write(tmp_path, 'warehouse = "/wh"')
    assert configured({**environ, "PAIMON_WAREHOUSE": "/other"}) == {"warehouse": "/other"}


@needs_toml
def test_a_file_changed_is_read_again(tmp_path: Path) -> None:
    import os

    environ = write(tmp_path, 'warehouse = "/a"')
    assert configured(environ)["warehouse"] == "/a"
    write(tmp_path, 'warehouse = "/b"')
    os.utime(tmp_path / "config.toml", ns=(1, 1))
    assert configured(environ)["warehouse"] == "/b"


@needs_toml
@pytest.mark.parametrize(
    ("text", "words"),
    [("warehouse = ", "cannot be read"), ('warehous = "x"', "unknown"), ("warehouse = [1]", "expected text")],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        configured(write(tmp_path, text))
    assert words in str(caught.value)
    assert "config.toml" in str(caught.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="PAIMON_CONFIG"):
        configured({"PAIMON_CONFIG": str(tmp_path / "none.toml")})
