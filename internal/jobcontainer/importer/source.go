package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	registryerrors "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
)

// open finds the image that a reference names, for a platform.
func (i *Import) open(ctx context.Context) (v1.Image, error) {
	switch {
	case i.ref.Image != nil:
		return i.openRegistry(ctx)
	case i.ref.Archive:
		return openArchive(i.ref)
	}
	return i.openLayout()
}

func (i *Import) openRegistry(ctx context.Context) (v1.Image, error) {
	r, err := i.registry(ctx, pauses)
	if err != nil {
		return nil, err
	}
	i.say("asks %s for %s, %s", i.ref.Image.Registry, i.ref, r.who)
	return r.image(i.ref)
}

// registry is the one of the import's image, which is asked as one user.
type registry struct {
	*Import
	// who says whose credentials it is shown.
	who     string
	options []remote.Option
}

// registry is asked again after what passes, with these pauses.
func (i *Import) registry(ctx context.Context, waits []time.Duration) (registry, error) {
	where, err := named(i.ref.Image)
	if err != nil {
		return registry{}, err
	}
	found, err := i.Files.Find(ctx, where.Context(), i.ref.User)
	if err != nil {
		return registry{}, err
	}
	who := "as a stranger, because there are no credentials for it in " + i.Files.String()
	if found.From != "" {
		who = "with the credentials of " + found.From
		if found.User != "" {
			who = fmt.Sprintf("as %s, with the credentials of %s", found.User, found.From)
		}
	}
	base := remote.DefaultTransport.(*http.Transport).Clone()
	base.ForceAttemptHTTP2 = false
	return registry{i, who, []remote.Option{
		remote.WithContext(ctx), remote.WithAuth(found.Authenticator), remote.WithPlatform(i.platform()),
		remote.WithUserAgent("slurmlet-container"), remote.WithJobs(1),
		remote.WithTransport(&transport{base: base, plain: i.Plain, waits: waits, still: mostStill, say: i.say}),
		// the transport has the patience
		remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes(),
	}}, nil
}

// image finds the one for the platform.
func (r registry) image(ref imageref.Reference) (v1.Image, error) {
	descriptor, err := r.get(ref)
	if err != nil {
		return nil, err
	}
	if !descriptor.MediaType.IsIndex() {
		return descriptor.Image()
	}
	index, err := descriptor.ImageIndex()
	if err != nil {
		return nil, r.explain(err, r.who)
	}
	return r.choose(index)
}

func (r registry) get(ref imageref.Reference) (*remote.Descriptor, error) {
	image, err := r.named(ref)
	if err != nil {
		return nil, err
	}
	descriptor, err := remote.Get(image, r.options...)
	if err != nil {
		return nil, r.explain(err, r.who)
	}
	return descriptor, nil
}

// named is an image as the registries' client knows it. Plain HTTP changes nothing else.
func (r registry) named(ref imageref.Reference) (name.Reference, error) {
	if r.Plain {
		return named(ref.Image, name.Insecure)
	}
	return named(ref.Image)
}

func named(image *imageref.Image, options ...name.Option) (name.Reference, error) {
	path := image.Repository
	if imageref.LooksLikeRegistry(image.Registry) { // otherwise a group as "a.b" would be taken for the registry
		path = image.Registry + "/" + path
	}
	where, err := name.NewRepository(path, append(options, name.WithDefaultRegistry(image.Registry))...)
	if err != nil {
		return nil, fmt.Errorf("%s is no image's name: %w", image.Name(), err)
	}
	if image.Digest != "" {
		return where.Digest(image.Digest), nil
	}
	return where.Tag(image.Tag), nil
}

// explain says whom a registry has refused.
func (i *Import) explain(err error, who string) error {
	if answer, is := errors.AsType[*registryerrors.Error](err); is {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("%s refuses %s to this user, who came %s: %w", i.ref.Image.Registry, i.ref, who, err)
		case http.StatusNotFound:
			return fmt.Errorf("there is no image %s: %w", i.ref, err)
		}
	}
	return fmt.Errorf("cannot get %s: %w", i.ref, err)
}

func (i *Import) platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: i.Arch} }

// choose takes the image for the platform out of an index.
func (i *Import) choose(index v1.ImageIndex) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("cannot read the index of %s: %w", i.ref, err)
	}
	var has []string
	for _, m := range manifest.Manifests {
		p := m.Platform
		switch {
		case m.MediaType.IsIndex() && p == nil:
			below, err := index.ImageIndex(m.Digest)
			if err != nil {
				return nil, fmt.Errorf("cannot read an index of %s: %w", i.ref, err)
			}
			return i.choose(below)
		case !m.MediaType.IsImage():
		case p == nil && len(manifest.Manifests) == 1, p != nil && p.OS == "linux" && p.Architecture == i.Arch:
			return index.Image(m.Digest)
		case p == nil:
			has = append(has, "an image without a platform")
		case p.OS != "unknown": // an attestation
			has = append(has, p.OS+"/"+p.Architecture)
		}
	}
	return nil, fmt.Errorf("%s has no image for linux/%s, but for %s%s", i.ref, i.Arch, strings.Join(has, ", "), i.hint(hintArch))
}

func openArchive(ref imageref.Reference) (v1.Image, error) {
	if _, err := os.Stat(ref.Path); err != nil {
		return nil, fmt.Errorf("cannot read the image: %w", err)
	}
	var tag *name.Tag
	if ref.Tag != "" {
		t, err := name.NewTag(ref.Tag)
		if err != nil {
			return nil, fmt.Errorf("%s is no image's name: %w", ref.Tag, err)
		}
		tag = &t
	}
	image, err := tarball.ImageFromPath(ref.Path, tag)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s, which is to be a file as `docker save` writes one: %w%s", ref.Path, err, tagsOf(ref.Path))
	}
	return image, nil
}

// tagsOf names the images of an archive, where there are several.
func tagsOf(path string) string {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil || len(manifest) < 2 {
		return ""
	}
	var all []string
	for _, d := range manifest {
		all = append(all, d.RepoTags...)
	}
	return fmt.Sprintf(" (docker-archive:%s:TAG names one of %s)", path, strings.Join(all, ", "))
}

// verify compares what names a thing with its digest. A registry's client has done so already; files are anybody's.
// An archive as docker saves one has no manifest of its own: its layers' digests are in its configuration.
func (i *Import) verify(image v1.Image) (*v1.ConfigFile, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration of %s: %w", i.ref, err)
	}
	if i.ref.Archive {
		return config, nil
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest of %s: %w", i.ref, err)
	}
	raw, err := image.RawManifest()
	want, failed := image.Digest()
	if err = errors.Join(err, failed); err == nil {
		err = same("manifest", raw, want)
	}
	if err != nil {
		return nil, err
	}
	raw, err = image.RawConfigFile()
	if err == nil {
		err = same("configuration", raw, manifest.Config.Digest)
	}
	return config, err
}

func same(what string, data []byte, want v1.Hash) error {
	got, _, err := v1.SHA256(bytes.NewReader(data))
	if err == nil && got != want {
		err = fmt.Errorf("the image's %s is %s, and is to be %s", what, got, want)
	}
	return err
}
