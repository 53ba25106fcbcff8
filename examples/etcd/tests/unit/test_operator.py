"""What an object of the kind should have, without a cluster."""

import kopf_runtime as kr
import msgspec
import pytest

from etcd_operator import operator


def decoded(**spec: object) -> operator.EtcdCluster:
    manifest = {"metadata": {"name": "sample", "uid": "1", "resourceVersion": "1"}, "spec": spec}
    return msgspec.convert(manifest, operator.EtcdCluster)


def test_a_config_map_of_its_name_holds_the_text() -> None:
    context = kr.Context(operator.Settings())

    (config_map,) = operator.desired(decoded(text="Good morning!"), context)

    assert config_map["metadata"]["name"] == "sample"
    assert config_map["data"] == {"text": "Good morning!"}


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="1024"):
        decoded(text="a" * 1025)
