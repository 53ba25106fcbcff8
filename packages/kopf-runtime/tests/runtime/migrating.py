"""The next release of festivals.py, which stores v1, and rewrites slowly what is stored."""

from dataclasses import replace

from kopf_runtime.declaring.declaration import _ATTRIBUTE, declared
from kopf_runtime.working import migration
from runtime import festivals

if __name__ == "__main__":
    migration.RATE, migration.CRD_SETTLES = 30.0, 1.0
    for type_, stored in ((festivals.Alpha, False), (festivals.Festival, True)):
        setattr(type_, _ATTRIBUTE, replace(declared(type_), storage=stored))
    raise SystemExit(festivals.manager.run())
