"""Releases with alerts and dashboards, and promtool, which tells when their alerts fire."""

import dataclasses
import json
import subprocess
from pathlib import Path

from chart.helm import FULLNAME, NAMESPACE, RELEASE, Manifest, names, render
from kopf_offline import prometheus

POD = f"{FULLNAME}-5d7c9b-x2x4z"
OURS = f'namespace="{NAMESPACE}",pod="{POD}"'


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of the chart, with alerts."""

    name: str = RELEASE
    namespace: str = NAMESPACE

    def render(self, **metrics: object) -> list[Manifest]:
        """Return its objects, with these values below `metrics`."""
        return render({"metrics": metrics}, release=self.name, namespace=self.namespace)

    def rules(self, **values: object) -> list[Manifest]:
        """Return the alerts, with these values below `metrics.prometheusRule`."""
        manifests = self.render(prometheusRule={"enabled": True, **values})
        (rule,) = (manifest for manifest in manifests if manifest["kind"] == "PrometheusRule")
        (group,) = rule["spec"]["groups"]
        found: list[Manifest] = group["rules"]
        return found

    def samples(self) -> str:
        """Return the labels that Prometheus gives to samples of a Pod of this release."""
        pod = f"{self.operator}-5d7c9b-x2x4z"
        return f'namespace="{self.namespace}",pod="{pod}",operator="{self.operator}"'

    @property
    def operator(self) -> str:
        """Return the name of its Deployment."""
        (name,) = (name for kind, _, name in names(self.render()) if kind == "Deployment")
        return name


#: Where many releases share a monitoring stack, those that one could take for each other.
RELEASES = (Release(), Release(namespace="elsewhere"), Release("other"))


def rules(**values: object) -> list[Manifest]:
    """Return the alerts of one release."""
    return Release().rules(**values)


ALERTS = {rule["alert"]: rule for rule in rules()}


def rule_file(folder: Path, *releases: Release) -> Path:
    """Write the rules of these releases, else of one, as Prometheus reads them."""
    groups = [
        {"name": f"{release.namespace}/{release.name}", "rules": release.rules()}
        for release in releases or (Release(),)
    ]
    file = folder / "rules.yaml"
    file.write_text(json.dumps({"groups": groups}))
    return file


def promtool(*arguments: str | Path) -> None:
    """Run promtool; fail with what it says."""
    done = subprocess.run(
        [prometheus.path("promtool"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def series(release: Release, name: str, values: str) -> Manifest:
    """Return a series as promtool reads it, from a Pod of a release."""
    base, _, labels = name.partition("{")
    more = f",{labels}" if labels else "}"
    return {"series": f"{base}{{{release.samples()}{more}", "values": values}


def firing(alert: str, minute: int, *releases: Release) -> Manifest:
    """Return the expectation that an alert fires for just these releases at some minute."""
    labels = [
        f'{{namespace="{release.namespace}",operator="{release.operator}"}}' for release in releases
    ]
    return {
        "expr": "count by (namespace, operator) "
        f'(ALERTS{{alertname="{alert}",alertstate="firing"}})',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": selector, "value": 1} for selector in labels],
    }


def expect(folder: Path, tests: list[Manifest], *releases: Release) -> None:
    """Have promtool run tests with the rules of these releases."""
    rule_file(folder, *releases)
    every = [{"interval": "1m", **test} for test in tests]
    file = folder / "tests.yaml"
    file.write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "5m", "tests": every})
    )
    promtool("test", "rules", file)
