package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersions(t *testing.T) {
	for version, good := range map[string]bool{
		"v0.1.0": true, "v1.22.333": true, "v1.0.0-rc.1": true,
		"": false, "0.1.0": false, "v1": false, "v1.0": false, "v01.0.0": false, "v1.0.0+build": false, "v1.0.0 ": false, "v1.0.0-7-gdeadbee-": true,
	} {
		assert.Equal(t, good, checkVersion(version) == nil, version)
	}
}

func TestInstalled(t *testing.T) {
	const status = `Package: libc6
Status: install ok installed
Architecture: arm64
Source: glibc (2.41)
Version: 2.41-12
Description: GNU C Library
 with lines: and colons

Package: gone
Status: deinstall ok config-files
Version: 1

Package: tar
Status: install ok installed
Architecture: arm64
Version: 1:1.35+dfsg-3
`
	assert.Equal(t, []component{
		{name: "libc6", version: "2.41-12", purpose: "LIBRARY", source: "built from the source package glibc", purl: "pkg:deb/debian/libc6@2.41-12?arch=arm64&distro=trixie"},
		{name: "tar", version: "1:1.35+dfsg-3", purpose: "LIBRARY", source: "built from the source package tar", purl: "pkg:deb/debian/tar@1%3A1.35%2Bdfsg-3?arch=arm64&distro=trixie"},
	}, installed([]byte(status), "trixie"))
}

func TestChartPointsAtTheRegistry(t *testing.T) {
	const values = "image:\n  # Where\n  registry: \"\"\n  tag: \"\"\nother:\n  registry: x\n"
	assert.Equal(t, "image:\n  # Where\n  registry: r.example/s\n  tag: \"\"\nother:\n  registry: x\n",
		imageRegistry.ReplaceAllString(values, "${1}r.example/s"))
}
