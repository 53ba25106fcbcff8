#!/usr/bin/env bash
# Installs programs of others, and has them judge the chart: `make judges`. What takes seconds and needs
# no Go module from elsewhere is in `make check` (packages/kopf-kit/tests/chart/test_judged.py).
set -euo pipefail
CT=v3.14.0 KUBE_LINTER=v0.7.6 TRIVY=v0.74.0 CHECKOV=3.3.30
CHART=charts/message-operator
export PATH="$PATH:$(go env GOPATH)/bin" # before it are yamllint and yamale, which ct calls
go install "github.com/helm/chart-testing/v3/ct@$CT"
go install "golang.stackrox.io/kube-linter/cmd/kube-linter@$KUBE_LINTER"
GOEXPERIMENT=jsonv2 go install "github.com/aquasecurity/trivy/cmd/trivy@$TRIVY"

rules="$(go env GOMODCACHE)/github.com/helm/chart-testing/v3@$CT/etc"
ct lint --charts "$CHART" --check-version-increment=false --validate-maintainers=false \
  --lint-conf "$rules/lintconf.yaml" --chart-yaml-schema "$rules/chart_schema.yaml"
mkdir -p build/judged
for values in defaults hardened; do
  helm template m "$CHART" --namespace ops --values "$CHART/ci/$values-values.yaml" >"build/judged/$values.yaml"
  kube-linter lint "build/judged/$values.yaml"
  uv tool run "checkov@$CHECKOV" --config-file .checkov.yaml --file "build/judged/$values.yaml"
  trivy config --skip-check-update --severity CRITICAL,HIGH,MEDIUM --exit-code 1 \
    --ignorefile .trivyignore.yaml "build/judged/$values.yaml"
done
