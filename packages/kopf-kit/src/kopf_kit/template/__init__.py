"""A new operator's repository, as `kopf-kit new` writes it.

answers     what the author says of the operator, checked
repository  writes it: complete, or not at all
templates   its files: NAME and PACKAGE in their paths, and `@@{…}` in their texts, are filled
            in, and the last `.in` of their names is left out
kind        what a further kind adds
"""
