"""A v2 of the Message beside its v1, as docs/policy.md promises for an incompatible change."""

from typing import Annotated

from msgspec import Meta

import kopf_runtime as kr
from kopf_kit.crd import generated
from kopf_kit.testing.conversions import assert_lossless
from message_operator.messages import Interval, Message, Spec, Status, Text


class Content(kr.Fields, frozen=True):
    """What is printed; v1 has no language."""

    text: Text = "Hello from Operator!"
    language: Annotated[str, Meta(max_length=8, description="A code such as `ko`.")] = ""


class NewSpec(kr.Fields, frozen=True):
    """The text has moved, and the interval has another name."""

    content: Content = Content()
    period_seconds: Interval = 10


@kr.custom_resource("myorg.dev", "v2", "messages", kind="Message", status=Status, storage=True)
class NewMessage(kr.Resource):
    """A Message of v2."""

    spec: NewSpec = NewSpec()


def test_a_v2_that_moves_renames_and_adds_fields_loses_nothing_beside_v1() -> None:
    controller = kr.Manager("message-operator", kr.Settings).controller_for(NewMessage)

    @controller.convert(Message, NewMessage)
    def newer(old: Message) -> NewMessage:
        content = Content(text=old.spec.text)
        return NewMessage(old.metadata, spec=NewSpec(content, old.spec.interval_seconds))

    @controller.convert(NewMessage, Message)
    def older(new: NewMessage) -> Message:
        spec = Spec(text=new.spec.content.text, interval_seconds=new.spec.period_seconds)
        return Message(new.metadata, spec=spec)

    assert_lossless(controller, examples=30)
    served = [version["name"] for version in generated.of(controller)["spec"]["versions"]]
    assert served == ["v2", "v1"]
