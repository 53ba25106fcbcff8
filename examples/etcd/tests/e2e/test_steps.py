"""The first steps of the README, typed as it has them, on a kind cluster of their own.

These are the last tests: `make cluster-down` also ends the registry, which the others share.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kopf_kit.rig import cluster, tools

ROOT = Path(__file__).parents[2]
#: What this run was given, which is not for the commands.
_OURS = re.compile("PROJECT$|ARGS$|MAKE|MFLAGS$")


def test_f10_f11_the_first_steps_lead_to_a_write_and_a_read_over_tls(
    pytestconfig: pytest.Config,
) -> None:
    if pytestconfig.getoption("--by-olm"):
        pytest.skip("`make deploy` installs the operator by Helm")
    page = (ROOT / "README.md").read_text().partition("## First steps")[2]
    block = page.partition("```console\n")[2].partition("```")[0]
    commands = re.sub(r"^\$ ", "", block, flags=re.MULTILINE).splitlines()
    assert (commands[0], len(commands)) == ("make deploy", 5)
    [end] = re.findall("`(make cluster-down)`", page)
    path = os.pathsep.join([f"{sys.prefix}/bin", str(tools.path("kubectl").parent)])
    environment = {
        **{name: text for name, text in os.environ.items() if not _OURS.match(name)},
        "PATH": f"{path}:{os.environ['PATH']}",
        "PYTHONPATH": "operator",
        "KIND_CLUSTER_NAME": f"{cluster.NAME}-steps",
        # What uv would install from the folder is in this environment.
        "UV_NO_SYNC": "1",
        "UV_PROJECT_ENVIRONMENT": sys.prefix,
    }

    def type_(command: str) -> str:
        print(f"$ {command}", flush=True)
        printed = subprocess.run(  # noqa: S603
            ["/bin/bash", "-euo", "pipefail", "-c", command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=1800,
            check=True,
        ).stdout
        print(printed)
        return printed

    try:
        deployed = type_(commands[0])
        [environment["KUBECONFIG"]] = re.findall(r"^export KUBECONFIG=(\S+)", deployed, re.M)
        printed = [type_(command) for command in commands[1:]]
    finally:
        type_(end)

    assert "condition met" in printed[1]
    assert printed[2:] == ["OK\n", "greeting\nhello\n"]
    assert not Path(environment["KUBECONFIG"]).exists()
