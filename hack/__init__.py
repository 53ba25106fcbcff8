"""How the project builds and checks itself: `python -m hack …`, called by the Makefile.

Nothing here is part of the operator or of its image. Four packages, each of which uses those
below it and never those above:

    commands    what a person asks for: one module a command
    scaffold    writes a repository for a new operator
    pack        makes a project's image, chart documents, bundle, catalog and release folder
    rig         turns a bare machine into a cluster; knows nothing of pack or commands

The layers within each package are contracts in pyproject.toml, which `make lint` checks.
"""
