"""Writes, packs, tests and releases operators: the program `kopf-kit`.

Nothing here is part of the operator or its image. `program` says how its commands are found. There
are six packages. Each may import those below it, but not those above:

    commands    the commands, one module each
    tiers       runs the tests in tiers, side by side
    template    writes the repository of a new operator
    pack        creates a project's image, chart documents, bundle, catalog and release folder
    rig         sets up a cluster on a bare machine
    plugin      runs on a user's machine: kubectl's plugin for an operator

The tier `lint` checks these layers and those within each package; pyproject.toml declares them.
"""
