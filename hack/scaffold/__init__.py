"""A new operator's repository, written from this one; `make new` calls it.

answers     what the author says of the operator, checked
kit         what a new repository takes along: runtime, tools and common tests
author      what its author edits from then on, of the folder `templates`
repository  all of it together, in a folder of its own
__main__    the same without what is generated, for `make kit-update` in another repository

`templates` has the author's files: NAME and PACKAGE in their paths, and `@@{…}` in their texts, are
filled in, and the last `.in` of their names is left out. What follows from them is not written
here: `make generate` does it in the new repository.
"""
