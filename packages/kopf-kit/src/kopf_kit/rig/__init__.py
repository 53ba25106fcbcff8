"""Sets up a cluster on a bare machine.

The modules, lowest first:

run               runs programs and reports their failures
locked            a part of requirements.txt; runs before anything is installed
pruned            removes hashes that nobody needs from requirements.txt
reading, writing  reads what people write, and writes several files or none
names             the names of what is created on a machine
pinned            the versions of Go modules, which kopf-offline writes down
environment       removes variables that a user has set for other programs
paths, versions   the project's folders, and the pinned versions
steps             named steps that show their progress
command           runs a command and reports its error in a readable form
cache             the cache outside the checkout for what is built once
platforms         the platforms that images are built for
debian            installs Debian packages
self_signed       a certificate for a server in the kind cluster
offline           the way to kopf-offline, which builds images and Go programs
oci               reads and pushes a registry's content without an engine
tools             kind, kubectl, helm, crane, cosign, and all that kopf-offline builds
pythons           virtual environments with packages that the development environment lacks
control_plane     a control plane of plain processes, for tests that need no node
preflight         what a machine must have, and how to install it
engine            the Docker engine
dockerfiles       builds images from Dockerfiles, for one platform or several
public_images     public images, if a registry can be reached
registry          the registry beside the cluster
base_images       the base images of the operator's image, and BusyBox
kind              the kind cluster: its health, its creation and deletion
existing          the cluster of the current kubeconfig
cluster           combines these: a cluster for every target of the Makefile
catalogd          OLM v1's server of catalogs, in the cluster
olm               the Operator Lifecycle Manager, in the cluster
"""
