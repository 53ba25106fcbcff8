"""The kubectl plugin of an operator, which `kopf-kit plugin` packs into one file.

It runs on a user's machine, with any Python 3.9 or newer, and reaches the cluster through the
user's own `kubectl`. So nothing here imports the rest of the kit, or any package.

__main__      the commands, their options, and the exit codes
status        the table of an operator's objects
why           why an object is not ready, and what keeps the operator from looking at it
advice        findings of checks, and what a reason or an Event means; advice.yaml says what to do
diagnosis     doctor: the checks of the operator, from the cluster to each namespace
support       collects what a maintainer needs in one file, and hides what users wrote
checks        checks of an operator, for doctor and why
survey        the operators of a cluster, and which of them can be trusted
client        runs kubectl, and says why it fails
subject       the operator that a plugin is about
text          sentences, tables, and colours
"""
