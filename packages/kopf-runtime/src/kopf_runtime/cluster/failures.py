"""What an error says for people, such as of a connection that failed."""

import os
import re
import socket
import ssl


def describe_error(error: BaseException) -> str:
    """Return what an error says; of a connection that failed, where it leads to and why.

    aiohttp's own text names Python objects. Its errors are known by what they have: to import it
    takes long, and few operators use it.
    """
    if cause := getattr(error, "certificate_error", None):
        why = f"its certificate is not trusted: {getattr(cause, 'verify_message', '') or cause}"
    elif cause := getattr(error, "os_error", None):
        why = cause.strerror or str(cause)
        if cause.errno and not isinstance(cause, ssl.SSLError | socket.gaierror):
            why = os.strerror(cause.errno)  # asyncio puts the address in the place of the reason
    elif re.match(r"<ContextVar name='(event_queue(_loop)?|settings)_var'", str(error)):
        return "kopf.event() is for handlers of kopf; use context.event() in sync, check, finalize"
    else:
        return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "")
    return f"no connection to {getattr(error, 'host', '')}:{getattr(error, 'port', '')}: {why}"
