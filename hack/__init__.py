"""How the project builds and checks itself: `python -m hack …`, called by the Makefile.

Nothing here is part of the operator or of its image. The modules, lowest first:

    environment       what a user has set for other programs, taken out
    paths, versions   where things are, and which versions are pinned
    run               commands, readable failures
    durations, steps  work that has a name, and tells how far it is
    cache             parts that are built once and kept outside the checkout
    compiler, golang, debian   the two sources that need no image registry
    tools             kind, kubectl, helm
    pythons           Pythons with other packages than the development environment's
    control_plane     a control plane of plain processes, where no node is needed
    preflight         what a machine must have, and how to get it
    engine            the Docker engine
    public_images     images that are pulled, where a registry is in reach
    base_images       what the operator's and the message Pods' images stand on
    node_image        the kind node, where there is no registry to pull it from
    registry          the registry beside the cluster, on localhost:5001
    image             the operator's image
    existing          the cluster of the current kubeconfig
    cluster           all of it together: a cluster for every target of the Makefile
    artifacts         image and chart, in the registry
    crd, deploy       the CRD alone; the operator with it, by Helm
    olm               the Operator Lifecycle Manager, in the cluster
    bundle, catalog   what OLM installs, made of the chart
    rules             what must hold for both
    release_bundle    what is handed in to community-operators
"""
