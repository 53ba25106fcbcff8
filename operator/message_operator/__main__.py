"""``python -m message_operator``: the image's entry point, and a developer's."""

import logging
import sys
from collections.abc import Sequence

import kopf

from message_operator import handlers, kube, logs, settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the operator until it is told to stop; gives the exit code."""
    configured = settings.parse(argv)
    logs.configure(configured.log_level, configured.log_format)
    if configured.log_level != "debug":  # kopf tells of each event that was passed on
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    try:
        kube.credentials()
    except kopf.LoginError as error:
        print(f"message-operator: {error}", file=sys.stderr)  # noqa: T201
        return 1
    handlers.configured = configured
    kopf.run(
        standalone=True,
        clusterwide=not configured.namespaces,
        namespaces=configured.namespaces,
        stop_flag=handlers.stopping,
    )
    return handlers.exit_code()


if __name__ == "__main__":
    sys.exit(main())
