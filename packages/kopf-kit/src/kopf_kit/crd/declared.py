"""Generates CRDs and RBAC rules from the kinds that the operator's code declares.

`kopf_kit.cli.generate` writes them as templates of the chart.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kopf_kit.crd import acceptable, generated
from kopf_kit.project import adopted, documents, pod_images, rbac, registered, samples
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.registered import Webhook
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say
from kopf_runtime import Manager
from kopf_runtime.declaring.errors import DeclarationError
from kopf_runtime.process.runtime import own, refuse_odd

_BY = "kopf_kit/crd/declared.py of the operator's code"

_CRD = """\
{header}# It is a template, not in crds/, because Helm never upgrades what is in crds/.
apiVersion: {apiVersion}
kind: {kind}
metadata:
  name: {name}
  labels:
    {{{{- include "{chart}.labelsWith" (dict "root" . "labels" {labels}) | nindent 4 }}}}
  {{{{- include "{chart}.keptAnnotations" (dict "root" . "annotations" {annotations}) }}}}
{spec}"""
_ANNOTATIONS = ".Values.crds.annotations"
_WITH_CERTIFICATE = f'(merge (include "%s.injected" . | fromYaml) (default dict {_ANNOTATIONS}))'
_CONVERSION = """\
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig:
        {{- include "%s.clientConfig" (dict "root" . "path" "/convert") | nindent 8 }}
"""


class Operator(NamedTuple):
    """What the pack needs from an operator's code, whichever library it uses."""

    definitions: list[generated.Manifest]
    #: The rights in each watched namespace, each with its reason.
    rules: Sequence[tuple[str, rbac.Rule]]
    #: Those that an adopted operator has in its own namespace, and whatever it watches.
    own: Sequence[tuple[str, rbac.Rule]] | None = None
    cluster: Sequence[tuple[str, rbac.Rule]] = ()


def operator() -> Operator:
    """Return what the code of PROJECT's operator declares."""
    if PROJECT.adopted:
        grants = rbac.rights(PROJECT)
        crds = adopted.definitions(PROJECT)
        return Operator(crds, grants.watched, grants.own, grants.cluster)
    manager = of_the_project()
    acceptable.check(definitions(manager), PROJECT.manager)
    return Operator(definitions(manager), rbac.rules(manager))


def files() -> dict[Path, str]:
    """Return the texts of the generated files, by path."""
    ours, templates = operator(), PROJECT.chart / "templates"
    _check_samples(ours.definitions)
    webhooks = registered.of(PROJECT)
    return {
        templates / "crd.yaml": chart_crd(ours.definitions, PROJECT.name, PROJECT.converted),
        templates / "_rules.tpl": chart_rules(ours, PROJECT.name, PROJECT.converted),
        **(
            {templates / "_admission.tpl": chart_admission(webhooks, PROJECT.name)}
            if webhooks
            else {}
        ),
        templates / "_images.tpl": pod_images.template(),
        templates / "_sample.tpl": samples.template(),
    }


def _check_samples(definitions: list[generated.Manifest]) -> None:
    """Raise KitError if the kinds' own schemas refuse a sample; of an adopted operator, say so."""
    odd = [
        f"{file}: {why}"
        for file, sample in samples.manifests().items()
        for why in acceptable.mistakes(definitions, sample)
    ]
    if odd and not PROJECT.adopted:
        raise KitError("\n".join(odd))
    for sentence in odd:
        say(f"note: {sentence}")


def definitions(operator: Manager[Any]) -> list[generated.Manifest]:
    """Return the CustomResourceDefinitions of an operator's own kinds."""
    return [generated.of(controller) for controller in own(operator.controllers)]


def scaled() -> set[str]:
    """Return the names of PROJECT's CRDs that have a scale subresource."""
    return {
        crd["metadata"]["name"]
        for crd in operator().definitions
        for version in crd["spec"]["versions"]
        if "scale" in version.get("subresources", {})
    }


def chart_crd(
    definitions: Iterable[generated.Manifest], chart: str, converted: Sequence[str] = ()
) -> str:
    """Return the chart's template for the CRDs; the release decides on metadata and conversion."""
    manifests = "---\n".join(_chart_crd(crd, chart, converted) for crd in definitions)
    return f"{{{{- if .Values.crds.install }}}}\n{manifests}{{{{- end }}}}\n"


