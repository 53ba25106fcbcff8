"""Runs one command for a person, with readable errors; used by `kopf-kit` and `bench`."""

import signal
from collections.abc import Callable
from typing import NoReturn

from kopf_kit.rig import environment
from kopf_kit.rig.run import HackError, stop_all
from kopf_kit.rig.steps import say


def execute(command: Callable[[], int | None]) -> int:
    """Run a command and return the exit code; print a HackError without its traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        environment.scrub()
        return command() or 0
    except HackError as error:
        say(f"\nerror: {error}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; finished steps are kept, and the same command continues from there")
        return 130
    finally:
        stop_all()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
