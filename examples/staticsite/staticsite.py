"""A StaticSite is pages behind a password, at a host that no other site has.

README.md explains it.
"""

import base64
import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import aiohttp
from msgspec import Meta, field

import kopf_runtime as kr

PORT = 8080
#: What the Job runs in the folder with the pages: each link between them must lead to one.
CHECK = """\
for page in $(grep -oh 'href="[-a-z0-9.]*"' *.html | cut -d'"' -f2 | sort -u)
do [ -e "$page" ] || lost="$lost $page"
done
[ -z "$lost" ] || { echo "These pages are linked, but do not exist:$lost"; exit 1; }
"""
NAMES = kr.ValidationRule(
    "self.all(name, name.matches('^[a-z0-9][-a-z0-9]*[.]html$')) && 'index.html' in self",
    "name the pages like about.html, and one of them index.html",
)


class Spec(kr.Fields, frozen=True, kw_only=True):
    """What is served."""

    host: kr.ObjectName
    """The host, which no other site has."""
    pages: Annotated[
        dict[str, Annotated[str, Meta(max_length=50_000)]],
        Meta(max_length=20, extra_json_schema=kr.validations(NAMES)),
    ]
    """HTML by its name."""
    login: kr.ObjectName
    """The Secret: username and password."""
    replicas: Annotated[int, Meta(ge=1, le=5)] = 1
    """How many Pods serve it."""


class Status(kr.Fields, frozen=True):
    """What the operator last observed."""

    answers: bool | None = None
    """Whether the site answers."""


@kr.custom_resource(
    "sites.example.org",
    "v1alpha1",
    "staticsites",
    short_names=["site"],
    status=Status,
    ready="the site answers",
    printer_columns=[kr.Column("Host", ".spec.host"), kr.READY, kr.REASON, kr.AGE],
    validations=[
        kr.ValidationRule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,40}[a-z0-9])?$')",
            "metadata.name names a Service, too: use 1 to 42 of a-z, 0-9 and '-', first a letter",
            ".metadata.name",
        )
    ],
)
class StaticSite(kr.Resource, kw_only=True):
    """A StaticSite is pages behind a password, at a host that no other site has."""

    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    web_image: str = kr.flag(
        "docker.io/library/busybox:1.37", "serves and checks the pages", kr.image, "IMAGE"
    )
    site_url: str = kr.flag(
        "http://{name}.{namespace}:8080", "where the operator reaches a site", metavar="URL"
    )


manager = kr.Manager("staticsite-operator", Settings)
controller = manager.controller_for(StaticSite)

# --- the children -------------------------------------------------------------------------------

controller.owns(kr.kinds.SECRET)
controller.owns(kr.kinds.CONFIG_MAP)
controller.owns(kr.kinds.JOB, on_immutable=kr.RECREATE)
controller.owns(kr.kinds.DEPLOYMENT, after=(kr.kinds.JOB,))
controller.owns(kr.kinds.SERVICE)
controller.owns(kr.kinds.POD_DISRUPTION_BUDGET)


class Secret(kr.Object):
    """A Secret; its values are decoded."""

    data: dict[str, bytes] = field(default_factory=dict)


class Login(NamedTuple):
    """Who may see a site."""

    username: str
    password: str
    version: str


def login(secret: Secret) -> Login:
    """Return the login in a Secret; raise an error if it has none."""
    username, password = (secret.data.get(name, b"").decode() for name in ("username", "password"))
    if not (username.isalnum() and password and password.isprintable()):
        raise ValueError("its username must be letters and digits, and its password one line")
    return Login(username, password, secret.metadata.resource_version)


controller.reads(kr.kinds.SECRET, Secret, keys=lambda site: [site.spec.login], transform=login)
controller.unique("host", lambda site: [site.spec.host])


