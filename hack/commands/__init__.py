"""The commands of the Makefile, one module each; `python -m hack` calls most of them.

generate        write the files that are made of others, or find those out of date
chart_diff      show what an upgrade from the last release changes
release_bundle  lay out what community-operators gets
crd, deploy     put the CRD, or the whole operator, into a cluster and remove it
demo            run the main job from nothing to the end
e2e             run the end-to-end tests
"""
