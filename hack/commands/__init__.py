"""The commands of the Makefile, one module each: `python -m hack COMMAND`.

test            runs tiers of tests; slowest: names the slowest tests
preflight       not a command: reports what this machine lacks
cluster, olm    create a cluster, install OLM in it, and remove them
tool            prints the path of a program, which it builds if necessary
image           builds or pushes the operator's image
push            pushes bundle, catalog or charts with the images that they name
generate        writes the generated files; verify: finds mistakes
bump            raises the version
changelog       writes the changes of a version
new             writes the repository of a new operator
kit_update      brings a newer kit into such a repository
plugin          packs and installs the kubectl plugin
docs            builds or serves the documentation site
release_bundle  writes the files for community-operators
release         makes a whole release, or the keys that sign it
release_page    makes the page of a release on GitHub
operators       not a command: the operators in a cluster
pytest_runs     not a command: runs pytest several times, with one exit code
crd, deploy     install the CRD, or the whole operator, and remove it
run             runs the operator on this machine
demo            runs the main job from start to end
e2e             runs the end-to-end tests
makefile        tests the commands of the Makefile
upgrades        rehearses releases, and upgrades from each
matrix          tests what depends on the API server, on each Kubernetes
sabotage        applies small defects, each of which a test must notice
soak            churns for an hour, and looks at the operator's memory
"""

import argparse
from typing import TypeAlias

#: What `add_subparsers` returns; each command's module adds its parsers to it.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
