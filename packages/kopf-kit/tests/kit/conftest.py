from tests import conftest as _environment  # noqa: F401
