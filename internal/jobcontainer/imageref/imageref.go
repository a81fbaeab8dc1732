// Package imageref reads the name of an image as a user types it: enroot's grammar, docker's, and those of files. It is
// pure, and asks no registry.
package imageref

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Reference names one image.
type Reference struct {
	// Image is in a registry; nil: the image is in a file or a directory.
	Image name.Reference
	// User is whose credentials the registry is shown; empty: those that are found first.
	User string
	// Path is that of a file as `docker save` writes one (Archive), of an OCI layout as a tar (Packed), or of an OCI
	// layout's directory.
	Path            string
	Archive, Packed bool
	// Tag is the image's name in Path; empty: there is one image alone.
	Tag string
}

// daemons are enroot's schemes for the images of a daemon on the same machine.
var daemons = []string{"dockerd://", "podman://", "docker-daemon:"}

// Parse reads REF: docker://[USER@][REGISTRY#]IMAGE[:TAG], a docker reference, docker-archive:FILE[:TAG],
// oci-archive:FILE[:TAG], or oci:DIRECTORY[:TAG].
func Parse(text string) (Reference, error) {
	if strings.ContainsAny(text, "\x00\n") {
		return Reference{}, errors.New("the name of an image has no NUL and no line break")
	}
	for _, scheme := range daemons {
		if image, is := strings.CutPrefix(text, scheme); is {
			return Reference{}, fmt.Errorf("%s: slurmlet asks no daemon: `docker save -o image.tar %s` or `podman save` writes "+
				"a file, and docker-archive:image.tar names it", text, image)
		}
	}
	for _, scheme := range []string{"docker-archive:", "oci-archive:", "oci:"} {
		if rest, is := strings.CutPrefix(text, scheme); is {
			file, tag, _ := strings.Cut(rest, ":")
			if file == "" {
				return Reference{}, fmt.Errorf("%s: want a path after %s", text, scheme)
			}
			return Reference{Path: file, Archive: scheme == "docker-archive:", Packed: scheme == "oci-archive:", Tag: tag}, nil
		}
	}
	rest := strings.TrimPrefix(text, "docker://")
	if strings.Contains(rest, "://") {
		return Reference{}, fmt.Errorf("%s: want docker://IMAGE, docker-archive:FILE, oci-archive:FILE or oci:DIRECTORY", text)
	}
	return parseImage(rest)
}

// digested is what follows an image's name where a digest says which one.
var digested = regexp.MustCompile(`@sha(256|512):[^@]*$`)

// repository is the grammar that registries have for the path of an image. go-containerregistry takes more, as in "./".
var repository = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

func parseImage(text string) (Reference, error) {
	registry, image, named := strings.Cut(text, "#")
	var r Reference
	if !named {
		registry, image = "", text
		plain := digested.ReplaceAllString(text, "")
		if at := strings.LastIndex(plain, "@"); at >= 0 {
			r.User, image = text[:at], text[at+1:]
		}
	} else if at := strings.LastIndex(registry, "@"); at >= 0 {
		r.User, registry = registry[:at], registry[at+1:]
	}
	if named && registry == "" || image == "" {
		return Reference{}, fmt.Errorf("%s: want [USER@][REGISTRY#]IMAGE[:TAG]", text)
	}
	want := name.DefaultRegistry
	if registry != "" {
		host, err := name.NewRegistry(registry)
		if err != nil {
			return Reference{}, fmt.Errorf("%s: %q is no registry: %w", text, registry, err)
		}
		want = host.RegistryStr()
	}
	if want == "registry-1.docker.io" {
		want = name.DefaultRegistry
	}
	ref, err := parseIn(want, image)
	switch {
	case err != nil:
		return Reference{}, fmt.Errorf("%s is no image's name: %w", text, err)
	case !repository.MatchString(ref.Context().RepositoryStr()):
		return Reference{}, fmt.Errorf("%s is no image's name: %q is no path of a registry's", text, ref.Context().RepositoryStr())
	case named && ref.Context().RegistryStr() != want:
		return Reference{}, fmt.Errorf("%s names two registries, %s and %s", text, registry, ref.Context().RegistryStr())
	}
	r.Image = ref
	return r, nil
}

// Plain is the image in the same registry, which may be asked by plain HTTP.
func (r Reference) Plain() (name.Reference, error) {
	where := r.Image.Context()
	path := where.RepositoryStr()
	if looksLikeOne(where.RegistryStr()) { // otherwise a group as "a.b" would be taken for the registry
		path = where.RegistryStr() + "/" + path
	}
	plain, err := name.NewRepository(path, name.WithDefaultRegistry(where.RegistryStr()), name.Insecure)
	if _, is := r.Image.(name.Digest); is {
		return plain.Digest(r.Image.Identifier()), err
	}
	return plain.Tag(r.Image.Identifier()), err
}

// looksLikeOne says whether the first part of an image's name is taken for a registry.
func looksLikeOne(registry string) bool {
	return registry == "localhost" || strings.ContainsAny(registry, ".:")
}

// Digest is empty where a tag names the image.
func (r Reference) Digest() string {
	if d, is := r.Image.(name.Digest); is {
		return d.DigestStr()
	}
	return ""
}

// At is the image of a digest in the same repository.
func (r Reference) At(digest string) Reference {
	r.Image = r.Image.Context().Digest(digest)
	return r
}

// Text is what Parse reads as the same image of a registry, for the same user.
func (r Reference) Text() string {
	user := ""
	if r.User != "" {
		user = r.User + "@"
	}
	where := r.Image.Context()
	between, before := "#", ":"
	if looksLikeOne(where.RegistryStr()) {
		between = "/"
	}
	if r.Digest() != "" {
		before = "@"
	}
	return "docker://" + user + where.RegistryStr() + between + where.RepositoryStr() + before + r.Image.Identifier()
}

// parseIn reads an image's name with its tag or digest. The registry holds where the name begins with none.
func parseIn(registry, image string) (name.Reference, error) {
	base, digest, is := strings.Cut(image, "@")
	tag, err := name.NewTag(base, name.WithDefaultRegistry(registry))
	if err != nil || !is {
		return tag, err
	}
	// go-containerregistry takes a registry without a dot twice where a digest follows
	known, err := name.NewDigest("any@" + digest)
	if err != nil {
		return nil, err
	}
	return tag.Digest(known.DigestStr()), nil
}

// String is the whole name of the image, without a user.
func (r Reference) String() string {
	switch {
	case r.Image != nil:
		return r.Image.Name()
	case r.Tag != "":
		return r.Path + ":" + r.Tag
	}
	return r.Path
}

// FileName is the file's name that enroot gives an image: its repository and its tag, if one was given.
func FileName(text string) (string, error) {
	r, err := Parse(text)
	if err != nil {
		return "", err
	}
	if r.Image == nil {
		base := strings.TrimSuffix(path.Base(r.Path), ".tar")
		if r.Tag != "" {
			base += "+" + r.Tag
		}
		return unslashed(base), nil
	}
	base := strings.TrimPrefix(r.Image.Context().RepositoryStr(), "library/")
	switch tag := r.Image.Identifier(); {
	case strings.Contains(tag, ":"): // a digest
		_, hex, _ := strings.Cut(tag, ":")
		base += "+" + hex[:min(12, len(hex))]
	case strings.HasSuffix(text, ":"+tag):
		base += "+" + tag
	}
	return unslashed(base), nil
}

func unslashed(base string) string {
	return strings.NewReplacer("/", "+", ":", "+").Replace(strings.TrimLeft(base, "./")) + ".sqsh"
}
