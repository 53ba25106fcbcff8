"""`kubectl message`: a plugin of kubectl that says how Messages fare, why, and what to do.

`make plugin` packs it into one file, a zipapp, that needs Python 3.9 or newer and nothing else. It
asks the cluster by the user's own `kubectl`, and so has its kubeconfig, logins and proxies.

__main__         the command line and the exit codes
status           the table of Messages, and its live form
why              what a Message waits for, or fails at
doctor           the checks of the operator, from the cluster to each namespace
explain          what is known of a reason or an alert, without a cluster
checks           what is wrong with an operator, as doctor and why tell it
survey           the operators of a cluster, and what belongs to them
reasons, alerts  what each reason and each alert means and what to do: the knowledge
refusals         what it means when kubectl fails
kubectl          runs kubectl
findings         what one finds out, and how it is printed
messages         reads a Message
text             sentences in English and Korean, tables, and colours
version          the version, which `make generate` writes
"""
