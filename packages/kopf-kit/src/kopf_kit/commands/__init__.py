"""The commands of `kopf-kit`, one module each; `kopf_kit.__main__` lists them.

new, update     write a new operator's repository, and have it follow a newer kit
adopt           writes PROJECT of an operator on plain kopf
test            runs tiers of tests; slowest: names the slowest tests
cluster         creates a cluster, installs OLM in it, removes them; tool: prints a program's path
plugin          packs the operator's plugin for kubectl, and installs it
push            pushes bundle, catalog or charts with the images that they name; image: that alone
rights          records the rights that an operator uses, or checks its Role
generate        writes the generated files; verify: finds mistakes
bump            raises the version; changelog: writes its changes again
release         makes a whole release, or the keys that sign it
release_bundle  writes the files for community-operators
crd, deploy     install the CRD, or the whole operator, and remove it
run, dev        run the operator on this machine; dev: again after each change
doctor          says what is missing or wrong
e2e             runs the end-to-end tests
dev_operator    not a command: the operator's process, for dev
operators       not a command: the operators in a cluster
pytest_runs     not a command: runs pytest several times, with one exit code
"""
