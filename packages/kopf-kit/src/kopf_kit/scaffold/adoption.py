"""What `kopf-kit adopt` writes of an operator on plain kopf: its PROJECT, and nothing else."""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from kopf_kit.project import adopted, author_code, container, documents, granted, rbac, registered
from kopf_kit.project.granted import Grants
from kopf_kit.rig import paths, reading
from kopf_kit.rig.run import KitError
from kopf_kit.scaffold import discovery, repository
from kopf_kit.scaffold.discovery import Operator
from kopf_kit.scaffold.repository import check_name

Manifest = dict[str, Any]

_PROJECT = """\
# What this repository is, for kopf-kit and for those who read it. The form is that of kubebuilder and
# operator-sdk: https://book.kubebuilder.io/reference/project-config
cliVersion: {kit}
domain: {domain}
layout:
  - {plugin}
plugins:
  # An operator on plain kopf, packaged as it is.
  {plugin}:
    # The module that `kopf run -m` runs.
    module: {module}
    # The version of the operator and of its chart, and its day.
    version: {version}
    created: "{today}"
    # The page of the operator; images are named after its owner.
    home: {home}
    description: {description}
    crds: [{crds}]
    # The manifests of each kind; the first one is what the documents show.
    samples:
{samples}
{optional}projectName: {name}
resources:
{resources}version: "3"
"""  # noqa: E501
_REQUIREMENTS = "    # What the image installs.\n    requirements: {}\n"
_RIGHTS = "    # What the handlers do beyond what kopf itself does.\n    rights: {}\n"
_ENVIRONMENT = "    # The variables that its code reads.\n    environment: {}\n"
_WATCHED = (
    "    # What it watches unless a user of the chart says otherwise.\n    watchNamespaces: {}\n"
)
_COMMAND = "    # How its own Dockerfile starts it.\n    command: {}\n"
_NO_OLM = (
    "    # It is not for OLM, which would give rights more widely than its roles.\n    olm: false\n"
)
#: What is not a requirements.txt, and can be named as what the image installs.
_READ = ("uv.lock", "poetry.lock", "pyproject.toml", "setup.py", "setup.cfg")
_OPEN = "x-kubernetes-preserve-unknown-fields"
#: The version where nothing says it.
_FIRST = "0.1.0"
_BARE = re.compile(r"[\w./@+-]*")


def project(operator: Operator, *, run: bool = True) -> tuple[str, list[str]]:
    """Return the text of PROJECT, and sentences on what it leaves out; raise KitError.

    With `run`, the module is imported, which tells what its handlers watch.
    """
    root = operator.root
    _check(operator)
    crds = _crds(operator)
    _check_image(operator)
    handlers = rbac.Handlers()
    if run:
        handlers = rbac.handlers(operator.module, root, crds, dict(operator.environment))
        _check_names(operator)
    roles, watched = [root / name for name in operator.rights], _watched(operator)
    grants = granted.read(roles, operator.called, crds, watched) if roles else Grants()
    sampled = {
        discovery.sampled(obj)
        for name in operator.samples
        for obj in discovery.manifests(root / name)
    }
    # The first kind is the one that the documents show.
    crds.sort(key=lambda crd: crd["spec"]["names"]["kind"] not in sampled)
    kinds = [crd["spec"]["names"]["kind"] for crd in crds]
    wide = [crd["spec"]["names"]["kind"] for crd in crds if crd["spec"].get("scope") == "Cluster"]
    rules = [{"apiGroups": [each.group], "resources": [each.plural]} for each in handlers.watched]
    rules += [rule for _, rule in grants.everywhere]
    no_olm = rbac.NO_OLM.format(", ".join(wide)) if wide and grants.own else ""
    return _text(operator, crds, watched, olm=not no_olm), [
        *_about_the_code(operator, handlers),
        *_about_statuses(crds, handlers),
        *_about_the_container(operator, watched),
        *_about_programs(operator),
        *_about_samples([kind for kind in kinds if kind not in sampled]),
        *([f"{no_olm}: so `olm: false` is in PROJECT"] if no_olm else []),
        *_about_rights(operator, grants),
        *(granted.unsure(rules, crds) if watched else ()),
    ]


def _check(operator: Operator) -> None:
    """Raise KitError where what is said cannot be in a PROJECT."""
    check_name(operator.name)
    if not discovery.HOME.fullmatch(operator.home):
        raise KitError(
            f"`{operator.home}` is not a page such as https://github.com/acme/notes-operator; "
            "name one with --home"
        )
    if (chart := operator.root / "charts" / operator.name / "values.yaml").is_file():
        raise KitError(
            f"{chart.parent} is a chart already, and the kit's would have its name: name another "
            "with --name"
        )
    if twins := discovery.twins(operator.root, operator.module):
        raise KitError(
            f"{' and '.join(map(str, twins))} have one name, and Python imports the package alone: "
            "rename one of them"
        )


