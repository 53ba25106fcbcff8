"""`make docs` and `make docs ARGS=serve`: the documentation site, in all its languages."""

import functools
import shutil
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import click
import watchfiles

from hack import site
from kopf_kit.rig import paths, pythons
from kopf_kit.rig.run import HackError, output

SITE = paths.BUILD / "site"


@click.command()
def command() -> None:  # noqa: D103 (the program has its help)
    build(SITE)
    print(f"{SITE.relative_to(paths.CHECKOUT)}/index.html is the site's first page")


@click.command()
@click.option("--port", default=8000, type=click.IntRange(0, 65535))
def serve(port: int) -> None:  # noqa: D103
    with _server(port) as server:
        build(SITE)
        Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}/ has the site; Ctrl-C ends it", flush=True)
        _rebuild_after_changes()


def build(into: Path) -> None:
    """Build the site; raise HackError with what the generator warned of."""
    python = pythons.python("docs-python", "docs")
    shutil.rmtree(paths.BUILD / "docs", ignore_errors=True)
    for language in site.site().languages:
        folder = paths.BUILD / "docs" / language
        (folder / "pages").mkdir(parents=True)
        site.lay_out(language, folder / "pages")
        file = folder / "zensical.yml"
        file.write_text(site.configuration(language, folder))
        output([python, "-m", "zensical", "build", "--strict", "-f", file], timeout=300)
    shutil.rmtree(into, ignore_errors=True)
    for language, own in site.site().languages.items():
        shutil.copytree(paths.BUILD / "docs" / language / "site", into / own.folder)


def _server(port: int) -> ThreadingHTTPServer:
    """Return a server of the site that listens; raise HackError if it cannot, before it is built.

    Port 0 is any that is free.
    """
    handler = functools.partial(SimpleHTTPRequestHandler, directory=SITE)
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise HackError(
            f"PORT={port} cannot be listened on: {error.strerror}. Choose another port."
        ) from error


def _rebuild_after_changes() -> None:
    """Build the site again whenever one of its sources was written, until Ctrl-C."""
    folders = ("docs", "charts", "operator", "packages", "deploy", "hack", "Makefile")
    sources = (*(paths.CHECKOUT / name for name in folders), *paths.CHECKOUT.glob("*.md"))
    for _ in watchfiles.watch(*sources):
        try:  # in a process of its own: the code may have changed, too
            output([sys.executable, "-m", "hack", "docs"], timeout=600, cwd=paths.CHECKOUT)
            print("built again", flush=True)
        except HackError as error:
            print(error, flush=True)
