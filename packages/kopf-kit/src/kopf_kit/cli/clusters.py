"""`kopf-kit cluster`, `olm` and `tool`: the machine, for people, scripts and the tests.

`python -m kopf_kit tool kubectl` prints the path of a program.
"""

import click

from kopf_kit.rig import tools, versions
from kopf_kit.rig.steps import say


@click.command()
@click.argument("action", type=click.Choice(["up", "down", "tests"]))
def command(action: str) -> None:
    """Create the kind cluster and its registry, or that of the tests, or delete all of them."""
    from kopf_kit.rig import cluster  # it names the cluster after PROJECT

    if action == "down":
        cluster.down()
    elif action == "tests":
        cluster.up(cluster.TEST_NAME)
    else:
        say(f"The cluster answers: {cluster.up().export}")


@click.command()
@click.argument("action", type=click.Choice(["up", "down", "image"]))
def olm_command(action: str) -> None:
    """Install OLM and catalogd in the cluster, remove them, or only build their image."""
    from kopf_kit.rig import engine, olm, registry

    if action == "down":
        olm.down()
    elif action == "image":  # only the image with its programs
        engine.up()
        registry.up()
        olm.image()
    else:
        olm.report(olm.up())


@click.command()
@click.argument(
    "programs",
    nargs=-1,
    required=True,
    type=click.Choice(sorted(versions.PROGRAMS)),
    metavar="NAME...",
)
def tool(programs: tuple[str, ...]) -> None:
    """Print the paths of programs, such as kubectl; kopf-offline builds those that are missing."""
    for path in tools.paths_of(*programs):
        print(path)
