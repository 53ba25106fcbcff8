"""A new operator's repository, as `kopf-kit new` writes it.

answers     what the author says of the operator, checked
templates   the author's files: NAME and PACKAGE in their paths, and `@@{…}` in their texts, are
            filled in, and the last `.in` of their names is left out
"""