def _text(operator: Operator, crds: list[Manifest], watched: list[str], *, olm: bool) -> str:
    resources = [_resource(crd) for crd in crds]
    kinds = [resource["kind"] for resource in resources]
    own = "" if operator.requirements or not operator.dockerfile else operator.dockerfile
    own = own and reading.text(operator.root / own)
    optional = _REQUIREMENTS.format(_word(operator.requirements)) if operator.requirements else ""
    optional += _RIGHTS.format(_listed(operator.rights)) if operator.rights else ""
    optional += f"    account: {_word(operator.account)}\n" if operator.account else ""
    if operator.environment:
        optional += _ENVIRONMENT.format(json.dumps(dict(operator.environment), ensure_ascii=False))
    if watched:
        optional += _WATCHED.format(json.dumps(watched))
    if operator.command:
        optional += _COMMAND.format(json.dumps(operator.command, ensure_ascii=False))
        optional += f"    ports: {json.dumps(operator.container.ports)}\n"
    if operator.container.temporary:
        optional += f"    temporary: {json.dumps(operator.container.temporary)}\n"
    if own and operator.container.user != container.read(own).user:
        optional += f"    user: {operator.container.user}\n"
    if operator.dockerfile not in ("", "Dockerfile"):
        optional += f"    dockerfile: {_word(operator.dockerfile)}\n"
    optional += "" if olm else _NO_OLM
    served = (
        f"A Kubernetes operator that serves the kind{'s' * (len(kinds) > 1)} {', '.join(kinds)}"
    )
    return _PROJECT.format(
        kit=repository.version(),
        domain=resources[0]["domain"],
        plugin=paths.PLAIN,
        module=_word(operator.module),
        version=operator.version or _FIRST,
        today=f"{datetime.now(UTC):%Y-%m-%d}",
        home=operator.home,
        description=documents.scalar(operator.description or served),
        crds=", ".join(map(_word, operator.crds)),
        samples="\n".join(_samples(operator, kinds)),
        optional=optional,
        name=_word(operator.name),
        resources=textwrap.indent(documents.text(resources), "  "),
    )


def _watched(operator: Operator) -> list[str]:
    """Return what it watches by default.

    The namespace of its ServiceAccount is its own, and so is one that only its start says.
    """
    spaces = operator.namespaces or ()
    roles = [operator.root / name for name in operator.rights] if spaces else []
    home = granted.namespace(roles, operator.called)
    own = (space == home or space.startswith("$(") for space in spaces)
    return [*dict.fromkeys(granted.OWN if is_ else at for is_, at in zip(own, spaces, strict=True))]


def _about_the_code(operator: Operator, handlers: rbac.Handlers) -> Iterator[str]:
    """Yield sentences on what the code needs that PROJECT does not give it."""
    if not operator.version:
        yield f"nothing says the version, so it is {_FIRST}: change it in PROJECT"
    if handlers.unknown:
        yield (
            f"handlers watch {', '.join(handlers.unknown)}, whose plural no file says: give the "
            "right to list, watch and patch them with --rights"
        )
    if handlers.webhooks and not operator.command:
        yield (
            f"the API server will ask the webhooks {', '.join(handlers.webhooks)}: cert-manager "
            "makes their certificate, unless the chart's value webhooks.certificate is `secret`"
        )
    if handlers.unset:
        yield (
            f"{operator.module} reads the variables {', '.join(handlers.unset)}, which are not "
            "set: give those that it needs by --env NAME=VALUE; users change them by the chart's "
            "value environment"
        )
    others = [
        name
        for name in operator.modules
        if not any(
            f".{name}".endswith(f".{each}") for each in (*handlers.imported, operator.module)
        )
    ]
    if others and handlers.imported and not operator.command:
        yield (
            f"{', '.join(others)} have handlers that {operator.module} does not import, so the "
            "chart does not run them: import these modules there if they belong to the operator"
        )
    for file in discovery.files(operator.root, "*.py"):
        if "peering.mandatory = True" in discovery.code(file):
            yield (
                f"{file.relative_to(operator.root)} makes kopf's peering mandatory, so the "
                "operator would wait for it, and has one replica without: in a later function with "
                "@kopf.on.startup(), set `settings.peering.mandatory` to False"
            )


