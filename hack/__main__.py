"""`python -m hack`: the commands of this repository alone; its Makefile runs them."""

import sys

from kopf_kit.program import Entry, Program, run

_SHOW, _TEST = "Show", "Test"
PROGRAM = Program(
    "hack",
    {
        "demo": Entry(_SHOW, "hack.demo:command", "run the main job from nothing to the end"),
        "matrix": Entry(_TEST, "hack.own_tiers:matrix_command", "test on each Kubernetes"),
        "sabotage": Entry(_TEST, "hack.sabotage:command", "change code: a test must notice each"),
        "soak": Entry(_TEST, "hack.own_tiers:soak_command", "churn for an hour: the memory stays"),
        "test-make": Entry(_TEST, "hack.own_tiers:make_command", "test the Makefile's commands"),
    },
)

if __name__ == "__main__":
    sys.exit(run(PROGRAM))
