"""`python -m hack`: the commands of this repository alone; its Makefile runs them."""

import sys

from kopf_kit.program import Entry, Program, run

PROGRAM = Program(
    "hack",
    {
        "demo": Entry("Show", "hack.demo:command", "run the main job from nothing to the end"),
        "sabotage": Entry("Test", "hack.sabotage:command", "change code: a test must notice each"),
    },
)

if __name__ == "__main__":
    sys.exit(run(PROGRAM))
