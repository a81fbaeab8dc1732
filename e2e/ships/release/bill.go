package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"oras.land/oras-go/v2/content"
)

// bills writes the SBOM of each program and each image. An image holds Debian's
// packages, which dpkg lists, and programs, which name their modules: nothing else
// but Slurm's plugin.
func (r *release) bills(ctx context.Context) error {
	say("writes SBOMs")
	if err := os.MkdirAll(filepath.Join(r.out, "sbom"), 0o755); err != nil {
		return fmt.Errorf("cannot make the directory for SBOMs: %w", err)
	}
	modules := map[string][]component{} // by the program's file
	for program := range sources {
		for _, arch := range architectures {
			name := filepath.Base(r.program(program, arch))
			var err error
			if modules[name], err = r.modules(r.program(program, arch)); err != nil {
				return err
			}
			if err := r.bill(name, component{name: name, version: r.version, purpose: "APPLICATION"}, modules[name]); err != nil {
				return err
			}
		}
	}
	for _, arch := range architectures {
		if err := r.bill(filepath.Base(r.spank(arch)), r.spankComponent(), nil); err != nil {
			return err
		}
	}
	for _, file := range r.plugins() {
		parts, err := r.modules(file)
		if err != nil {
			return err
		}
		name := filepath.Base(file)
		if err := r.bill(name, component{name: name, version: r.version, purpose: "APPLICATION"}, parts); err != nil {
			return err
		}
	}
	for _, a := range r.artifacts {
		from, err := r.store(ctx, a.repository)
		if err != nil {
			return err
		}
		for _, img := range a.images {
			packages, err := debian(ctx, from, img)
			if err != nil {
				return fmt.Errorf("cannot list the packages of %s for %s: %w", a, img.arch, err)
			}
			whole := component{
				name: a.repository, version: a.tag, purpose: "CONTAINER",
				purl: "pkg:oci/" + a.repository + "@" + url.QueryEscape(img.manifest.Digest.String()) + "?arch=" + img.arch + "&repository_url=" + url.QueryEscape(r.registry+"/"+a.repository),
			}
			for _, program := range programsOf(a) {
				packages = append(packages, modules[filepath.Base(r.program(program, img.arch))]...)
				if program == containers {
					packages = append(packages, r.spankComponent())
				}
			}
			if err := r.bill(billOf(a, img), whole, packages); err != nil {
				return err
			}
		}
	}
	return nil
}

// programsOf are the programs that an image has.
func programsOf(a *artifact) []string {
	switch a.repository {
	case "controller":
		return []string{controller}
	case "web":
		return []string{web}
	case "slurmd", "login":
		return []string{agent, containers, importer}
	}
	return []string{agent}
}

// billOf names an image's SBOM.
func billOf(a *artifact, img *image) string {
	return a.repository + "-" + a.tag + "-linux-" + img.arch
}

func (r *release) billPath(name string) string {
	return filepath.Join(r.out, "sbom", name+".spdx.json")
}

// component is a package as SPDX has them.
type component struct{ name, version, purl, purpose, source string }

// ourModule is the root of the repository.
const ourModule = "github.com/slurmlet/slurmlet"

// modules are the Go modules of a program, and Go's own library.
func (r *release) modules(program string) ([]component, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("cannot read the modules of %s: %w", program, err)
	}
	golang := func(path, version string) component {
		return component{name: path, version: version, purl: "pkg:golang/" + path + "@" + version, purpose: "LIBRARY"}
	}
	all := []component{
		{name: info.Main.Path, version: r.version, purl: "pkg:golang/" + info.Main.Path + "@" + r.version, purpose: "APPLICATION"},
		golang("stdlib", strings.TrimPrefix(info.GoVersion, "go")),
	}
	for _, m := range info.Deps {
		switch {
		case m.Path == ourModule: // go.work, or a replace, leads to this source
			m.Version = r.version
		case m.Replace != nil:
			m = m.Replace
		}
		all = append(all, golang(m.Path, m.Version))
	}
	return all, nil
}

// debian are an image's packages. An image that has no dpkg has none.
func debian(ctx context.Context, from content.Fetcher, img *image) ([]component, error) {
	status, err := file(ctx, from, img, "var/lib/dpkg/status")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	release, err := file(ctx, from, img, "usr/lib/os-release")
	if err != nil {
		return nil, err
	}
	all := installed(status, codename(release))
	if len(all) == 0 {
		return nil, errors.New("dpkg lists none")
	}
	return all, nil
}

