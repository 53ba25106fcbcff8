"""The kubectl plugin of an operator, which `kopf-kit plugin` packs into one file.

It runs on a user's machine, with any Python 3.9 or newer, and reaches the cluster through the
user's own `kubectl`. So nothing here imports the rest of the kit, or any package.

__main__      the commands and their options
cli           what the command line needs around them, and the exit codes
status        the table of an operator's objects
why           why an object is not ready, and what keeps the operator from looking at it
advice        what a reason or an Event means, and what to do; advice.yaml says it
diagnosis     doctor: the checks of the operator, from the cluster to each namespace
support       collects what a maintainer needs in one file, and hides what users wrote
checks        checks of an operator, for doctor and why
pods          the check of its replicas
survey        the operators of a cluster, and which of them can be trusted
installation  what the Deployment of an operator says
objects       what an object's conditions say, and how the objects of a kind fare
client        runs kubectl, and says why it fails
findings      the result of a check, and how it is printed
subject       the operator that a plugin is about
text          sentences, tables, and colours
"""
