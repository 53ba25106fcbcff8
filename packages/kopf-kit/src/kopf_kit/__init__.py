"""Writes, packs, tests and releases operators: the program `kopf-kit`.

Nothing here is part of the operator or its image. Each room may import those below it, but not
those above:

    testing     the pytest plugin and the conformance suite for operators
    cli         the commands
    scaffold    writes, updates and adopts the repository of an operator
    tiers       runs the tests of a repository, side by side
    program     how commands are found, run, and fail
    release     what a release publishes, signed
    olm         bundle, catalog and manifests for OLM, and their rules
    chart       the Helm chart: templates, values, documents, dashboard
    image       the operator's image
    crd         CustomResourceDefinitions of classes
    project     PROJECT, what the code declares, its rights, samples
    rig         makes a cluster of a bare machine
    kubectl     the plugin that runs on a user's machine
    reference   the files that charts, images and pages begin with; no code

pyproject.toml declares these layers, and the tier `lint` checks them.
"""
