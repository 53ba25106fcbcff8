"""A new operator's repository, as `kopf-kit new` writes it: complete, or not at all.

An author's answers are its name, its kind and its group; the rest follows.
"""

import importlib.metadata
import importlib.util
import keyword
import re
import shutil
import string
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kopf_kit.compatible import specifier
from kopf_kit.project import documents
from kopf_kit.rig import kubectl_yaml, reading, versions
from kopf_kit.rig.run import KitError, output
from kopf_runtime.declaring import kinds

#: The tests' cluster is called after the operator, and its node `NAME-test-control-plane`: a host's
#: name has at most 63 characters.
_LONGEST_NAME = 63 - len("-test-control-plane")
#: The API server wants kinds and plurals to be DNS labels in lower case.
_LONGEST_KIND = 63
#: OperatorHub takes no shorter one.
_SHORTEST_TITLE = 3
#: A CRD, and the longest role of its users, are called `PLURAL.GROUP-admin`.
_LONGEST_ROLE = 253
#: What the operator's module has beside the kind, what the folders of the repository are called,
#: and what follows `kopf-kit new` with another meaning.
#: Style has no class I or O, which look like digits.
_CLASSES = ("Annotated", "Any", "I", "Iterable", "O", "Settings", "Spec")
_FOLDERS = ("charts", "examples", "olm", "tests")
_SUBCOMMANDS = ("kind", "olm")
_BUILT_IN = {each.kind.lower() for each in vars(kinds).values() if isinstance(each, kinds.Kind)}
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#: Who has the repository, as long as nobody says.
_OWNER = "example"
#: The API server wants an approval of Kubernetes' own reviewers in a kind of these.
_KUBERNETES = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")


