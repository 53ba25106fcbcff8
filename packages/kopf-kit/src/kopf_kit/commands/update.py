"""`kopf-kit update`: brings the repository up to this kit, and keeps its author's edits."""

from pathlib import Path

import click

from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import say
from kopf_kit.template import record, update


@click.command()
def command() -> None:
    """Pin this kit and its runtime, and merge the changes of its template.

    `uvx kopf-kit@latest update` takes the newest. Uncommitted changes are refused.
    """
    folder = record.find(Path.cwd())
    changes = update.update(folder)
    for sentence in changes.said:
        say(sentence)
    if changes.conflicts:
        raise HackError(
            f"{', '.join(changes.conflicts)}: you and the newer kit changed the same lines; choose "
            "between what <<<<<<< and >>>>>>> enclose"
        )
