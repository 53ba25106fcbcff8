"""Compares what a page shows of a command with what the command prints.

What differs from run to run counts as equal: times and ages, the random ends of names, hashes, IP
addresses, Kubernetes' version, the widths of columns, and empty lines. In what the page shows, "…"
stands for any text within a line, and alone on its line for any lines.
"""

import re

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"  # what Kubernetes makes names of
#: What differs, and the word that stands for it; in this order.
_VARIES = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*Z?", "TIME"),
    (r"sha256:[0-9a-f]{64}", "DIGEST"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (rf"(?<=-){_RANDOM}{{5,10}}-{_RANDOM}{{5}}(?![a-z0-9])", "RANDOM"),  # a Deployment's Pod
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "IP"),
    (r"\bv1\.\d+\.\d+\b", "VERSION"),
    (r"\(x\d+ over ", "(xN over "),
    (r"(?<![\w.-])(?:\d+[ydhms])+(?![\w.-])", "AGE"),
    (r"[ \t]+", " "),
)
#: What the shell of the tests says of a background job that was killed; an interactive one differs.
_JOB = re.compile(r"^\S*: line \d+: +\d+ (?:Killed|Terminated) .*\n?", re.MULTILINE)


def matches(shown: str, printed: str) -> bool:
    """Tell whether a command printed what the page shows of it."""
    pattern = "".join(_line(line) for line in _plain(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _plain(printed))) is not None


def includes(shown: str, printed: str) -> bool:
    """Tell whether a command printed these lines in this order, perhaps with others in between."""
    rest = iter(_plain(printed))
    return all(line in rest for line in _plain(shown))


def _plain(text: str) -> list[str]:
    text = _JOB.sub("", text)
    for pattern, word in _VARIES:
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _line(shown: str) -> str:
    if shown == "…":
        return r"(?:.*\n)*"
    return ".*".join(re.escape(part) for part in shown.split("…")) + r"\n"