@dataclass(frozen=True)
class Answers:
    """What an author says of a new operator; raises KitError if it is invalid."""

    name: str
    kind: str
    group: str
    #: Whether the Operator Lifecycle Manager is a way to install it.
    olm: bool = True
    #: The operator's page; empty stands for a placeholder.
    home: str = ""
    #: Whether there is a README in Korean, too.
    korean: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        check_home(self.home)
        check_kind(self.kind)
        check_group(self.group)
        if len(f"{self.plural}.{self.group}-admin") > _LONGEST_ROLE:
            raise KitError(
                f"the kind `{self.kind}` in the group of {len(self.group)} characters makes names "
                f"of more than {_LONGEST_ROLE}; use a shorter group"
            )
        for word in (self.name, self.kind, self.plural, self.domain, self._first_part):
            if word and (read := kubectl_yaml.plain(word)) != word:
                raise KitError(
                    f"YAML reads `{word}` as {read}, not as a text; choose another "
                    "name, kind or group"
                )

    @property
    def package(self) -> str:
        """The operator's Python package."""
        return _package(self.name)

    def check_free(self) -> None:
        """Raise KitError where Python has a package of the operator's name already."""
        if self.package in _FOLDERS or importlib.util.find_spec(self.package) is not None:
            raise KitError(
                f"`{self.name}` would be the operator's Python package, and there is a package "
                f"{self.package} already; use for example "
                f"`{self.name.removesuffix('-operator')}-controller`"
            )

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def plural(self) -> str:
        """The plural of the kind, by the usual English rules: caches, proxies, buses."""
        if re.search(r"[^aeiou]y$", self.singular):
            plural = f"{self.singular[:-1]}ies"
        else:
            plural = self.singular + ("es" if re.search(r"(s|x|z|ch|sh)$", self.singular) else "s")
        return plural if len(plural) <= _LONGEST_KIND else f"{self.singular[:62]}s"

    @property
    def domain(self) -> str:
        """The domain in PROJECT's form: the group without its first part, if two are left."""
        first, _, rest = self.group.partition(".")
        return rest if "." in rest else f"{first}.{rest}"

    @property
    def words(self) -> dict[str, str]:
        """What the templates name."""
        group = self._first_part
        return {
            "name": self.name,
            "title": self._title,
            "package": self.package,
            "kind": self.kind,
            "singular": self.singular,
            "plural": self.plural,
            # Alone, the name of a built-in kind means that one to kubectl.
            "address": self.singular + (f".{self.group}" if self.singular in _BUILT_IN else ""),
            "group": self.group,
            "domain": self.domain,
            "group_line": f"    group: {group}\n" if group else "",
            "email": f"{self.name}@{self.group}",
            **self._places,
            "korean": "[한국어](README.ko.md)\n\n" if self.korean else "",
            "desired": _signature("desired", self.kind),
            "desired_of_kind": _signature(f"desired_{self.singular}", self.kind),
            "decorator": f"@{self.singular}_controller.desired",
            "decoded": _broken(
                "def decoded(", "**spec: object", f") -> operator.{self.kind}:", comma=","
            ),
            "converted": _broken(
                "    return msgspec.convert(", f"manifest, operator.{self.kind}", ")"
            ),
            "obj": _broken("    obj = msgspec.convert(", f"manifest, operator.{self.kind}", ")"),
            "children": _broken(
                f"    (found,) = operator.desired_{self.singular}(", "obj, context", ")"
            ),
            "spec": _broken(f"    spec: {self.kind}Spec = ", f"{self.kind}Spec()", around="()"),
            "controller": _broken(
                f"{self.singular}_controller = manager.controller_for(", self.kind, ")"
            ),
        }

    @property
    def _places(self) -> dict[str, str]:
        """Where the operator's page, its files and its images are."""
        home = (
            self.home.rstrip("/").removesuffix(".git") or f"https://github.com/{_OWNER}/{self.name}"
        )
        on_github = re.match(r"https://github\.com/([^/]+)/([^/]+)", home)
        owner = on_github[1] if on_github else _OWNER
        raw = f"{home}/-/raw/main"
        if on_github:
            raw = f"https://raw.githubusercontent.com/{on_github[1]}/{on_github[2]}/main"
        images = f"ghcr.io/{owner.lower()}"
        return {"home": home, "raw": raw, "owner": documents.scalar(owner), "registry": images}

    @property
    def _title(self) -> str:
        title = self.name.replace("-", " ").title()
        return title if len(title) >= _SHORTEST_TITLE else f"{title} Operator"

    @property
    def _first_part(self) -> str:
        return self.group.removesuffix(self.domain).rstrip(".")


# The lines that a long kind breaks in two, as `ruff format` breaks them.
_WIDTH = 100


def _signature(name: str, kind: str) -> str:
    returns = ") -> Iterable[dict[str, Any]]:"
    return _broken(f"def {name}(", f"obj: {kind}, _: kr.Context[Settings]", returns)


def _broken(left: str, inner: str, right: str = "", *, around: str = "  ", comma: str = "") -> str:
    """Return one line, or three if it is too long; then with parentheses around, and a comma."""
    line = left + inner + right
    if len(line) <= _WIDTH:
        return line
    indent = " " * (len(left) - len(left.lstrip()))
    opened, closed = (each.strip() for each in around)
    return f"{left}{opened}\n{indent}    {inner}{comma}\n{indent}{closed}{right}"


def _package(name: str) -> str:
    return name.replace("-", "_")


def check_name(name: str) -> None:
    """Raise KitError if a name is not valid for an operator."""
    if not re.fullmatch(_LABEL, name) or not name[0].isalpha():
        raise KitError(
            f"`{name}` is not a valid name: it must be a DNS label that begins with a letter, in "
            "lower case letters, digits and `-`; use for example `memcached-operator`"
        )
    if len(name) > _LONGEST_NAME:
        raise KitError(
            f"the name `{name}` has {len(name)} characters; use at most {_LONGEST_NAME}, because "
            "the node of the tests' cluster is called after it"
        )
    package = _package(name)
    if keyword.iskeyword(package) or keyword.issoftkeyword(package) or name in _SUBCOMMANDS:
        raise KitError(
            f"`{name}` cannot be a name, because {package} means something else to Python or to "
            f"`kopf-kit new`; use for example `{name}-operator`"
        )


