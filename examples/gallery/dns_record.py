"""A record at a DNS provider, outside the cluster, which goes with its object."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

import kopf_runtime as kr


class Spec(kr.Fields, frozen=True, kw_only=True):
    """What is recorded."""

    host: kr.ObjectName
    """The name, which no other record has."""
    address: Annotated[str, Meta(max_length=45)]
    """Its address."""


FIXED = kr.ValidationRule("self.spec.host == oldSelf.spec.host", "a host is fixed")


@kr.custom_resource("gallery.example.dev", "v1", "dnsrecords", validations=[FIXED])
class DnsRecord(kr.Resource, kw_only=True):
    """A DnsRecord is the address of a host at a DNS provider."""

    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    provider: str = kr.flag("http://dns-provider", "the provider's API", metavar="URL")


manager = kr.Manager("dns-record", Settings)
records = manager.controller_for(DnsRecord)
records.unique("host", lambda record: [record.spec.host])


@records.sync(every=60)
async def write(record: DnsRecord, context: kr.CallContext[Settings]) -> None:
    """Write the record; the provider takes the same one twice."""
    url, body = f"{context.settings.provider}/{record.spec.host}", {"address": record.spec.address}
    async with context.session.put(url, json=body) as answer:
        answer.raise_for_status()


@records.finalize
async def remove(record: DnsRecord, context: kr.CallContext[Settings]) -> None:
    """Remove it, if it is still there."""
    url = f"{context.settings.provider}/{record.spec.host}"
    async with context.session.delete(url) as answer:
        if answer.status != 404:
            answer.raise_for_status()


if __name__ == "__main__":
    raise SystemExit(manager.run())
