// Release builds what a version of slurmlet consists of, signs it, and pushes it.
//
//	make release-build VERSION=v0.1.0 REGISTRY=registry.example/slurmlet
//	make release-sign VERSION=v0.1.0 KEY=cosign.key REGISTRY=registry.example/slurmlet
//	make release-push VERSION=v0.1.0 REGISTRY=registry.example/slurmlet
//
// Only sign needs the key, and it runs nothing of what was built, so the key may be where no
// build has been. `make release` builds and signs. Sign takes what is as build has left it: SHA256SUMS
// and digests.txt must hold, and the provenance must name the commit that the tag names here.
//
// Build wants a clean checkout of the commit that the tag VERSION names. It leaves
// in bin/release/VERSION:
//
//	slurmlet-VERSION-linux-ARCH    static programs: the agent, slurmlet-web-…, slurmlet-controller-…,
//	                               slurmlet-container-… and slurmlet-import-…
//	spank_slurmlet-VERSION-linux-ARCH.so  Slurm's plugin of jobs in containers
//	kubectl-slurm-VERSION-SYSTEM-ARCH  the plugin of kubectl, for linux and darwin
//	kubectl-slurm-….tar.gz         the same with the license, and slurm.yaml, from which krew installs it
//	slurm-N.tgz, slurmlet-N.tgz    the charts, whose images are VERSION's in REGISTRY
//	oci/REPOSITORY/                an OCI image layout for each repository: images for all
//	                               architectures, the charts (charts/slurm, charts/slurmlet),
//	                               their signatures, SBOMs and provenance
//	sbom/                          SPDX 2.3 of each program and image
//	provenance.json                SLSA 1.0: from what, and how, all of it was made
//	digests.txt                    what to pull, by digest
//	SHA256SUMS                     of all files above that are in no layout: build's last
//	SHA256SUMS.sigstore.json       its signature
//
// The same tag gives the same programs, charts, images without Slurm and SBOMs, byte by byte: no
// file is younger than the tag's commit. Signatures differ each time, and the images with
// Slurm hold the packages that Debian has on that day; docker-bake.hcl says how to pin them.
//
// Images for another architecture are built with qemu-user, which is slow: AMD64 and
// ARM64 choose the images for each (ARM64="agent controller web").
//
// KEY is what cosign takes: a file outside the checkout, env://NAME or a KMS's URI;
// COSIGN_PASSWORD opens a file's. Nothing is written to a public log, so whoever verifies says so:
//
//	cosign verify --key cosign.pub --insecure-ignore-tlog registry.example/slurmlet/agent:v0.1.0
//	cosign verify-attestation --key cosign.pub --insecure-ignore-tlog --type slsaprovenance1 IMAGE
//	cosign verify-blob --key cosign.pub --insecure-ignore-tlog --bundle SHA256SUMS.sigstore.json SHA256SUMS
//
// DOWNLOAD is where the files will be, for krew's manifest: by default the releases of the project on GitHub.
//
// Push needs no key: it copies the layouts of what is signed. REGISTRY_USER and REGISTRY_PASSWORD log in;
// without them Docker's configuration does.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// settings are what the command line says.
type settings struct {
	version  string
	registry string // with the path before each repository: registry.example/slurmlet
	out      string
	key      string
	builder  string
	download string // the URL of the directory that will have the release's files

	targets map[string]*string // docker-bake.hcl's, by architecture

	helm, cosign, distribution string // programs
	buildx, buildkitd, cache   string
	plainHTTP                  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...) }

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want build, sign or push")
	}
	s := settings{targets: map[string]*string{}}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.StringVar(&s.version, "version", "", "the tag, as in v0.1.0")
	flags.StringVar(&s.registry, "registry", "", "where the images and the charts belong, as in registry.example/slurmlet")
	flags.StringVar(&s.out, "out", "", "the release's directory (default bin/release/VERSION)")
	flags.StringVar(&s.key, "key", "", "what signs: a file, env://NAME or a KMS's URI")
	flags.StringVar(&s.builder, "builder", "urn:slurmlet:make-release", "the `URI` of who builds, for the provenance")
	flags.StringVar(&s.download, "download", "", "the `URL` of the directory that will have the files, for krew (default the version's on GitHub)")
	flags.StringVar(&s.helm, "helm", "helm", "the program")
	flags.StringVar(&s.cosign, "cosign", "cosign", "the program")
	flags.StringVar(&s.distribution, "distribution", "registry", "CNCF's registry, the program: cosign signs in it")
	flags.StringVar(&s.buildx, "buildx", "buildx", "the program")
	flags.StringVar(&s.buildkitd, "buildkitd", "buildkitd", "the program")
	flags.StringVar(&s.cache, "cache", filepath.Join(os.TempDir(), "slurmlet-buildkit"), "what builds of images leave for the next ones")
	flags.BoolVar(&s.plainHTTP, "plain-http", false, "push without TLS")
	for _, arch := range architectures {
		s.targets[arch] = flags.String(arch, "default", "the images for "+arch+", as docker-bake.hcl calls them, separated by spaces")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := checkVersion(s.version); err != nil {
		return err
	}
	if s.registry == "" {
		return fmt.Errorf("want the registry where the images belong: REGISTRY=registry.example/slurmlet")
	}
	if s.download == "" {
		s.download = homepage + "/releases/download/" + s.version
	}
	if s.out == "" {
		s.out = filepath.Join("bin", "release", s.version)
	}
	switch args[0] {
	case "build":
		return s.build(ctx)
	case "sign":
		return s.sign(ctx)
	case "push":
		return s.push(ctx)
	}
	return fmt.Errorf("want build, sign or push, not %q", args[0])
}
