"""`kubectl message`: a kubectl plugin that shows the state of Messages, its reason, and what to do.

What every operator's plugin has, such as `doctor` and `support-bundle`, is in `kopf_kit.kubectl`;
this is what is special to Messages. `make plugin` packs both into one file, a zipapp, that needs
only Python 3.9 or newer.

__main__   the command line
status     the table of Messages, printed once or live
doctor     how the Messages fare, for `doctor`
why        what a Message waits for, or why it fails
explain    the meaning of a reason or an alert, without a cluster
knowledge  what each reason and alert means, and what to do
messages   reads a Message
help       the text of --help
"""
