"""Turns a bare machine into a cluster.

The modules, lowest first:

run               commands, readable failures
names             what all that is made on a machine is called
environment       removes what a user has set for other programs
paths, versions   where things are, and which versions are pinned
durations, steps  work that has a name and shows its progress
command           runs one command for a person, with a readable end
cache             parts that are built once and kept outside the checkout
compiler, golang  programs from Go modules (go/)
platforms         those that images are built for
debian            root file systems from Debian packages
archive           images, written without an engine
oci               what a registry holds, read and pushed without an engine
tools, prometheus kind, kubectl, helm; Prometheus and promtool
pythons           Pythons with packages that the development environment lacks
control_plane     a control plane of plain processes, for tests that need no node
preflight         what a machine must have, and how to get it
engine            the Docker engine
dockerfiles       images of Dockerfiles, for one platform or several
public_images     images that are pulled, where a registry can be reached
registry          the registry beside the cluster, on localhost:5001
base_images       what the operator's image stands on, and BusyBox
node_image        the kind node (node/), where no registry can be reached
kind              the kind cluster: its health, its creation and deletion
existing          the cluster of the current kubeconfig
cluster           all of it together: a cluster for every target of the Makefile
catalogd          what serves catalogs to OLM v1, in the cluster
olm               the Operator Lifecycle Manager, in the cluster
opm               what a catalog for several platforms is built on
"""