// codename is Debian's, of os-release(5).
func codename(release []byte) string {
	for line := range strings.Lines(string(release)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return "unknown"
}

// installed reads dpkg's status file (deb822), which has a paragraph for each package.
func installed(status []byte, codename string) []component {
	var all []component
	for paragraph := range strings.SplitSeq(string(status), "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(paragraph) {
			if key, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
				fields[key] = strings.TrimSpace(value)
			}
		}
		if !strings.HasSuffix(fields["Status"], " installed") {
			continue
		}
		source, _, _ := strings.Cut(fields["Source"], " ")
		if source == "" {
			source = fields["Package"]
		}
		all = append(all, component{
			name: fields["Package"], version: fields["Version"], purpose: "LIBRARY",
			source: "built from the source package " + source,
			purl: "pkg:deb/debian/" + fields["Package"] + "@" + url.QueryEscape(fields["Version"]) +
				"?arch=" + fields["Architecture"] + "&distro=" + codename,
		})
	}
	return all
}

// file returns a file of an image, as a container sees it: the uppermost layer's.
func file(ctx context.Context, from content.Fetcher, img *image, name string) ([]byte, error) {
	for _, layer := range slices.Backward(img.layers) {
		data, err := inLayer(ctx, from, layer, name)
		if !errors.Is(err, os.ErrNotExist) {
			return data, err
		}
	}
	return nil, os.ErrNotExist
}

func inLayer(ctx context.Context, from content.Fetcher, layer v1.Descriptor, name string) ([]byte, error) {
	packed, err := from.Fetch(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	plain, err := gzip.NewReader(bufio.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(plain); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, os.ErrNotExist
		}
		if err != nil {
			return nil, err
		}
		if strings.TrimPrefix(h.Name, "./") == name {
			return io.ReadAll(files)
		}
	}
}

// unnameable are the characters that an SPDX identifier may not have.
var unnameable = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// bill writes an SPDX document of what whole consists of.
func (r *release) bill(name string, whole component, parts []component) error {
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "slurmlet-release-" + r.version}},
			Created:  r.when.Format(time.RFC3339),
		},
	}
	relate := func(from, to common.ElementID, how string) {
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{
			RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to)), Relationship: how,
		})
	}
	top := whole.spdx(0)
	doc.Packages = append(doc.Packages, top)
	relate("DOCUMENT", top.PackageSPDXIdentifier, common.TypeRelationshipDescribe)
	for i, part := range parts {
		p := part.spdx(i + 1)
		doc.Packages = append(doc.Packages, p)
		relate(top.PackageSPDXIdentifier, p.PackageSPDXIdentifier, common.TypeRelationshipContains)
	}
	var text bytes.Buffer
	if err := spdxjson.Write(doc, &text); err != nil {
		return fmt.Errorf("cannot encode the SBOM %s: %w", name, err)
	}
	// Unique to these contents, and the same for the same.
	sum := sha256.Sum256(text.Bytes())
	doc.DocumentNamespace = "urn:slurmlet:spdx:" + name + ":" + hex.EncodeToString(sum[:])
	text.Reset()
	if err := spdxjson.Write(doc, &text, spdxjson.Indent(" "), spdxjson.EscapeHTML(false)); err != nil {
		return fmt.Errorf("cannot encode the SBOM %s: %w", name, err)
	}
	if err := os.WriteFile(r.billPath(name), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("cannot write an SBOM: %w", err)
	}
	return nil
}

// spdx is a component as the document's package number n. Licences are not
// asserted: the images have no /usr/share/doc to read them from.
func (c component) spdx(n int) *v2_3.Package {
	p := &v2_3.Package{
		PackageName: c.name, PackageVersion: c.version, PackageSourceInfo: c.source, PrimaryPackagePurpose: c.purpose,
		PackageSPDXIdentifier:   common.ElementID(fmt.Sprintf("Package-%d-%s", n, unnameable.ReplaceAllString(c.name, "-"))),
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
		PackageCopyrightText: "NOASSERTION", IsFilesAnalyzedTagPresent: true,
	}
	if c.purl != "" {
		p.PackageExternalReferences = []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: c.purl,
		}}
	}
	return p
}
