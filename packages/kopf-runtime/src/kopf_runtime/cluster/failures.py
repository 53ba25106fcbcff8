"""What an error says for people, such as of a connection that failed."""

import os
import socket
import ssl

import aiohttp


def describe_error(error: BaseException) -> str:
    """Return what an error says; of a connection that failed, where it leads to and why.

    aiohttp's own text names Python objects.
    """
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = f"its certificate is not trusted: {getattr(cause, 'verify_message', '') or cause}"
    elif isinstance(error, aiohttp.ClientConnectorError):
        why = _why(error.os_error)
    else:
        return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "")
    return f"no connection to {error.host}:{error.port}: {why}"


def _why(error: OSError) -> str:
    """Return why a connection failed; asyncio puts the address in the place of the reason."""
    if error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error)
