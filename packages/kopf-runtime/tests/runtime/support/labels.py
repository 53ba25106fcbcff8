"""Label selectors that the API server accepts, and some that it refuses.

`tests/faults` asks a real one; the operator and the chart's schema must agree with it.
"""

VALID = (
    "team",
    "team=a",
    "team==a",
    "team!=a",
    "team=",
    "!team",
    "! team",
    "team in (a)",
    "team in (a,b)",
    "team notin ( a , b )",
    "team = a , example.dev/stage in (test, live), !paused",
    "kubernetes.io/metadata.name=default",
    "a-b_c.D=x-y_z.0",
    "a" * 253 + "/team=a",
)
INVALID = (
    "=",
    "team=a b",
    "team=a,",
    "team=-a",
    "team in a",
    "team in ()x",
    "team in (a",
    "team is (a)",
    "!team=a",
    "-team=a",
    "Example.dev/team=a",
    "team=" + "a" * 64,
    "a/b/c=d",
    "a..b/c=d",
    "a-.b/c=d",
    "team=a," + "a" * 254 + "/team",
)
