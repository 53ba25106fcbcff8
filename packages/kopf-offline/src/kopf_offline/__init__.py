"""Builds images, clusters and Go programs where no image registry is reached.

The modules, lowest first:

archive       writes images without an engine
compiler      runs Go's compiler
derived       derives Go modules from releases of others
prometheus    Prometheus and promtool
rootfs        root file systems from Debian packages
golang        builds programs in these modules (go/, porcupine/ and signing/ are our own sources)
images        base images of the operator's image, BusyBox, and the registry
olm_images    images with the programs of the Operator Lifecycle Manager
node_image    the image of the kind node (node/)
entry         what `kopf_kit` asks for; it imports nothing else from here
"""
