// Package imageref reads the name of an image as a user types it: enroot's grammar, docker's, and those of files. It is
// pure, and asks no registry. Programs that every step starts link it, so it begins with no work: what it needs of regular
// expressions is compiled where it is used.
package imageref

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// Reference names one image.
type Reference struct {
	// Image is in a registry; nil: the image is in a file or a directory.
	Image *Image
	// User is whose credentials the registry is shown; empty: those that are found first.
	User string
	// Path is that of a file as `docker save` writes one (Archive), of an OCI layout as a tar (Packed), or of an OCI
	// layout's directory.
	Path            string
	Archive, Packed bool
	// Tag is the image's name in Path; empty: there is one image alone.
	Tag string
}

// Image names an image of a registry by a tag, or by a digest.
type Image struct {
	Registry, Repository string
	// Tag is empty where Digest is not.
	Tag, Digest string
}

// Identifier is the tag or the digest.
func (i *Image) Identifier() string {
	if i.Digest != "" {
		return i.Digest
	}
	return i.Tag
}

// Name is the whole name.
func (i *Image) Name() string {
	if i.Digest != "" {
		return i.Registry + "/" + i.Repository + "@" + i.Digest
	}
	return i.Registry + "/" + i.Repository + ":" + i.Tag
}

// The registry of names without one, which is called in several ways.
const (
	dockerHub  = "index.docker.io"
	dockerTag  = "latest"
	dockerRoot = "library/"
)

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
var digested = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`@sha(256|512):[^@]*$`) })

// repository is the grammar that registries have for the path of an image.
var repository = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
})

// registry is a host's name or address, and perhaps a port.
var registry = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(:[0-9]+)?$`)
})

// tag and digest are what docker takes behind the colon and the at sign of a name.
var (
	tag    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`) })
	digest = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})$`)
	})
)

func parseImage(text string) (Reference, error) {
	host, image, named := strings.Cut(text, "#")
	var r Reference
	if !named {
		host, image = "", text
		plain := digested().ReplaceAllString(text, "")
		if at := strings.LastIndex(plain, "@"); at >= 0 {
			r.User, image = text[:at], text[at+1:]
		}
	} else if at := strings.LastIndex(host, "@"); at >= 0 {
		r.User, host = host[:at], host[at+1:]
	}
	if named && host == "" || image == "" {
		return Reference{}, fmt.Errorf("%s: want [USER@][REGISTRY#]IMAGE[:TAG]", text)
	}
	if host != "" && !registry().MatchString(host) {
		return Reference{}, fmt.Errorf("%s: %q is no registry", text, host)
	}
	want := dockerHub
	if host != "" && host != "docker.io" && host != "registry-1.docker.io" {
		want = host
	}
	found, err := parseIn(want, image)
	switch {
	case err != nil:
		return Reference{}, fmt.Errorf("%s is no image's name: %w", text, err)
	case named && found.Registry != want:
		return Reference{}, fmt.Errorf("%s names two registries, %s and %s", text, host, found.Registry)
	}
	r.Image = found
	return r, nil
}

// parseIn reads an image's name with its tag or digest. The registry holds where the name begins with none.
func parseIn(host, image string) (*Image, error) {
	base, sum, summed := strings.Cut(image, "@")
	if summed && !digest().MatchString(sum) {
		return nil, fmt.Errorf("%q is no digest", sum)
	}
	found := &Image{Registry: host, Tag: dockerTag}
	if at := strings.LastIndex(base, ":"); at >= 0 && !strings.Contains(base[at:], "/") {
		base, found.Tag = base[:at], base[at+1:]
		if !tag().MatchString(found.Tag) {
			return nil, fmt.Errorf("%q is no tag", found.Tag)
		}
	}
	if summed {
		found.Tag, found.Digest = "", sum
	}
	if first, rest, more := strings.Cut(base, "/"); more && LooksLikeRegistry(first) {
		if !registry().MatchString(first) {
			return nil, fmt.Errorf("%q is no registry", first)
		}
		base, found.Registry = rest, first
		if first == "docker.io" {
			found.Registry = dockerHub
		}
	}
	if found.Registry == dockerHub && !strings.Contains(base, "/") {
		base = dockerRoot + base
	}
	if len(base) > 255 || !repository().MatchString(base) {
		return nil, fmt.Errorf("%q is no path of a registry's", base)
	}
	found.Repository = base
	return found, nil
}

// LooksLikeRegistry says whether the first part of an image's name is taken for a registry.
func LooksLikeRegistry(part string) bool {
	return part == "localhost" || strings.ContainsAny(part, ".:")
}

// Digest is empty where a tag names the image.
func (r Reference) Digest() string {
	if r.Image == nil {
		return ""
	}
	return r.Image.Digest
}

// At is the image of a digest in the same repository.
func (r Reference) At(digest string) Reference {
	r.Image = &Image{Registry: r.Image.Registry, Repository: r.Image.Repository, Digest: digest}
	return r
}

// Text is what Parse reads as the same image of a registry, for the same user.
func (r Reference) Text() string {
	user := ""
	if r.User != "" {
		user = r.User + "@"
	}
	between, before := "#", ":"
	if LooksLikeRegistry(r.Image.Registry) {
		between = "/"
	}
	if r.Image.Digest != "" {
		before = "@"
	}
	return "docker://" + user + r.Image.Registry + between + r.Image.Repository + before + r.Image.Identifier()
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
	base := strings.TrimPrefix(r.Image.Repository, dockerRoot)
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
