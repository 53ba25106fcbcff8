"""The operator of festivals.py, which rewrites what is stored slowly, and begins soon."""

from kopf_runtime.working import migration
from runtime import festivals

migration.RATE, migration.SETTLE = 30.0, 1.0

if __name__ == "__main__":
    raise SystemExit(festivals.manager.run())
