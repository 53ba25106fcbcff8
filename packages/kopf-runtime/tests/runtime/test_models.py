"""Children as models of other libraries, and what `owns` and `reads` show of them as such."""

import dataclasses
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pydantic
import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.typing import check_types
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Widget, edit, ready, widget


class Meta(pydantic.BaseModel):
    name: str
    labels: dict[str, str] | None = None


class Mine(pydantic.BaseModel):
    """A model as cloudcoil's are: pydantic's, with its own apiVersion and kind."""

    api_version: str = pydantic.Field(alias="apiVersion")
    kind: str = "ConfigMap"
    metadata: Meta
    data: dict[str, str] = pydantic.Field(default_factory=dict)


@dataclasses.dataclass
class Named:
    name: str
    labels: dict[str, str] | None = None


@dataclasses.dataclass
class Plain:
    metadata: Named
    data: dict[str, str] | None = None


#: By class: how a model of a ConfigMap is made.
MODELS: dict[type[Any], Callable[[str, dict[str, str]], Any]] = {
    ConfigMap: lambda name, data: ConfigMap(metadata=ObjectMeta(name=name), data=data),
    Mine: lambda name, data: Mine(apiVersion="v1", metadata=Meta(name=name), data=data),
    Plain: lambda name, data: Plain(Named(name), data),
}
if find_spec("kubernetes"):  # it takes no aiohttp that is as old as the runtime's lowest
    from kubernetes import client

    MODELS[client.V1ConfigMap] = lambda name, data: client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name), data=data
    )


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(WIDGET, SECRET).running() as one:
        one.put(WIDGET, widget())
        yield one


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__module__.split(".")[0])
async def test_a_child_may_be_a_model_and_seen_as_one(server: ApiServer, model: type[Any]) -> None:
    seen: list[str] = []
    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP, model, transform=lambda found: (type(found), found.data["text"]))
    one.reads(
        SECRET, model, keys=lambda _: ["secret"], transform=lambda secret: secret.metadata.name
    )

    @one.desired
    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Any]:
        assert context.read(SECRET, "secret") == "secret"
        yield MODELS[model]("w-one", {"text": thing.spec.text})

    @one.status
    def status(_: Any, found: kr.Observed) -> kr.Status:
        if found.child is not None:
            assert found.child.view[0] is model
            seen.append(found.child.view[1])
        return kr.default_status(found)

    server.put(SECRET, {"metadata": {"namespace": "ns", "name": "secret"}, "type": "Opaque"})
    async with operating(server, one):
        await until(lambda: ready(server.get(WIDGET, ("ns", "one"))).get("status") == "True")
        made = server.get(CONFIG_MAP, ("ns", "w-one")) or {}
        assert made["data"] == {"text": "hello"}
        assert made["metadata"]["ownerReferences"][0]["name"] == "one"
        server.edit(WIDGET, ("ns", "one"), edit("edited"))
        await until(lambda: "edited" in seen)


async def test_what_does_not_fit_a_model_is_left_out_and_told(server: ApiServer) -> None:
    one = Controller(WIDGET, Widget, None)
    one.reads(SECRET, Mine, keys=lambda _: ["odd"], transform=lambda secret: secret.data)
    one.owns(CONFIG_MAP)
    one.desired(lambda *_: [])
    server.put(SECRET, {"metadata": {"namespace": "ns", "name": "odd"}, "data": {"a": 5}})
    async with operating(server, one):

        def reason() -> Any:
            return ready(server.get(WIDGET, ("ns", "one"))).get("reason")

        await until(lambda: reason() == "ReferenceUnreadable")


def refusal(given: Any) -> str:
    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP)
    with pytest.raises(TypeError) as error:
        one.owns(SECRET, given)
    return str(error.value)


def test_a_class_that_can_read_nothing_is_refused() -> None:
    assert refusal(dict) == "dict can read no object: derive it from kr.Object"
    assert refusal("Secret") == "'Secret' is not a class of objects"


async def test_a_model_without_its_kind_is_refused_in_words(server: ApiServer) -> None:
    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP)
    one.desired(lambda *_: [Plain(Named("w-one"))])
    async with operating(server, one):

        def message() -> Any:
            return ready(server.get(WIDGET, ("ns", "one"))).get("message", "")

        await until(lambda: "a Plain without its apiVersion and kind" in message())


SNIPPET = """
from collections.abc import Iterable
from typing import Any
import kopf_runtime as kr
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Secret

controller: kr.Controller
controller.owns(kr.kinds.CONFIG_MAP, ConfigMap, transform=lambda found: found.data)

@controller.desired
def desired(_: kr.Resource, context: kr.Context[kr.Settings]) -> Iterable[ConfigMap]:
    yield ConfigMap(metadata=ObjectMeta(name="one"), data={"a": "b"})
    yield ConfigMap(metadata=ObjectMeta(name="two"), data=5)  # Argument "data" to "ConfigMap"
    yield Secret()  # Incompatible types in "yield"

@controller.desired
def several(_: kr.Resource, context: kr.Context[kr.Settings]) -> Iterable[kr.Manifest]:
    yield ConfigMap()
    yield {"apiVersion": "v1", "kind": "ConfigMap"}
    yield "ConfigMap"  # Incompatible types in "yield"

@controller.desired  # Value of type variable
def texts(_: kr.Resource, context: kr.Context[kr.Settings]) -> Iterable[str]:
    return ["ConfigMap"]
"""


def test_a_type_checker_knows_what_desired_yields(tmp_path: Path) -> None:
    check_types(SNIPPET, tmp_path)


def test_none_of_these_libraries_is_imported_by_the_runtime() -> None:
    without = "import sys; sys.modules['kubernetes'] = None"  # which kopf imports if it can
    code = f"{without}; import kopf_runtime; print({{'pydantic', 'lightkube'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
