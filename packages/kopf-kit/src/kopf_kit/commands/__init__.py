"""The commands of `kopf-kit`, one module each.

new             writes a new operator's repository
test            runs tiers of tests; slowest: names the slowest tests
cluster         creates a cluster, installs OLM in it, removes them; tool: prints a program's path
push            pushes bundle, catalog or charts with the images that they name; image: that alone
generate        writes the generated files; verify: finds mistakes
bump            raises the version; release-changelog: writes its changes again
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
matrix          tests what depends on the API server, on each Kubernetes
own_tiers       tests the Makefile's commands and upgrades, and churns for an hour
sabotage        applies small defects, each of which a test must notice
"""

import argparse
from typing import TypeAlias

#: What `add_subparsers` returns; each command's module adds its parsers to it.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
