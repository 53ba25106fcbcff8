"""What an author's Dockerfile says of its container: user, folder, variables, files, command.

The last stage counts, with what it has from the earlier stage that it is built from. What a base
image of others says is not known. A Pod's manifest may say the command and variables otherwise.
"""

import argparse
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name

#: The options of `uv run` and its like that have a value.
_VALUED = (
    r"with(?:-editable|-requirements)?|(?:no-|only-)?group|(?:no-)?extra|env-file|package|venv"
    r"|(?:default-|extra-)?index(?:-url|-strategy)?|find-links|link-mode|resolution|prerelease"
    r"|(?:upgrade|reinstall|refresh|no-build|no-binary)-package|exclude-newer|keyring-provider"
    r"|python(?:-platform)?|project|directory|config-(?:file|setting)|cache-dir|color"
    r"|allow-insecure-host"
)
_OPTIONS = rf"(?: (?:--(?:{_VALUED})[ =]|-[CPfipw] ?)\S+| --[\w-]+(?:=\S+)?| -[Unqv]+)*+"
#: What only starts another program, with options of its own.
_STARTER = re.compile(
    r"(?:exec"
    r"|(?:\S*/)?tini(?:-static)?(?: -[gsvw]*[ep] ?\S+| -[\w-]+)*+"
    r"|(?:\S*/)?dumb-init(?: (?:-[cv]*r ?|--rewrite[ =])\S+| -[\w-]+)*+"
    r"|(?:\S*/)?catatonit(?: -[\w-]+)*+"
    rf"|(?:uv|poetry|pipenv|pdm|hatch){_OPTIONS} run{_OPTIONS}(?: --)?) "
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?(-|\+)([^}]*))?\})")
#: `$$` is a `$` there.
_OF_A_POD = re.compile(r"\$\$|\$\((\w+)\)")
#: Variables that are about the image, not about the operator.
_OF_THE_IMAGE = re.compile("PATH|HOME|LANG|LC_.*|(PYTHON|PIP_|POETRY_|UV_|PDM_|DEBIAN_|VIRTUAL_).*")


#: Those of an image whose PATH nothing changes, as with Debian's and Python's.
_FOLDERS_OF_PROGRAMS = tuple(
    f"{at}/{name}" for at in ("/usr/local", "/usr", "") for name in ("sbin", "bin")
)
#: The arguments that a build gets.
_GIVEN = re.compile(
    r"(BUILD|TARGET)(PLATFORM|OS|ARCH|VARIANT)|VERSION|REVISION|(BUILD|RUNTIME)_BASE"
)
#: What adds a user of a number and a name.
_ADDED = re.compile(
    r"\b(?:useradd|adduser)\s(?:[^&|;]*\s)?(?:-\w*u|--uid)[=\s]*(\d{1,9})\s(?:[^&|;]*\s)?"
    r"([\w-]+)\s*(?:$|[&|;])"
)
#: A comment at the top that says how a Dockerfile is read; any other ends these.
_DIRECTIVE = re.compile(r"\s*#\s*(escape|syntax|check)\s*=\s*(.+?)\s*", re.IGNORECASE)
#: A word of a shell with its quotes, and one that begins a file within a Dockerfile.
_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*+"|[^\s'"\\])++""")
_HERE = re.compile(r"\d*<<(-?)([^<]+)")


@dataclass(frozen=True)
class Container:
    """How a Dockerfile has its container run."""

    user: str = ""
    #: Empty where only the base image says it.
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    #: What is copied from the context, and where to.
    copies: tuple[tuple[str, str], ...] = ()
    #: The folders beside /tmp that it may write to.
    temporary: tuple[str, ...] = ()
    #: The numbers of the users that are added, by their names.
    numbers: Mapping[str, str] = field(default_factory=dict)
    #: Arguments without a default by which its base images are named.
    lacking: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """The command, without a shell, and without what only starts it."""
        words = (*self.entrypoint, *self.arguments)
        while words:
            starter = _STARTER.match(" ".join(words))
            if not starter and not _is_of_a_shell(words):
                break
            script = "".join(words[2:3])
            started = words[starter[0].count(" ") :] if starter else ()
            words = started or _of_a_shell(script, self.environment)
        return words

    @property
    def is_root(self) -> bool:
        """Whether it runs as root, as it does where no stage names a user."""
        return self.user in ("", "root", "0")

    @property
    def own_environment(self) -> dict[str, str]:
        """The variables that may be about the operator."""
        own = self.environment.items()
        return {name: value for name, value in own if not _OF_THE_IMAGE.fullmatch(name)}

    @property
    def path(self) -> dict[str, str]:
        """The variable by which its programs are found in the folder of its command's program."""
        folder = "".join(self.command[:1]).rpartition("/")[0]
        former = [each for each in self.environment.get("PATH", "").split(":") if each]
        found = not folder or folder in (*former, *_FOLDERS_OF_PROGRAMS)
        return {} if found else {"PATH": ":".join((folder, *former, *_FOLDERS_OF_PROGRAMS))}

    def imports_from(self, folder: str) -> bool:
        """Return whether `python3 -m` finds modules in a folder of the container."""
        paths = self.environment.get("PYTHONPATH", "").split(":")
        return PurePosixPath(folder) in map(PurePosixPath, (self.folder or "/", *paths))

    def place(self, file: str) -> str:
        """Return where a file of the context is in the container; empty if it is not copied."""
        for source, target in reversed(self.copies):
            inside = PurePosixPath(target)
            if source == ".":
                return str(inside / file)
            if source == file:
                return str(inside / file.rpartition("/")[2]) if target.endswith("/") else target
            if file.startswith(f"{source}/"):
                return str(inside / file.removeprefix(f"{source}/"))
        return ""


