"""Each package of the kit says of all its modules what they are for."""

import pkgutil
import re
from types import ModuleType

import pytest

from kopf_kit import commands, pack, rig


@pytest.mark.parametrize("package", [commands, pack, rig], ids=lambda package: package.__name__)
def test_a_package_lists_its_modules(package: ModuleType) -> None:
    # A line begins with the names of modules, and then says what they are for.
    lines = [line for line in (package.__doc__ or "").splitlines() if line[:1].islower()]
    listed = {name for line in lines for name in re.split("(?<!,) ", line)[0].split(", ")}

    assert listed == {module.name for module in pkgutil.iter_modules(package.__path__)}
