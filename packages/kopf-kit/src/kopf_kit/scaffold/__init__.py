"""A new operator's repository, as `kopf-kit new` writes it.

repository  writes it: complete, or not at all
additions   a further kind, OLM, or a workflow, in an existing repository; takes out such a kind
adoption    what `kopf-kit adopt` writes of an operator on plain kopf
discovery   reads such an operator: its handlers, files and start
templates   its files: NAME and PACKAGE in their paths, and `@@{…}` in their texts, are filled
            in, and the last `.in` of their names is left out
kind        what a further kind adds
"""
