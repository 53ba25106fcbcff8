"""Where the project is, as its chart says."""

from kopf_kit.project import documents
from kopf_kit.rig.paths import CHECKOUT

PAGE: str = documents.load((CHECKOUT / "charts/message-operator/Chart.yaml").read_text())["home"]
#: Where its images and charts are.
REGISTRY = f"ghcr.io/{PAGE.split('/')[3]}"
