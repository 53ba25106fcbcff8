"""All that is used of kopf beside its public names; it is imported only for handlers of kopf's.

kopf may move any of it in any release. An operator without handlers of kopf's would not notice;
one with them ends at once, and says which part.
"""

import importlib.metadata

from kopf_runtime.declaring.errors import DeclarationError

try:
    from kopf._cogs.clients import scanning, watching
    from kopf._cogs.clients.errors import APIError, APIForbiddenError
    from kopf._cogs.clients.watching import WatchingError
    from kopf._cogs.structs.references import Insights, Resource
    from kopf._core.engines.admission import MemoGetter, build_webhooks, serve_admission_request
    from kopf._core.reactor import observation

    read_version = scanning._read_version
    revise_resources, continuous_watch = observation.revise_resources, watching.continuous_watch
except (ImportError, AttributeError) as error:
    raise DeclarationError(
        f"kopf {importlib.metadata.version('kopf')} has moved what its handlers need here "
        f"({error}); install one that kopf-runtime supports"
    ) from error

__all__ = [
    "APIError",
    "APIForbiddenError",
    "Insights",
    "MemoGetter",
    "Resource",
    "WatchingError",
    "build_webhooks",
    "continuous_watch",
    "observation",
    "read_version",
    "revise_resources",
    "scanning",
    "serve_admission_request",
    "watching",
]
