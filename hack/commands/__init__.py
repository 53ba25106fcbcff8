"""The commands of the Makefile, a module each: `python -m hack COMMAND`.

preflight       tell what this machine lacks
cluster, olm    make a cluster, put OLM into it, and remove them
tool            print where a program is, built where it is missing
image           build or push the operator's image
push            push bundle, catalog or charts with the images that they name
generate        write the files that are made of others; verify: find mistakes
bump            raise the version
changelog       write what a version changes
new             write a repository for a new operator
chart_diff      show what an upgrade from the last release changes
plugin          pack and install kubectl's plugin
docs            build or serve the documentation site
scan            look up known vulnerabilities of what is locked
release_bundle  lay out what community-operators gets
release         do the whole of a release; make the keys that sign it
operators       not a command: the operators that a cluster has
pytest_runs     not a command: runs of pytest, and one exit code for several
crd, deploy     put the CRD, or the whole operator, into a cluster and remove it
run             run the operator on this machine
demo            run the main job from nothing to the end
e2e             run the end-to-end tests
matrix          test what depends on the API server, on each Kubernetes
"""

import argparse
from typing import TypeAlias

#: What `add_subparsers` returns; each command's module adds its parsers to it.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
