"""Runs one command for a person, with readable errors; used by `kopf-kit` and `bench`."""

import errno
import signal
from collections.abc import Callable
from typing import NoReturn

from kopf_kit.rig import environment
from kopf_kit.rig.run import HackError, stop_all
from kopf_kit.rig.steps import say

#: Errors that are no mistake in the command: a missing permission, or a full disk.
_OF_THE_MACHINE = errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT


def execute(command: Callable[[], int | None]) -> int:
    """Run a command and return the exit code; print a HackError without its traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        environment.scrub()
        return command() or 0
    except HackError as error:
        say(f"\nerror: {error}")
        return 1
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE or error.filename is None:
            raise
        say(f"\nerror: {error.filename}: {error.strerror}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; finished steps are kept, and the same command continues from there")
        return 130
    finally:
        stop_all()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
