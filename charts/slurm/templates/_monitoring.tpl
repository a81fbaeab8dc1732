{{- /* For a Prometheus that looks for annotations. The pods' labels become the series' there, as with the PodMonitor. */}}
{{- define "slurm.scrapeAnnotations" -}}
{{- if .root.Values.scrapeAnnotations }}
prometheus.io/scrape: "true"
prometheus.io/port: "8817"
prometheus.io/path: /metrics
{{- end }}
{{- end }}
