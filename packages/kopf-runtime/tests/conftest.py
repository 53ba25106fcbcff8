"""What every test of the runtime stands on: an environment that a user's own does not reach."""

import gc
import os

from hypothesis import HealthCheck, settings

#: What a client or an operator reads; the tests choose it.
_READ = ("KUBECONFIG", "KUBERNETES_SERVICE_", "POD_NAME", "WATCH_NAMESPACE")

for name in [name for name in os.environ if name.startswith(_READ)]:
    del os.environ[name]
for name in ("NO_PROXY", "no_proxy"):
    os.environ[name] = ",".join(filter(None, (os.environ.get(name), "localhost,127.0.0.1,::1")))
os.environ["KUBECONFIG"] = os.devnull

# How long an example takes says nothing about the code, but how busy the machine is.
settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what all tests share: it is a tenth of their work."""
    gc.freeze()