def _about_statuses(crds: list[Manifest], handlers: rbac.Handlers) -> Iterator[str]:
    """Yield a sentence on each kind whose CRD removes what handlers return."""
    changed = {(each.group, each.plural) for each in handlers.watched if each.ends}
    for spec in (crd["spec"] for crd in crds):
        schema = adopted.stored({"spec": spec}).get("schema", {}).get("openAPIV3Schema", {})
        status = schema.get("properties", {}).get("status", {})
        is_open = _OPEN in schema or {_OPEN, "additionalProperties"} & status.keys()
        if (spec["group"], spec["names"]["plural"]) in changed and not is_open:
            yield (
                f"the CRD of {spec['names']['kind']} removes from .status what it does not "
                "describe, such as what kopf writes there when a handler returns something: if one "
                f"does, give .status `{_OPEN}: true`"
            )


def _about_the_container(operator: Operator, watched: list[str]) -> Iterator[str]:
    """Yield sentences on how the image runs, and what of that is not as its Dockerfile has it."""
    yield from operator.doubts
    file, image, how = operator.dockerfile, operator.container, operator.started_in
    if operator.command:
        yield (
            f"{how} starts it by `{' '.join(image.command)}`, and so does the chart: watched "
            "namespaces, probes and log are the program's own, and so are webhooks; with --module "
            f"{operator.module}, `kopf run` starts it"
        )
    elif image.command and not container.kopf_run(image.command):
        yield (
            f"{how} starts it by `{' '.join(image.command)}`, and the chart by `kopf run -m "
            f"{operator.module}`: what else the former does is missing"
        )
    if file and not operator.requirements and image.is_root:
        yield f"{file} has no user, so the image gets the user 65532"
    if path := dict(operator.environment).get("PATH"):
        yield f"the chart sets PATH to {path}: add what only the base image has there in PROJECT"
    for value, names in operator.referred.items():
        if names:
            what = "folders" if value == "extraVolumes" else "variables"
            yield (
                f"its Deployment takes the {what} {', '.join(names)} from Secrets or the like, "
                f"which PROJECT cannot have: users give them by the chart's value {value}"
            )
    spaces = operator.namespaces or ()
    if any(space.startswith("$(") for space in spaces):
        yield (
            f"{how} watches {', '.join(spaces)}, which only its start says: watchNamespaces in "
            "PROJECT has the operator's own namespace"
        )
    elif granted.OWN in watched:
        yield (
            f"{how} watches {', '.join(spaces)}, where its ServiceAccount is: watchNamespaces in "
            f"PROJECT has {', '.join(watched)}"
        )
    elif spaces:
        yield f"the chart watches {', '.join(spaces)} by default, as {how} does"


def _about_programs(operator: Operator) -> Iterator[str]:
    """Yield a sentence on lines that call other programs, which the image may not have."""
    files = (file.relative_to(operator.root) for file in discovery.files(operator.root, "*.py"))
    package = operator.module.partition(".")[0]
    lines = [
        f"{file}:{number}"
        # Those of the handlers' own package come first.
        for file in sorted(files, key=lambda file: package not in file.with_suffix("").parts)
        if file.name != "setup.py"
        for number in discovery.calls(discovery.code(operator.root / file))
    ]
    if not lines:
        return
    listed = ", ".join(lines[:3]) + ", …" * (len(lines) > 3)
    if operator.dockerfile and not operator.requirements:
        yield f"{listed} may call other programs: {operator.dockerfile} has to install these"
    else:
        yield (
            f"{listed} may call other programs, and the kit's image has Python alone, without a "
            "shell: install them in a Dockerfile of your own, started by `kopf run -m "
            f"{operator.module}`, then remove PROJECT and adopt again"
        )


def _about_samples(hidden: list[str]) -> Iterator[str]:
    if hidden:
        yield (
            f"OLM's consoles do not show {', '.join(hidden)}, of which there is no sample: name a "
            "file with --sample if users create one"
        )


def _about_rights(operator: Operator, grants: Grants) -> Iterator[str]:
    """Yield sentences on what the chart, or OLM, does not give, and what it should not have to."""
    yield from grants.left_out
    if not operator.rights:
        charts = (file.parent for file in discovery.files(operator.root, "Chart.yaml"))
        printed = "".join(
            f"; `helm template {chart.relative_to(operator.root)}` prints those of its chart"
            for chart in charts
        )
        yield f"what handlers write is not known: name a Role that has it with --rights{printed}"
    if grants.own:
        listed = sorted({name for _, rule in grants.own for name in rule["resources"]})
        yield (
            f"the operator has rights to {', '.join(listed)} in its own namespace alone: OLM gives "
            "these wherever it watches, so OLM lets it watch its own namespace only"
        )
    if starred := [rule for rule in grants.rules if any("*" in each for each in rule.values())]:
        more = f", and {len(starred) - 1} more" * (len(starred) > 1)
        yield (
            f"a rule of {', '.join(operator.rights)} has a *: {json.dumps(starred[0])}{more}; name "
            "each, as `kopf-kit rights record` does"
        )


