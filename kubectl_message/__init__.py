"""`kubectl message`: a kubectl plugin that shows the state of Messages, its reason, and what to do.

`make plugin` packs it into one file, a zipapp, that needs only Python 3.9 or newer. It reaches the
cluster through the user's own `kubectl`, so it uses the same kubeconfig, logins and proxies.

__main__   the command line and the exit codes
status     the table of Messages, printed once or live
why        what a Message waits for, or why it fails
doctor     the checks of the operator, from the cluster to each namespace
explain    the meaning of a reason or an alert, without a cluster
support    collects what a maintainer needs in one file
redaction  hides texts and variables in it
checks     checks of an operator, for doctor and why
running    the check of its replicas
advice     what may be advised about an operator
survey     the operators of a cluster, with their Pods and Leases
trust      which Deployments are operators, and which only look like one
rights     the operator's rights, and which of them it lacks
operators  what the Deployment of an operator says
knowledge  what each reason, alert and kubectl error means, and what to do
kubectl    runs kubectl
findings   the result of a check, and how it is printed
messages   reads a Message
names      which texts are names of Kubernetes
help       the text of --help
text       sentences in English and Korean, tables, and colours
version    the version, which `make generate` writes
"""
