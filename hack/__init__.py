"""Builds and checks the project: the Makefile calls `python -m hack …`.

Nothing here is part of the operator or its image. There are four packages. Each may import those
below it, but not those above:

    commands    the commands of the Makefile, one module each
    scaffold    writes the repository of a new operator
    pack        creates a project's image, chart documents, bundle, catalog and release folder
    rig         sets up a cluster on a bare machine

The tier `lint` checks these layers and those within each package; pyproject.toml declares them.
"""