def _chart_crd(crd: generated.Manifest, chart: str, converted: Sequence[str]) -> str:
    spec = documents.literal(documents.text({"spec": crd["spec"]}))
    labels, annotations = (
        _own(crd, part, values)
        for part, values in (("labels", ".Values.crds.labels"), ("annotations", _ANNOTATIONS))
    )
    if (name := crd["metadata"]["name"]) in converted:
        spec, annotations = spec + _CONVERSION % chart, _WITH_CERTIFICATE % chart
    return _CRD.format(
        header=documents.header(_BY),
        chart=chart,
        apiVersion=crd["apiVersion"],
        kind=crd["kind"],
        name=name,
        labels=labels,
        annotations=annotations,
        spec=spec,
    )


def _own(crd: generated.Manifest, part: str, values: str) -> str:
    """Return a template's expression for labels or annotations of a CRD: its own, and values."""
    if not (own := adopted.metadata_of(crd, part)):
        return values
    text = json.dumps(json.dumps(own, ensure_ascii=False), ensure_ascii=False)
    return f"(merge (dict) (default dict {values}) ({text} | fromJson))"


def chart_rules(operator: Operator, chart: str, converted: Sequence[str] = ()) -> str:
    """Return the chart's template with the operator's rights, by where it needs them."""
    head = "What the operator does in every namespace that it watches."
    text = f"{{{{- /* {head}\n{documents.header(_BY).strip('# ')}*/}}}}\n"
    parts = {"rules": operator.rules}
    if operator.own is not None:
        parts |= {"ownRules": operator.own, "clusterRules": operator.cluster}
    for name, rules in parts.items():
        lines = documents.literal(
            "".join(f"# {why}\n{documents.text([each])}" for why, each in rules)
        )
        text += f'{{{{- define "{chart}.{name}" -}}}}\n{lines}{{{{- end }}}}\n'
    if converted:
        text += f'{{{{- define "{chart}.converted" }}}}[{", ".join(converted)}]{{{{ end }}}}\n'
    return text


def chart_admission(webhooks: Sequence[Webhook], chart: str) -> str:
    """Return the chart's template with the webhooks' entries, each with its `path`.

    If they are kopf's handlers, it also has the program that serves them.
    """
    parts = [f"{{{{- /* {documents.header(_BY).strip('# ')}*/}}}}\n"]
    for kind in ("validating", "mutating"):
        entries = [
            webhook.entry | {"path": webhook.path} for webhook in webhooks if webhook.kind == kind
        ]
        text = documents.literal(documents.text(entries)) if entries else ""
        parts.append(f'{{{{- define "{chart}.{kind}" -}}}}\n{text}{{{{- end }}}}\n')
    if any(webhook.handler for webhook in webhooks):
        text = documents.literal(registered.server(webhooks))
        parts.append(f'{{{{- define "{chart}.server" -}}}}\n{text}{{{{- end }}}}\n')
    return "".join(parts)


def of_the_project() -> Manager[Any]:
    """Return the operator that PROJECT names; raise `KitError` if it has another name or kinds."""
    manager: Manager[Any] = PROJECT.declared("manager")
    if not isinstance(manager, Manager):
        raise KitError(f"{PROJECT.manager}: `manager` must be a kr.Manager(…), not {manager!r}")
    if (name := manager.program.name) != PROJECT.name:
        raise KitError(
            f"{PROJECT.manager} names its manager {name}, and {PROJECT.root / 'PROJECT'} the "
            f"project {PROJECT.name}; use one name, because the alerts query metrics of that name"
        )
    try:
        refuse_odd(manager.controllers)
        for controller in manager.controllers:
            controller.declaration.check_complete()
        definitions(manager)
        handled = manager.beside.handled()
    except DeclarationError as error:
        raise KitError(f"{PROJECT.manager}: {error}") from error
    others = [name for name, webhook in handled if webhook is None]
    if others and not registered.configured(PROJECT):
        raise KitError(
            f"{PROJECT.manager}: the webhooks {', '.join(others)} are kopf's and for what no "
            "controller serves, so the API server would not ask them: name one kind with a "
            "controller, in its version, or write the Service and the webhook configurations into "
            "the chart's templates, and set settings.admission.server"
        )
    served = {str(controller.kind) for controller in own(manager.controllers)}
    if odd := sorted(served ^ {kind.crd for kind in PROJECT.kinds}):
        raise KitError(
            f"{', '.join(odd)} must be both a kind in {PROJECT.root / 'PROJECT'} and served by "
            f"{PROJECT.manager}"
        )
    return manager