def _crds(operator: Operator) -> list[Manifest]:
    """Return the CRDs; raise KitError where two are of one kind, or none is there."""
    files: dict[str, str] = {}
    crds = []
    for name in operator.crds:
        for crd in adopted.definitions_in(operator.root / name):
            kind = crd["spec"]["names"]["kind"]
            if kind in files:
                raise KitError(
                    f"{files[kind]} and {name} both have the kind {kind}; name one with --crd"
                )
            if not re.fullmatch("[A-Z][A-Za-z0-9]{0,62}", kind):
                raise KitError(
                    f"{name} has the kind {kind}: the kit takes a kind of letters and digits that "
                    f"begins with an upper-case letter, such as {kind.capitalize()}"
                )
            if service := adopted.converter(crd, operator.root / "charts" / operator.name):
                raise KitError(
                    f"{name}: the Service {service} converts the objects of {kind}, and the chart "
                    "has none, so the API server could read none of them in another version: "
                    "leave the conversion out, or write the Service into "
                    f"charts/{operator.name}/templates"
                )
            files[kind] = name
            crds.append(crd)
    if not crds:
        raise KitError(
            f"{operator.root} has no CustomResourceDefinition in YAML: name its file with --crd"
            f"{discovery.hint(operator.root)}"
        )
    return crds


def _check_image(operator: Operator) -> None:
    """Raise KitError where nothing says what the image holds, or as whom it runs."""
    file, user = operator.root / operator.dockerfile, operator.container.user
    if operator.requirements:
        if not (operator.root / operator.requirements).is_file():
            raise KitError(f"{operator.root / operator.requirements} does not exist")
        name = operator.requirements.rpartition("/")[2]
        if name == "setup.cfg" and not author_code.is_package(operator.root):
            raise KitError(
                f"{operator.root} is not a package: it has no pyproject.toml or setup.py"
            )
        if name.endswith((".lock", ".toml", ".json")) and name not in _READ:
            raise KitError(
                f"{name} is not what the kit installs from: name one of {', '.join(_READ)}, or a "
                "requirements.txt, which your tool exports"
            )
    elif operator.dockerfile:
        if not operator.container.is_root and not user.isdigit():
            raise KitError(
                f"{file} runs as {user}, and the kubelet starts the operator only with a numeric "
                "user that is not root; end it with one, such as `USER 65532`, or name with "
                "--requirements what an image of the kit's installs"
            )
    elif not (operator.root / "uv.lock").is_file():
        raise KitError(
            f"{operator.root} has no Dockerfile, uv.lock or requirements.txt, so nothing says what "
            "the image installs; name a file with --requirements"
        )


def _check_names(operator: Operator) -> None:
    """Raise KitError where a module would hide Python's own in an image that is not the kit's."""
    if operator.requirements or operator.command or not operator.dockerfile:
        return
    folder = paths.sources(operator.root, operator.module.partition(".")[0])
    answer = registered.read(operator.module, operator.root, dict(operator.environment))
    for file in sorted(author_code.hiding(folder, answer["loaded"])):
        if operator.container.place(str(file.relative_to(operator.root))):
            raise KitError(
                f"{file} has the name of a module of Python's own, and kopf would load it instead "
                f"in the image of {operator.dockerfile}: rename it"
            )


def _samples(operator: Operator, kinds: list[str]) -> Iterator[str]:
    """Yield the lines of the samples of each kind."""
    files: dict[str, list[str]] = {kind: [] for kind in kinds}
    for name in operator.samples:
        objects = discovery.manifests(operator.root / name)
        kind = discovery.sampled(objects[0]) if len(objects) == 1 else None
        if kind not in files:
            raise KitError(
                f"{name} must be one object of {', '.join(kinds)} with a name, to be a sample"
            )
        files[kind].append(name)
    for kind, listed in files.items():
        if not listed and kind == kinds[0]:
            raise KitError(f"there is no sample of {kind}; name a file with one with --sample")
        yield f"      {_word(kind)}: {_listed(listed)}"


def _listed(names: Sequence[str]) -> str:
    words = [*map(_word, names)]
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"


def _word(text: str) -> str:
    """Return a text as it is in YAML, also within a list in brackets."""
    bare = documents.scalar(text)
    return bare if _BARE.fullmatch(bare) else json.dumps(text, ensure_ascii=False)


def _resource(crd: Manifest) -> Manifest:
    """Return a kind in the form of kubebuilder, whose groups end with a domain."""
    spec = crd["spec"]
    first, _, rest = spec["group"].partition(".")
    group = {"group": first} if "." in rest else {}
    return {
        "api": {"crdVersion": "v1", "namespaced": spec["scope"] == "Namespaced"},
        "controller": True,
        "domain": rest if group else spec["group"],
        **group,
        "kind": spec["names"]["kind"],
        "plural": spec["names"]["plural"],
        "version": adopted.stored(crd)["name"],
    }
