"""The commands of `kopf-kit`; `kopf_kit.__main__` lists them.

A module is imported when its command runs, so it imports what it needs at the top.
"""
