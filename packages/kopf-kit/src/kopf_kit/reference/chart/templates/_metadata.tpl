{{/* What the metadata of every object has. */}}
{{- define "widget-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "widget-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "widget-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Labels of every object. commonLabels add to ours and cannot replace them. */}}
{{- define "widget-operator.labels" -}}
{{- include "widget-operator.labelsWith" (dict "root" .) }}
{{- end }}

{{/* The same with more, from (dict "root" $ "labels" <map>). */}}
{{- define "widget-operator.labelsWith" -}}
{{- $root := .root }}
{{- $labels := include "widget-operator.selectorLabels" $root | fromYaml }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- merge $labels (default dict .labels) (default dict $root.Values.commonLabels) | toYaml }}
{{- end }}

{{/* The annotations of an object, if it has any, from
(dict "root" $ "annotations" <map> "own" <map> "indent" 2), each but the root may be left out: ours prevail over those of the object's values, and these over commonAnnotations. */}}
{{- define "widget-operator.annotations" -}}
{{- with merge (dict) (default dict .own) (default dict .annotations) (default dict .root.Values.commonAnnotations) }}
{{- dict "annotations" . | toYaml | nindent (default 2 $.indent) }}
{{- end }}
{{- end }}

{{/* The annotations of an object that crds.keep keeps, from (dict "root" $ "annotations" <map>): Helm does
not delete it with the release, nor on an upgrade that leaves it out. Argo CD would still prune it (argo-cd
#17819), so Prune=false joins the user's own sync options. It replaces another Prune, because Argo CD waits
for the confirmation that Prune=confirm asks for even if there is a Prune=false beside it. When Argo CD
deletes an Application, it spares CustomResourceDefinitions, and what Helm is told to keep, by itself.
A Kustomization of Flux knows neither of them. */}}
{{- define "widget-operator.keptAnnotations" -}}
{{- $own := dict }}
{{- if .root.Values.crds.keep }}
{{- $theirs := merge (dict) (default dict .annotations) (default dict .root.Values.commonAnnotations) }}
{{- $options := list "Prune=false" }}
{{- range get $theirs "argocd.argoproj.io/sync-options" | splitList "," }}
{{- if not (trim . | hasPrefix "Prune=") }}
{{- $options = append $options (trim .) }}
{{- end }}
{{- end }}
{{- $_ := set $own "helm.sh/resource-policy" "keep" }}
{{- $_ := set $own "argocd.argoproj.io/sync-options" ($options | uniq | compact | join ",") }}
{{- $_ := set $own "kustomize.toolkit.fluxcd.io/prune" "disabled" }}
{{- end }}
{{- include "widget-operator.annotations" (dict "root" .root "annotations" .annotations "own" $own) }}
{{- end }}
