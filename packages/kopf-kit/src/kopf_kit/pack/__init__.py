"""Creates everything that a project ships from its sources.

project             the file PROJECT: the operator's name, package, kinds and images
generated           writes or checks all generated files
nested              where those of a project in another's repository are
references          image names, and their digests
bytecode            compiles what the image holds, in its Dockerfile
dockerfile          what the operator's image is built from
image, artifacts    the operator's image; images and charts in a registry
chart_package       packages the charts with a registry's images, and pushes them
olm_images          the bundle's and catalog's images, pushed to a registry
shared              the files that all operators share, with a project's own names
chart_templates     writes those of a chart, the runbooks and OLM's settings
pod_images          what a chart has of the images of the operator's Pods
samples             the objects that users are shown, in the chart and in the bundle
chart_docs          a chart's README and values.schema.json, from its values.yaml
chart_metadata      what Chart.yaml says, for the other chart and the bundle
chart_kinds         the kinds of values that values.yaml may name
chart_dashboard     the Grafana dashboard, from chart_panels
chart_panels        the dashboard's rows of panels, and their queries
history             the releases in git
crd_history         what the kinds have changed since the last release
manifests           build/deploy/: the chart rendered for users without Helm or of OLM v1
changelog           the changes of each release for users, from the commits
numbered            documents that people write, in which the version is updated
declared            CRDs and RBAC rules, from the kinds that the code declares
adopted             what is said of an operator on plain kopf, and its CRDs as they are
registered          what its code registers with kopf, as handlers reads it
handlers            prints kopf's registry; the operator's own Python runs it
granted             the rights that a manifest of the author's gives
contents            what of an adopted operator's repository is in its image
container           what an author's Dockerfile says
plain               what PROJECT says of an operator on plain kopf
watched             the rights that kopf needs for it, from what it watches
admission           the webhooks: functions of the runtime's, or kopf's handlers
structural, crds    the schema of a class, and the CRD of a kind
acceptable          whether an API server takes a CRD
written, imported   the shapes of the files that people write; the code that they write
rights              the rights that a controller needs
recorded            the rights that an operator used, from an audit log
documents           how YAML is written
rendered            the chart as Helm renders it
publishable         whether all may read what it renders
further_objects     what an author's templates add, for the bundle
release             a version, its images and its channels
service_version     the ClusterServiceVersion
bundle, catalog     what OLM installs, from the chart
plugin              kubectl's plugin for the operator
extension           what a repository's own module adds to these files
rules               the rules for bundle and catalog
release_folder      the files for the hubs of operators
publication         the other files of a release, and their signatures
"""
