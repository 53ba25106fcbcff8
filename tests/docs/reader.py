"""Someone who reads a page with a shell beside it, and does what it says, step by step."""

import os
import re
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from kopf_kit.rig import cluster
from tests.support.console import Listing, Step, changed, matches

CHECKOUT = Path(__file__).parents[2]

#: Commands that only look, and are repeated until they show what the page shows.
_LOOK = re.compile(r"^(kubectl (-n \S+ )?(get|logs|describe|events|message|auth)|cat|grep|tail) ")
#: Programs that answer by the exit code 1: nothing is found, or something is wrong.
_ANSWER = re.compile(r"\| grep .+$|^kubectl (message|auth can-i) ")
#: Seconds that a command may take, and that a look is repeated.
_TIMEOUT = 1700.0
_PATIENCE = 300.0


def named_as_of_the_user(printed: str) -> str:
    """Return an output with the names of the pages: the cluster of `make demo`, and /home/you."""
    printed = re.sub(r"(/[\w.-]+)+/home-of-you\.\w+", "/home/you", printed)
    return printed.replace(f"{cluster.TEST_NAME}-", f"{cluster.NAME}-")


class Reader:
    """One shell, in a folder, with these variables."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._words: Mapping[str, str] = {}
        self._written: set[Path] = set()
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    @classmethod
    def here(cls, programs: Path, **environment: str) -> "Reader":
        """Return somebody in the checkout, with our environment, these programs and variables."""
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        return cls(CHECKOUT, {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", **environment})

    def elsewhere(self, folder: Path) -> "Reader":
        """Return somebody with the same programs and variables, who begins in another folder."""
        other = Reader(folder, self._environment)
        other.type(f"{self.type('declare -px')}\ncd '{folder}'")
        return other

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the shell, and what runs in its background."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()

    def prepares(self, *commands: str) -> None:
        """Type what makes the situation that a page is about."""
        for command in commands:
            self.type(command)

    def follow(
        self, page: Iterable[Step | Listing], words: Mapping[str, str] | None = None, at: str = ""
    ) -> None:
        """Do each step; a command must succeed, and print what the page shows.

        `words` are what the reader puts in the place of words of the page, and `at` is where the
        steps are in it.
        """
        self._words = words or {}
        for step in page:
            if isinstance(step, Listing):
                self.write(step)
                continue
            command = self._worded(step.command)
            looks = _LOOK.match(command)
            status, printed = self._look(command, step) if looks else self.types(command)
            where = f"{at}\n$ {command}\n{printed}"
            assert self._succeeded(step, status, printed), f"{where}\nended with {status}"
            assert self._shows(step, printed), f"{where}\nbut the page shows\n{step.output}"

    def write(self, listing: Listing) -> None:
        """Write a listing into its file, or change the file as a diff says."""
        file = Path(self.type("pwd").strip(), listing.file)
        text = listing.text
        if listing.language == "diff":
            text = changed(file.read_text(), text)
        elif file in self._written:
            text = f"{file.read_text()}\n\n{text}"
        self._written.add(file)
        file.write_text(text)

    def type(self, command: str) -> str:
        """Type a command, which must succeed; return what it prints."""
        status, printed = self.types(command)
        assert status == 0, f"$ {command}\n{printed}\nended with {status}"
        return printed

    def types(self, command: str) -> tuple[int, str]:
        """Type a command; return its exit code, and what it prints."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        end = secrets.token_hex(8)
        self._bash.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s %d\\n' {end} $?\n")
        self._bash.stdin.flush()
        printed: list[str] = []
        timer = threading.Timer(_TIMEOUT, os.killpg, (self._bash.pid, signal.SIGKILL))
        timer.start()
        try:
            for line in self._bash.stdout:
                if line.startswith(end):
                    return int(line.split()[1]), "".join(printed)
                printed.append(line)
        finally:
            timer.cancel()
        raise AssertionError(f"$ {command}\n{''.join(printed)}\ndid not end, or ended the shell")

    def _look(self, command: str, step: Step) -> tuple[int, str]:
        """Type a command until it shows what the page shows, or patience is at its end."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            status, printed = self.types(command)
            well = self._succeeded(step, status, printed) and self._shows(step, printed)
            if well or time.monotonic() > deadline:
                return status, printed
            time.sleep(0.5)

    def _succeeded(self, step: Step, status: int, printed: str) -> bool:
        """Tell whether a command ended well; a search that finds nothing must print nothing."""
        answers = status == 1 and _ANSWER.search(step.command)
        return status == 0 or bool(answers and (step.output or not printed.strip()))

    def _shows(self, step: Step, printed: str) -> bool:
        return not step.output or matches(self._worded(step.output), named_as_of_the_user(printed))

    def _worded(self, text: str) -> str:
        for word, mine in self._words.items():
            text = mine.join(re.split(rf"(?<!\w){re.escape(word)}(?!\w)", text))
        return text