@controller.desired
def desired(site: StaticSite, context: kr.Context[Settings]) -> Iterable[dict[str, Any]]:
    """Return the children of a StaticSite."""
    known: Login = context.read(kr.kinds.SECRET, site.spec.login)

    name, spec, image = site.metadata.name, site.spec, context.settings.web_image
    pages = f"{name}-{kr.short_hash(json.dumps(spec.pages, sort_keys=True))}"
    folders = {"/www": {"configMap": {"name": pages}}}
    yield kr.manifest(kr.kinds.CONFIG_MAP, pages, data=spec.pages, immutable=True)
    checks = pod(name, "check", image, ["sh", "-c", CHECK], folders, restartPolicy="Never")
    job = {"backoffLimit": 0, "activeDeadlineSeconds": 300, "template": checks}
    yield kr.manifest(kr.kinds.JOB, f"{name}-check", spec=job)

    config = {"httpd.conf": f"/:{known.username}:{known.password}\n"}
    yield kr.manifest(kr.kinds.SECRET, name, stringData=config)
    folders["/etc/site"] = {"secret": {"secretName": name}}
    server = ["httpd", "-f", "-p", str(PORT), "-h", "/www", "-c", "/etc/site/httpd.conf"]
    serves = pod(name, "web", image, server, folders)
    serves["metadata"]["annotations"] = {"sites.example.org/login": known.version}
    selector = {"matchLabels": labels(name, "web")}
    deployment = {"replicas": spec.replicas, "selector": selector, "template": serves}
    yield kr.manifest(kr.kinds.DEPLOYMENT, name, spec=deployment)
    yield kr.manifest(
        kr.kinds.SERVICE,
        name,
        annotations={"external-dns.alpha.kubernetes.io/hostname": spec.host},
        spec={"selector": labels(name, "web"), "ports": [{"name": "http", "port": PORT}]},
    )
    if spec.replicas > 1:
        budget = {"maxUnavailable": 1, "selector": selector}
        yield kr.manifest(kr.kinds.POD_DISRUPTION_BUDGET, name, spec=budget)


def labels(name: str, part: str) -> dict[str, str]:
    """Return the labels that select the Pods of a part of a site."""
    return {"app.kubernetes.io/instance": name, "app.kubernetes.io/component": part}


def pod(
    name: str, part: str, image: str, command: list[str], folders: dict[str, Any], **spec: Any
) -> dict[str, Any]:
    """Return the Pod template of a part of a site, which mounts these folders."""
    volumes = {folder: folder.strip("/").replace("/", "-") for folder in folders}
    container = {
        "name": part,
        "image": image,
        "command": command,
        "workingDir": "/www",
        "volumeMounts": [{"name": name, "mountPath": path} for path, name in volumes.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if part == "web":
        container["readinessProbe"] = {"tcpSocket": {"port": PORT}}
    user = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    content = {
        "containers": [container],
        "securityContext": user,
        "automountServiceAccountToken": False,
        "volumes": [{"name": name, **folders[path]} for path, name in volumes.items()],
        **spec,
    }
    return {"metadata": {"labels": labels(name, part)}, "spec": content}


# --- what is told of them -----------------------------------------------------------------------


class Pod(kr.Object):
    """A Pod, with what its containers did."""

    status: dict[str, Any] = field(default_factory=dict)


def complaint(pod: Pod) -> str:
    """Return what a failed check of the pages printed; empty for any other Pod."""
    for container in pod.status.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated", {})
        if container["name"] == "check" and ended.get("exitCode"):
            return str(ended.get("message") or "It printed nothing.").strip()
    return ""


controller.descendants(kr.kinds.POD, Pod, transform=complaint)


def pause(_: StaticSite, context: kr.CallContext[Settings]) -> float:
    """Return the seconds until a site is looked at again."""
    return 5 if context.check_result else 60


@controller.check(every=pause, on=(kr.kinds.DEPLOYMENT,))
async def check(site: StaticSite, context: kr.CallContext[Settings]) -> str:
    """Return why a site does not answer as it should, empty if it does."""
    known: Login = context.read(kr.kinds.SECRET, site.spec.login)
    name, namespace = site.metadata.name, site.metadata.namespace
    url = context.settings.site_url.format(name=name, namespace=namespace)
    visitor = base64.b64encode(f"{known.username}:{known.password}".encode()).decode()
    headers, limit = {"Authorization": f"Basic {visitor}"}, aiohttp.ClientTimeout(5)
    try:
        async with context.session.get(url, headers=headers, timeout=limit) as answer:
            return "" if answer.status == 200 else f"it answered {answer.status}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return kr.describe_error(error)


@controller.status
def status(_: StaticSite, seen: kr.Observed) -> kr.Status:
    """Return what the runtime says of a site, and what it cannot know."""
    now, answers = kr.default_status(seen), None
    if seen.trouble is None and seen.check_result is not None:
        answers = not seen.check_result
        if now.ready and seen.check_result:
            now = kr.Status(False, "NoAnswer", f"The site does not answer: {seen.check_result}.")
    pods = (pod for pod in seen.descendants[kr.kinds.POD] if not pod.deleting)
    said = next((pod.view for pod in pods if pod.view), "")
    done = any(job.kind == kr.kinds.JOB and not job.unready for job in seen.children)
    checked = kr.Condition("PagesAccepted", False if said else done or None, "Checked", said)
    return dataclasses.replace(now, fields=Status(answers=answers), conditions=[checked])


controller.gauge(
    "site_up", "Whether a site answers: 1 or 0.", lambda site: site.status.get("answers")
)

if __name__ == "__main__":
    raise SystemExit(manager.run())
