"""kopf_offline.compiler: how far it is follows the sizes of what it has begun."""

from pathlib import Path

import pytest

from kopf_offline import compiler


def test_how_far_it_is_follows_the_sizes_of_the_packages(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stale = []
    for package, size in (("example.org/small", 0), ("example.org/large", 800_000)):
        file = tmp_path / f"{size}.go"
        file.write_bytes(b" " * size)
        stale.append(f"{package}\t{tmp_path}\t{file.name}")
    compiled = compiler._Compiled("\n".join(stale), log)

    log.write_text("$ go build\n")
    assert compiled.fraction() is None

    log.write_text("$ go build\ngo: downloading example.org/small v1.0.0\nexample.org/small\n")
    assert compiled.fraction() == pytest.approx(0.1)

    log.write_text("$ go build\nexample.org/small\nexample.org/large\n")
    assert compiled.fraction() == 1


def test_where_all_is_compiled_nothing_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("$ go build\n")

    assert compiler._Compiled("", log).fraction() is None
