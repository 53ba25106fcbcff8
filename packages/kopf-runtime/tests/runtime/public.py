"""Lists the public names of kopf_runtime, with the members and signatures that authors use.

python packages/kopf-runtime/tests/runtime/public.py >packages/kopf-runtime/public.txt
"""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import kopf_runtime as kr

#: An author is given objects of these classes and makes none: their constructors may change.
_GIVEN = (kr.Child, kr.Client, kr.Controller, kr.Owner)


def lines() -> Iterator[str]:
    """Yield a line for each name and for each public member of a class or module."""
    for name in sorted(kr.__all__):
        thing = getattr(kr, name)
        yield f"{name}{_signature(thing)}"
        if not inspect.isclass(thing) and not isinstance(thing, ModuleType):
            continue
        class_ = thing if isinstance(thing, type) else object
        bases: tuple[type, ...] = (Exception, tuple)
        inherited = next((base for base in bases if issubclass(class_, base)), object)
        for member in sorted(
            {*dir(thing), *getattr(thing, "__annotations__", ())} - {*dir(inherited)}
        ):
            value = inspect.getattr_static(thing, member, None)
            foreign = not getattr(value, "__module__", kr.__name__).startswith(kr.__name__)
            if not (member.startswith("_") or foreign or isinstance(value, ModuleType | type)):
                yield f"    {member}{_signature(value)}"


def _signature(thing: Any) -> str:
    """Return the parameters: names, kinds and whether there is a default; types are mypy's part."""
    if not (inspect.isfunction(thing) or inspect.isclass(thing)) or thing in _GIVEN:
        return ""
    try:
        signature = inspect.signature(thing)
    except ValueError:  # an enumeration's or a C class's
        return ""
    parameters = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=inspect.Parameter.empty
            if parameter.default is inspect.Parameter.empty
            else ...,
        )
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters)).replace("Ellipsis", "...")


if __name__ == "__main__":
    print("\n".join(lines()))  # noqa: T201