def check_kind(kind: str) -> None:
    """Raise KitError if a name is not valid for a kind."""
    if not re.fullmatch("[A-Z][A-Za-z0-9]*", kind):
        raise KitError(
            f"`{kind}` is not a valid kind: use letters and digits, the first of them in upper "
            "case, for example `Memcached`"
        )
    if len(kind) > _LONGEST_KIND:
        raise KitError(
            f"the kind `{kind}` has {len(kind)} characters; use at most {_LONGEST_KIND}, because "
            "the API server takes no more"
        )
    if keyword.iskeyword(kind) or kind in _CLASSES:
        raise KitError(
            f"`{kind}` cannot be a kind, because Python or the operator's module has another "
            f"meaning for {kind}; use another one"
        )


def check_home(home: str) -> None:
    """Raise KitError if a text is not the address of a page."""
    if home and not re.fullmatch(r"https?://[\w.:-]+(/[\w.~+-]+){2,}/?", home):
        raise KitError(
            f"`{home}` is no address of a page; use such as https://github.com/acme/cache-operator"
        )


def check_group(group: str) -> None:
    """Raise KitError if a name is not valid for an API group."""
    if not re.fullmatch(rf"{_LABEL}(\.{_LABEL})+", group):
        raise KitError(
            f"`{group}` is not a valid group: use a domain that is yours, in lower case and with a "
            "dot, for example `cache.example.com`"
        )
    if _KUBERNETES.fullmatch(group):
        raise KitError(
            f"`{group}` is a group of Kubernetes' own; use a domain that is yours, for example "
            "`cache.example.com`"
        )


@dataclass(frozen=True)
class Record:
    """A repository's kinds."""

    folder: Path
    kinds: tuple[Answers, ...]
    #: The module that declares the operator, such as `cache_operator.operator`.
    manager: str

    @property
    def module(self) -> Path:
        """Where the code of the operator is, in the repository."""
        return Path("operator", *self.manager.split(".")).with_suffix(".py")


def find(folder: Path) -> Path:
    """Return the repository that a folder is in; raise KitError if it is in none."""
    for above in (folder, *folder.parents):
        if (above / "PROJECT").is_file():
            return above
    raise KitError(
        f"{folder} is not in the repository of an operator; go to the folder that has PROJECT"
    )


def read(folder: Path) -> Record:
    """Return what PROJECT in a folder says; raise KitError if `kopf-kit new` did not write it."""
    path = folder / "PROJECT"
    try:
        return _record(folder, reading.document(path, dict[str, Any]))
    except (LookupError, TypeError, AttributeError, StopIteration) as error:
        raise KitError(
            f"{path} is not as `kopf-kit new` writes it; {' '.join(repr(error).split())}"
        ) from error


def _record(folder: Path, file: dict[str, Any]) -> Record:
    plugin = next(iter(file["plugins"].values()))
    olm = (folder / "olm" / "csv.yaml").is_file()  # generated files are in this folder, too
    chart = folder / "charts" / file["projectName"] / "Chart.yaml"
    home = reading.load(reading.text(chart), chart).get("home") if chart.is_file() else ""
    kinds = tuple(
        Answers(
            file["projectName"],
            kind["kind"],
            ".".join(filter(None, (kind.get("group"), kind["domain"]))),
            olm,
            str(home or ""),
            (folder / _KOREAN).is_file(),
        )
        for kind in file["resources"]
    )
    return Record(folder, kinds, plugin["manager"])


_FOLDER = Path(__file__).parent
TEMPLATES = _FOLDER / "templates"
#: The picture in catalogs, until an author draws one: `icon:` in Chart.yaml names it.
_ICON = _FOLDER.parent / "reference" / "icon.svg"
#: What only a repository has that OLM installs from.
OLM = "olm"
_KOREAN = Path("README.ko.md")


