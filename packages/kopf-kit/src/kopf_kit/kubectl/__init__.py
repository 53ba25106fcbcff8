"""The kubectl plugin of an operator, which `kopf-kit plugin` packs into one file.

It runs on a user's machine, with any Python 3.9 or newer, and reaches the cluster through the
user's own `kubectl`. So nothing here imports the rest of the kit, or any package. A repository may
have a package `kubectl_NAME` with a plugin of its own made of the same parts.

__main__   the command line of an operator without a package of its own
cli        what is the same in every plugin's command line, and the exit codes
status     the table of an operator's objects
why        why an object is not ready, and what keeps the operator from looking at it
doctor     the checks of the operator, from the cluster to each namespace
support    collects what a maintainer needs in one file
redaction  hides in it what users wrote
health     how the objects of a kind fare, for doctor
checks     checks of an operator, for doctor and why
running    the check of its replicas
advice     what may be advised about an operator
survey     the operators of a cluster, with their Pods and Leases
trust      which Deployments are operators, and which only look like one
rights     the operator's rights, and which of them it lacks
operators  what the Deployment of an operator says
objects    what an object's conditions say
replicas   what to do about an operator's Pod that does not run
refusals   why kubectl fails, and what to do
kubectl    runs kubectl
findings   the result of a check, and how it is printed
subject    the operator that a plugin is about
names      which texts are names of Kubernetes
text       sentences in English and Korean, tables, and colours
"""