@dataclass(frozen=True)
class KopfRun:
    """What the arguments of `kopf run` say."""

    modules: tuple[str, ...] = ()
    #: Files in the container.
    files: tuple[str, ...] = ()
    #: None where the command does not say what is watched.
    namespaces: tuple[str, ...] | None = None
    #: By which it knows of others; empty where it has none of its own.
    peering: str = ""


def read(text: str) -> Container:
    """Return what a Dockerfile says of the container of its last stage."""
    stages: dict[str, Container] = {}
    stage, name, arguments, lacking = Container(), "", dict[str, str](), dict[str, None]()
    for instruction, rest in _instructions(text):
        known = {**arguments, **stage.environment}
        if instruction == "FROM":
            used = {each[1] or each[2]: None for each in _VARIABLE.finditer(rest) if not each[3]}
            lacking |= {key: None for key in used if not _GIVEN.fullmatch(key)}
            words = re.sub(r"--\S+\s+", "", _filled(rest, arguments)).split()
            stage = stages.get(words[0].lower(), Container()) if words else Container()
            name = words[2].lower() if len(words) > 2 else ""
        elif instruction == "ARG":
            arguments |= {key: _filled(value, known) for key, value in _pairs(rest) if value}
        else:
            stage = replace(stage, **_changes(stage, instruction, rest, known))
        stages[name] = stage
    return replace(stage, lacking=tuple(key for key in lacking if key not in arguments))


def started(image: Container, manifest: Mapping[str, Any]) -> Container:
    """Return the container of an image as its part of a Pod's manifest has it, see `in_pod`.

    A variable that is not in the manifest itself, such as one of a Secret, stays $(NAME).
    """
    listed = (each for each in _objects(manifest, "env") if {"name", "value"} <= each.keys())
    given = {str(e["name"]): "" if e["value"] is None else str(e["value"]) for e in listed}
    known = {**image.environment, **given}
    command, arguments = (_started(manifest.get(key), known) for key in ("command", "args"))
    served = (each.get("containerPort") for each in _objects(manifest, "ports"))
    ports = [port for port in served if type(port) is int]  # no bool
    user = (manifest.get("securityContext") or {}).get("runAsUser")
    is_number = type(user) is int and 0 < user < 2**31
    empty = [each.get("name") for each in _objects(manifest, "volumes") if "emptyDir" in each]
    mounts = _objects(manifest, "volumeMounts")
    mounted = (each.get("mountPath") for each in mounts if each.get("name") in empty)
    return replace(
        image,
        user=str(user) if is_number else image.numbers.get(image.user, image.user),
        temporary=temporary(path for path in mounted if isinstance(path, str)),
        environment=known,
        entrypoint=command or image.entrypoint,
        arguments=arguments or (() if command else image.arguments),
        ports=tuple(dict.fromkeys((*image.ports, *ports))),
    )


