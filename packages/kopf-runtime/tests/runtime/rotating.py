"""The operator of festivals.py, which replaces its certificate every few seconds."""

from kopf_runtime.endpoints import certificates
from runtime import festivals

certificates.LIFE, certificates.RENEW = 3600.0, 3598.0
certificates.LOOK, certificates.TRUST, certificates.TRUST_SETTLES = 0.3, 1.0, 3.0

if __name__ == "__main__":
    raise SystemExit(festivals.manager.run())