class _Template(string.Template):
    """A text with `@@{word}`: a plain `$` or `{` means something in most of these files."""

    delimiter = "@@"


def version() -> str:
    """Return the version of this kit, which a repository has in PROJECT as `cliVersion`."""
    return importlib.metadata.version("kopf-kit")


def pins() -> dict[str, str]:
    """Return the requirements that a repository has of this kit and of its runtime."""
    return {
        "runtime_pin": f"kopf-runtime{specifier(importlib.metadata.version('kopf-runtime'))}",
        "kit_pin": f"kopf-kit[release,testing]{specifier(version())}",
    }


def files(answers: Answers) -> dict[Path, str]:
    """Return the texts of the repository's files, by their paths in it."""
    templates = sorted(file for file in TEMPLATES.rglob("*.in") if file.is_file())
    texts = {
        path: fill(file, answers)
        for file in templates
        if (path := _path(file, answers)).parts[0] != OLM or answers.olm
        if path != _KOREAN or answers.korean
    }
    return {
        **texts,
        Path("LICENSE"): documents.licence(),
        Path("docs", _ICON.name): _ICON.read_text(),
    }


def fill(template: str | Path, answers: Answers) -> str:
    """Return the text of a template, by its path beside this module."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    words = {
        **answers.words,
        **pins(),
        "version": version(),
        "kubernetes": versions.OLDEST,
        "today": today,
    }
    return _Template((_FOLDER / template).read_text()).substitute(words)


def _path(template: Path, answers: Answers) -> Path:
    path = str(template.relative_to(TEMPLATES)).removesuffix(".in")
    return Path(path.replace("NAME", answers.name).replace("PACKAGE", answers.package))


def check_folder(folder: Path) -> None:
    """Raise KitError if a folder is not empty, or is a file."""
    if folder.exists() and not folder.is_dir():
        raise KitError(f"{folder} is a file; choose a folder that is empty or does not exist")
    if folder.exists() and any(entry.name != ".git" for entry in folder.iterdir()):
        raise KitError(f"{folder} is not empty; choose a folder that is empty or does not exist")


def write(answers: Answers, folder: Path, *, lock: bool = True) -> str:
    """Write the repository, and return a sentence on what is missing from it, or nothing.

    Raise KitError if the folder cannot have it.
    """
    answers.check_free()
    check_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # What fails or is interrupted leaves nothing in the folder.
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            unfinished = Path(beside, "repository")
            lay_out(files(answers), unfinished)
            missing = _write_lock(unfinished, folder) if lock else ""
            if shutil.which("git") and not _is_in_repository(folder):
                output(["git", "init", "--quiet", "--initial-branch=main"], cwd=unfinished)
            _move(unfinished, folder)
    except OSError as error:
        raise KitError(f"{folder}: {error.strerror}; nothing was written") from error
    return missing


def lay_out(texts: dict[Path, str], folder: Path) -> None:
    """Write texts into a folder, by their paths in it."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _write_lock(folder: Path, called: Path) -> str:
    """Let uv write its lock; return a sentence if it cannot. `called` is the folder for people."""
    later = f"uv.lock is not written; run `uv lock` in {called} where a package index is reached"
    if shutil.which("uv") is None:
        return f"{later} and uv is installed (https://docs.astral.sh/uv/)"
    try:
        output(["uv", "lock", "--quiet"], cwd=folder, timeout=120)
    except KitError as error:
        return f"{later}. uv says: {error.reason}"
    return ""


def _is_in_repository(folder: Path) -> bool:
    return any((above / ".git").exists() for above in (folder, *folder.parents))


def _move(unfinished: Path, folder: Path) -> None:
    """Put a finished repository in its place; a folder that exists stays the same folder."""
    if not folder.exists():
        unfinished.rename(folder)
        return
    names = [entry.name for entry in unfinished.iterdir()]
    try:
        for name in names:
            (unfinished / name).rename(folder / name)
    except OSError:
        for name in names:
            if (folder / name).exists():
                (folder / name).rename(unfinished / name)
        raise