def temporary(folders: Iterable[str]) -> tuple[str, ...]:
    """Return absolute paths, each once, without /tmp, which each Pod has."""
    absolute = (posixpath.normpath(folder) for folder in folders if folder.startswith("/"))
    return tuple(folder for folder in dict.fromkeys(absolute) if folder != "/tmp")  # noqa: S108


def in_pod(pod: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container's manifest with what its Pod says for it: volumes, and the user."""
    contexts = (each.get("securityContext") for each in (pod, manifest))
    security = {
        key: value for each in contexts if isinstance(each, dict) for key, value in each.items()
    }
    return {**manifest, "volumes": pod.get("volumes"), "securityContext": security}


def referred(manifest: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return what a Pod's manifest takes from a Secret or the like, by the chart's value for it."""
    empty = [each.get("name") for each in _objects(manifest, "volumes") if "emptyDir" in each]
    sources = [s for e in _objects(manifest, "envFrom") for s in e.values() if isinstance(s, dict)]
    return {
        "extraEnv": tuple(
            str(each.get("name"))
            for each in _objects(manifest, "env")
            if "valueFrom" in each and not str(each.get("name")).startswith("POD_")
        ),
        "extraEnvFrom": tuple(f"of {each.get('name')}" for each in sources),
        "extraVolumes": tuple(
            str(each.get("mountPath"))
            for each in _objects(manifest, "volumeMounts")
            if each.get("name") not in empty
        ),
    }


def _objects(manifest: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = manifest.get(key)
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def runs_kopf(manifest: Mapping[str, Any]) -> bool:
    """Return whether a Pod's manifest itself has a container run kopf."""
    return kopf_run(started(Container(), manifest).command) is not None


def called(image: str) -> str:
    """Return the name of an image, such as a.example/b/notes:1.0, as an index has it."""
    return canonicalize_name(image.rpartition("/")[2].partition("@")[0].partition(":")[0])


def _started(words: Any, known: Mapping[str, str]) -> tuple[str, ...]:
    if not isinstance(words, list):
        return ()
    return tuple(_OF_A_POD.sub(lambda m: known.get(m[1], m[0]), str(word)) for word in words)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile, each on one line, without the files within it."""
    lines, line, at = text.removeprefix("\ufeff").split("\n"), "", 0
    directives = takewhile(bool, map(_DIRECTIVE.fullmatch, lines))
    escapes = (each[2] for each in directives if each and each[1].lower() == "escape")
    escape = re.escape(next(escapes, "\\"))
    continued = re.compile(rf"(?<!{escape}){escape}[ \t]*$")
    while at < len(lines):
        part, at = lines[at], at + 1
        if part.strip() and not part.lstrip().startswith("#"):
            line += continued.sub("", part)
            if continued.search(part) and at < len(lines):
                continue
        elif at < len(lines):  # within an instruction, too
            continue
        instruction, rest = [*line.split(maxsplit=1), "", ""][:2]
        line = ""
        if instruction:
            yield instruction.upper(), rest.strip()
        for is_indented, end in _here(instruction, rest):
            left = (each.lstrip("\t") if is_indented else each for each in lines[at:])
            at = next((n for n, each in enumerate(left, at + 1) if each == end), at)


def _here(instruction: str, rest: str) -> list[tuple[bool, str]]:
    """Return the last lines of the files that an instruction begins, and whether tabs precede it.

    Each is a whole word, so that none is within quotes.
    """
    if instruction.upper() == "ONBUILD":
        instruction, rest = [*rest.split(maxsplit=1), "", ""][:2]
    if instruction.upper() not in ("RUN", "COPY", "ADD") or _WORD.sub("", rest).strip():
        return []
    found = filter(None, map(_HERE.fullmatch, _WORD.findall(rest)))
    return [(each[1] == "-", "".join(_shell_words(each[2]))) for each in found]


def _shell_words(text: str) -> list[str]:
    """Return the words of a line, as a shell has them."""
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed
        return text.split()


def _changes(
    stage: Container, instruction: str, rest: str, known: Mapping[str, str]
) -> dict[str, Any]:
    """Return what an instruction changes in a container."""
    match instruction:
        case "USER":
            return {"user": _filled(rest, known).strip("\"' ").partition(":")[0]}
        case "RUN":
            numbers = {name: number for number, name in _ADDED.findall(_filled(rest, known))}
            return {"numbers": {**stage.numbers, **numbers}}
        case "WORKDIR":
            return {"folder": _inside(stage, _filled(rest, known))}
        case "ENV":
            values = {name: _filled(value, known) for name, value in _pairs(rest)}
            return {"environment": {**stage.environment, **values}}
        case "EXPOSE":
            ports = re.findall(r"\b(\d+)(?:/tcp)?(?=\s|$)", _filled(rest, known))
            return {"ports": (*stage.ports, *map(int, ports))}
        case "ENTRYPOINT":
            return {"entrypoint": _words(rest, known), "arguments": ()}
        case "CMD":
            return {"arguments": _words(rest, known)}
        case "COPY" | "ADD" if "--from" not in rest:
            words = [word for word in _words(rest, known) if not word.startswith("--")]
            several = len(words) > 2 or (words and words[-1].endswith(("/", ".")))
            target = _inside(stage, words[-1]).rstrip("/") + "/" * bool(several) if words else ""
            added = ((str(PurePosixPath(source)), target or "/") for source in words[:-1])
            return {"copies": (*stage.copies, *added)}
    return {}


def _inside(stage: Container, folder: str) -> str:
    return str(PurePosixPath(stage.folder or "/") / folder.strip("\"' "))


def _pairs(rest: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of an ENV or ARG."""
    if "=" not in rest.split(" ")[0]:
        name, _, value = rest.partition(" ")
        yield name, value.strip()
        return
    for word in _shell_words(rest):
        name, _, value = word.partition("=")
        yield name, value


def _filled(text: str, known: Mapping[str, str], unknown: str = "") -> str:
    """Return a text with the values of variables."""

    def value(match: re.Match[str]) -> str:
        name, sign, other = match[1] or match[2], match[3], match[4]
        if sign == "+":
            return other if known.get(name) else ""
        return known.get(name) or (other if sign == "-" else unknown.format(name))

    return _VARIABLE.sub(value, text)


def _words(rest: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of a command: JSON is run as it is, and anything else by a shell.

    A variable that only the container's start says is as in a Pod, such as $(NAMESPACE).
    """
    try:
        words = json.loads(rest) if rest.startswith("[") else None
    except ValueError:
        words = None
    if isinstance(words, list):
        return tuple(str(word) for word in words)
    return _of_a_shell(rest, known)


def _is_of_a_shell(words: Sequence[str]) -> bool:
    shells = ("sh", "bash", "ash", "dash")
    is_shell = words[0].rpartition("/")[2] in shells
    return is_shell and re.fullmatch(r"-\w*c", "".join(words[1:2])) is not None


def _of_a_shell(script: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the last command of a script of a shell."""
    last = re.split(r"&&|;|\|\|", script)[-1]
    found = _shell_words(_filled(last, known, "$({})"))
    while found and re.fullmatch(r"\w+=.*", found[0]):
        del found[0]
    return tuple(found)


def kopf_run(command: Sequence[str]) -> KopfRun | None:
    """Return what a command has `kopf run` do, or None if it runs something else."""
    words = [*command]
    if words and re.fullmatch(r"(.*/)?python[\d.]*", words[0]):
        words = [word for word in words[1:] if word not in ("-u", "-O", "-B")]
        if words[:1] != ["-m"]:
            return None
        del words[0]
    if not words or words[0].rpartition("/")[2] != "kopf" or "run" not in words:
        return None
    said, others = _options().parse_known_args(words[words.index("run") + 1 :])
    spaces = [space for each in said.namespace for space in (each or "").split(",") if space]
    files = (word for word in others if not word.startswith("-"))
    namespaces = () if said.everywhere else tuple(spaces) or None
    peering = "" if said.standalone else said.peering or ""
    return KopfRun(tuple(filter(None, said.module)), tuple(files), namespaces, peering)


def _options() -> argparse.ArgumentParser:
    """Return the options of `kopf run` that have a value or say what is watched."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("-m", "--module", action="append", default=[], nargs="?")
    options.add_argument("-n", "--namespace", action="append", default=[], nargs="?")
    every = ("-A", "--all-namespaces", "--clusterwide")
    options.add_argument(*every, action="store_true", dest="everywhere")
    options.add_argument("--standalone", action="store_true")
    for names in (("-L", "--liveness"), ("-P", "--peering"), ("-p", "--priority")):
        options.add_argument(*names, nargs="?")
    options.add_argument("--log-format", nargs="?")
    return options
