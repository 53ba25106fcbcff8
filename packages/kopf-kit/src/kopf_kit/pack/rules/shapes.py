"""The fields and types that a document must have so that the rules can be checked.

They are JSON Schemas; `package` validates every document against its own. The rules check the
values of the fields, and OLM's validators all others.
"""

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_ANY: Schema = {}


def _object(**properties: Schema) -> Schema:
    """Return an object; a property whose name ends with an underscore is optional."""
    return {
        "type": "object",
        "required": [name for name in properties if not name.endswith("_")],
        "properties": {name.removesuffix("_"): schema for name, schema in properties.items()},
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_ALL_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_OBJECTS = _list(_object())

_RULES = _list(
    _object(
        serviceAccountName=_TEXT,
        rules=_list(
            _object(apiGroups_=_TEXTS, resources_=_TEXTS, nonResourceURLs_=_TEXTS, verbs=_TEXTS)
        ),
    )
)

_CONTAINER = _object(
    name=_TEXT,
    image=_TEXT,
    env_=_list(_object(name=_TEXT, value_=_TEXT, valueFrom_=_object(fieldRef_=_object()))),
    resources_=_object(requests_=_object()),
)
_POD = _object(containers=_list(_CONTAINER))

_DESCRIPTORS = _list(_object(path=_TEXT))

_FIELDS = _object(properties_=_object())

SHAPES: dict[str, Schema] = {
    "ClusterServiceVersion": _object(
        metadata=_object(name=_TEXT, annotations=_ALL_TEXTS, labels_=_ALL_TEXTS),
        spec=_object(
            version=_TEXT,
            maintainers_=_OBJECTS,
            links_=_OBJECTS,
            icon_=_OBJECTS,
            installModes_=_OBJECTS,
            relatedImages_=_list(_object(image=_TEXT)),
            customresourcedefinitions_=_object(
                owned_=_list(
                    _object(
                        name=_TEXT,
                        version=_TEXT,
                        specDescriptors_=_DESCRIPTORS,
                        statusDescriptors_=_DESCRIPTORS,
                    )
                )
            ),
            install=_object(
                spec=_object(
                    deployments=_list(
                        _object(name=_TEXT, spec=_object(template=_object(spec=_POD)))
                    ),
                    permissions_=_RULES,
                    clusterPermissions_=_RULES,
                )
            ),
        ),
    ),
    "CustomResourceDefinition": _object(
        spec=_object(
            group=_TEXT,
            names=_object(kind=_TEXT),
            versions=_list(
                _object(
                    name=_TEXT,
                    schema=_object(
                        openAPIV3Schema=_object(properties_=_object(spec_=_FIELDS, status_=_FIELDS))
                    ),
                )
            ),
        )
    ),
    "olm.package": _object(name=_TEXT, defaultChannel=_TEXT),
    "olm.channel": _object(
        package=_TEXT,
        name=_TEXT,
        entries=_list(
            _object(name=_TEXT, replaces_=_TEXT, skipRange_=_TEXT),
        ),
    ),
    "olm.bundle": _object(
        package=_TEXT,
        name=_TEXT,
        image=_TEXT,
        properties=_list(_object(type=_TEXT, value=_ANY)),
        relatedImages_=_list(_object(image=_TEXT)),
    ),
}
