"""What an author says of a new operator: its name, its kind, its group; and what follows."""

import importlib.util
import keyword
import re
from dataclasses import dataclass

from kopf_kit.rig.run import HackError

#: The tests' cluster is called after the operator, and its node `NAME-test-control-plane`: a host's
#: name has at most 63 characters.
_LONGEST_NAME = 63 - len("-test-control-plane")
#: kopf_runtime.declaration: labels are named after a kind.
_LONGEST_KIND = 52
#: What the operator's module has beside the kind.
_TAKEN = ("Annotated", "Any", "Iterable", "Settings", "Spec")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#: The API server wants an approval of Kubernetes' own reviewers in a kind of these.
_KUBERNETES = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_EXAMPLE = "kopf-kit new cache-operator --kind Cache --group cache.example.com"


@dataclass(frozen=True)
class Answers:
    """What an author says of a new operator; raises HackError where it cannot be."""

    name: str
    kind: str
    group: str

    def __post_init__(self) -> None:
        for variable, value in (("NAME", self.name), ("KIND", self.kind), ("GROUP", self.group)):
            if not value:
                raise HackError(f"{variable} is missing: say for example `{_EXAMPLE}`")
        _check_name(self.name)
        _check_kind(self.kind)
        _check_group(self.group)

    @property
    def package(self) -> str:
        """The operator's Python package."""
        return _package(self.name)

    def check_free(self) -> None:
        """Raise HackError where Python has a package of the operator's name already."""
        if importlib.util.find_spec(self.package) is not None:
            raise HackError(
                f"NAME={self.name} would be the operator's Python package, and there is a package "
                f"{self.package} already; use for example "
                f"NAME={self.name.removesuffix('-operator')}-controller"
            )

    @property
    def plural(self) -> str:
        """The kind in the plural, as English has it mostly: caches, proxies, buses."""
        singular = self.kind.lower()
        if re.search(r"[^aeiou]y$", singular):
            return f"{singular[:-1]}ies"
        return f"{singular}es" if re.search(r"(s|x|z|ch|sh)$", singular) else f"{singular}s"

    @property
    def domain(self) -> str:
        """The domain in PROJECT's form: the group without its first part, if two are left."""
        first, _, rest = self.group.partition(".")
        return rest if "." in rest else f"{first}.{rest}"

    @property
    def words(self) -> dict[str, str]:
        """What the templates name."""
        group = self.group.removesuffix(self.domain).rstrip(".")
        article = "an" if self.kind[0] in "AEIOU" else "a"
        return {
            "name": self.name,
            "title": self.name.replace("-", " ").title(),
            "package": self.package,
            "kind": self.kind,
            "a_kind": f"{article} {self.kind}",
            "A_kind": f"{article.capitalize()} {self.kind}",
            "singular": self.kind.lower(),
            "plural": self.plural,
            "group": self.group,
            "domain": self.domain,
            "group_line": f"    group: {group}\n" if group else "",
            "email": f"{self.name}@{self.group}",
        }


def _package(name: str) -> str:
    return name.replace("-", "_")


def _check_name(name: str) -> None:
    if not re.fullmatch(_LABEL, name) or not name[0].isalpha():
        raise HackError(
            f"NAME={name} is not a DNS label that begins with a letter; use lower case letters, "
            "digits and '-', for example NAME=cache-operator"
        )
    if len(name) > _LONGEST_NAME:
        raise HackError(
            f"NAME={name} has {len(name)} characters; use at most {_LONGEST_NAME}, because the "
            "node of the tests' cluster is called after it"
        )
    package = _package(name)
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise HackError(
            f"NAME={name} would be the operator's Python package, and {package} is a keyword of "
            f"Python; use for example NAME={name}-operator"
        )


def _check_kind(kind: str) -> None:
    if not re.fullmatch("[A-Z][A-Za-z0-9]*", kind):
        raise HackError(
            f"KIND={kind} is not a kind; use letters and digits, the first of them in upper case, "
            "for example KIND=Cache"
        )
    if len(kind) > _LONGEST_KIND:
        raise HackError(
            f"KIND={kind} has {len(kind)} characters; use at most {_LONGEST_KIND}, because labels "
            "are named after it"
        )
    if keyword.iskeyword(kind) or kind in _TAKEN:
        raise HackError(
            f"KIND={kind} would be a class, and Python or the operator's module has another "
            f"meaning for {kind}; use another kind"
        )


def _check_group(group: str) -> None:
    if not re.fullmatch(rf"{_LABEL}(\.{_LABEL})+", group) or len(group) > 253:
        raise HackError(
            f"GROUP={group} is not a domain; use one that is yours, in lower case and with a dot, "
            "for example GROUP=cache.example.com"
        )
    if _KUBERNETES.fullmatch(group):
        raise HackError(
            f"GROUP={group} is a group of Kubernetes' own; use a domain that is yours, for example "
            "GROUP=cache.example.com"
        )
