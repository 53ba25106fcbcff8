"""What a project ships, made from its sources.

project             what the file PROJECT says: the operator's name, package, kinds and images
generated           all files that are made of others: written, or checked
references          images by their names, and the digests behind them
dockerfile          that of another operator, from the checkout's own
image, artifacts    the operator's image; image and chart in a registry
chart_package       the charts with the images of a registry, pushed to it
olm_images          the images of bundle and catalog, pushed to a registry
chart_templates     what is the same in every operator's chart
chart_docs          a chart's README and values.schema.json, from its values.yaml
crds_chart          the chart of the CRD alone, from the operator's chart
chart_kinds         the kinds of values that values.yaml may name
chart_dashboard     the Grafana dashboard, from chart_panels
chart_panels        the dashboard's rows of panels, and the queries of each
chart_diff          what an upgrade from the last release changes
history             what git tells of the releases
manifests           deploy/: the chart rendered for users without Helm
changelog           what each release changes for users, from the commits
numbered            documents of people, in which the version follows
declared            the CRD and the operator's rights, from the kinds that its code declares
structural, crds    how a class becomes a schema, and a kind a CRD
rights              what a controller must be allowed
documents           how YAML is written
olmv1               what installs the bundle by OLM v1, and with which rights
rendered            what Helm makes of the chart
release             a version, its images and its channels
service_version     the ClusterServiceVersion
bundle, catalog     what OLM installs, made from the chart
plugin              the plugin of kubectl, as one file and for krew
site                the documentation site's pages, laid out for its generator
site_reference      those of them that are made of what the code declares
site_text           Markdown as GitHub shows it, rewritten for the site
rules               what must hold for bundle and catalog
release_folder      what community-operators gets
publication         what a release publishes beside that, and how it is signed
"""
