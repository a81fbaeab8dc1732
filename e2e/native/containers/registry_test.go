//go:build e2e

package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/registry"
)

// secret is the password of the registry's users.
const secret = "the secret of alice and bob"

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// faults are what goes wrong between a registry and its users.
type faults struct {
	// away is how many requests for blobs are answered with 503, and cut after how many bytes each answer ends.
	away, cut int
	// broken changes a blob, still sends none, and gone answers nothing at all.
	broken, still, gone bool
	// users has everybody show a token, which the password gives, and basic the password itself.
	users, basic bool
}

// site is a real registry behind a door, whose address is front, and behind one for nodes.
type site struct {
	front, digest string
	// the images of team/app:1 and team/deep:1, and a third one
	app, deep, other v1.Image
	behind           *registry.Registry
	door, outside    *httptest.Server
	mu               sync.Mutex
	faults           faults
	cuts, held       int
	// blobs and manifests are the paths of all requests.
	blobs, manifests []string
}

// asked returns how many blobs and manifests were asked for.
func (s *site) asked() (blobs, manifests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blobs), len(s.manifests)
}

// blobsSince are the paths of the blobs that were asked for after so many.
func (s *site) blobsSince(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.blobs[n:])
}

// tag gives an image a name.
func (s *site) tag(to string, image v1.Image) error {
	ref, err := name.ParseReference(s.behind.Address + "/" + to)
	if err != nil {
		return err
	}
	return remote.Write(ref, image)
}

// holdsAgain forgets who has been held.
func (s *site) holdsAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = 0
}

func (s *site) set(change func(*faults)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.faults)
}

func (s *site) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held > 0
}

// played is an error unless an answer was cut, and each 503 given.
func (s *site) played() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cuts == 0 || s.faults.away > 0 {
		return fmt.Errorf("%d answers were cut, and %d times 503 was left", s.cuts, s.faults.away)
	}
	return nil
}

func (s *site) close() {
	s.set(func(f *faults) { *f = faults{} })
	for _, door := range []*httptest.Server{s.door, s.outside} {
		door.CloseClientConnections()
		door.Close()
	}
	s.behind.Stop()
}

// startSite starts a registry with the images of the cases, and writes one of them as an archive and a layout, too.
func (w *world) startSite(program string) error {
	dir := filepath.Join(native.Scratch, "registry")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	behind, err := registry.Start(context.Background(), program, dir)
	if err != nil {
		return err
	}
	to, err := url.Parse("http://" + behind.Address)
	if err != nil {
		return err
	}
	w.registry = &site{behind: behind}
	proxy := httputil.NewSingleHostReverseProxy(to)
	handler := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { w.registry.serve(proxy, out, r) })
	w.registry.door = httptest.NewServer(handler)
	w.registry.front = strings.TrimPrefix(w.registry.door.URL, "http://")
	// a node's loopback is its own
	outside, err := net.Listen("tcp", native.Address+":0")
	if err != nil {
		return err
	}
	w.registry.outside = &httptest.Server{Listener: outside, Config: &http.Server{Handler: handler}} //nolint:gosec // a test's
	w.registry.outside.Start()
	return w.push()
}

func (s *site) serve(to http.Handler, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	now := s.faults
	blob := strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet
	if blob && now.away > 0 {
		s.faults.away--
	}
	switch {
	case blob:
		s.blobs = append(s.blobs, r.URL.Path)
	case strings.Contains(r.URL.Path, "/manifests/"):
		s.manifests = append(s.manifests, r.URL.Path)
	}
	s.mu.Unlock()
	if now.gone {
		panic(http.ErrAbortHandler)
	}
	if now.users && !s.admits(now, w, r) {
		return
	}
	switch {
	case blob && now.away > 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case blob && now.still:
		s.mu.Lock()
		s.held++
		s.mu.Unlock()
		<-r.Context().Done()
	case blob && now.broken:
		r.Header.Del("Accept-Encoding")
		to.ServeHTTP(&spoiled{ResponseWriter: w}, r)
	case blob && now.cut > 0:
		cut := &cutter{ResponseWriter: w, left: now.cut}
		defer func() {
			if cut.left < 0 {
				s.mu.Lock()
				s.cuts++
				s.mu.Unlock()
				panic(http.ErrAbortHandler)
			}
		}()
		to.ServeHTTP(cut, r)
	default:
		to.ServeHTTP(w, r)
	}
}

// admits asks for who comes, as registries with tokens and with passwords do.
func (s *site) admits(now faults, w http.ResponseWriter, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	known := (user == "alice" || user == "bob") && password == secret
	switch {
	case r.URL.Path == "/token" && known:
		fmt.Fprint(w, `{"token": "of-a-user"}`)
		return false
	case now.basic && known, !now.basic && r.Header.Get("Authorization") == "Bearer of-a-user":
		return true
	case now.basic:
		w.Header().Set("WWW-Authenticate", `Basic realm="site"`)
	case r.URL.Path == "/token":
	default:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="site"`, "http://"+r.Host))
	}
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

// spoiled changes the last byte of what it is given first.
type spoiled struct {
	http.ResponseWriter
	done bool
}

func (s *spoiled) Write(p []byte) (int, error) {
	if !s.done {
		s.done = true
		p = bytes.Clone(p)
		p[len(p)-1] ^= 1
	}
	return s.ResponseWriter.Write(p)
}

// cutter ends an answer.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:max(c.left, 0)])
		c.ResponseWriter.(http.Flusher).Flush()
		c.left = -1
		return 0, errors.New("cut")
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// push makes the images, and pushes them behind the door.
func (w *world) push() error {
	base, err := layerOf(func(t *tar.Writer) error { return addTree(t, filepath.Join(w.Root, image)) })
	if err != nil {
		return err
	}
	upper, err := layerOf(func(t *tar.Writer) error {
		for _, h := range []*tar.Header{
			{Name: "work/sub/", Typeflag: tar.TypeDir, Mode: 0o555},
			{Name: "work/sub/old", Typeflag: tar.TypeReg, Mode: 0o644},
			{Name: "work/gone", Typeflag: tar.TypeReg, Mode: 0o644},
			{Name: "dev/of-the-image", Typeflag: tar.TypeChar, Mode: 0o666},
		} {
			if err := t.WriteHeader(h); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	top, err := layerOf(func(t *tar.Writer) error {
		for _, h := range []*tar.Header{
			{Name: "work/.wh.gone", Typeflag: tar.TypeReg},
			{Name: "work/sub/.wh..wh..opq", Typeflag: tar.TypeReg},
			{Name: "./work/sub/new", Typeflag: tar.TypeReg, Mode: 0o644},
			{Name: "work/linked", Linkname: "work/here", Typeflag: tar.TypeLink},
			{Name: "../../../tmp/escaped", Typeflag: tar.TypeReg, Mode: 0o644},
		} {
			if err := t.WriteHeader(h); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	squeezed := static.NewLayer(compressed(top), types.OCILayerZStd)
	app, err := imageOf("amd64", []v1.Layer{layer(base), layer(upper)}, []v1.Layer{squeezed}, top)
	if err != nil {
		return err
	}
	deepLayers := []v1.Layer{layer(base)}
	for n := range 60 {
		one, err := layerOf(func(t *tar.Writer) error {
			text := fmt.Sprintln(n)
			err := t.WriteHeader(&tar.Header{Name: fmt.Sprintf("work/%d", n), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))})
			_, failed := io.WriteString(t, text)
			return errors.Join(err, failed)
		})
		if err != nil {
			return err
		}
		deepLayers = append(deepLayers, layer(one))
	}
	deep, err := imageOf("amd64", deepLayers, nil, nil)
	if err != nil {
		return err
	}
	other, err := imageOf("amd64", deepLayers[:2], nil, nil)
	if err != nil {
		return err
	}
	w.registry.app, w.registry.deep, w.registry.other = app, deep, other
	arm, err := imageOf("arm64", []v1.Layer{layer(upper)}, nil, nil)
	if err != nil {
		return err
	}
	digest, err := app.Digest()
	w.registry.digest = digest.String()
	return errors.Join(err, w.pushAll(map[string]v1.Image{"team/app:1": app, "team/deep:1": deep}, arm), w.writeFiles(deep))
}

func (w *world) pushAll(images map[string]v1.Image, arm v1.Image) error {
	for to, image := range images {
		if err := w.registry.tag(to, image); err != nil {
			return err
		}
	}
	ref, err := name.ParseReference(w.registry.behind.Address + "/team/arm:1")
	if err != nil {
		return err
	}
	ofArm := mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}}
	if err := remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, ofArm)); err != nil {
		return err
	}
	if ref, err = name.ParseReference(w.registry.behind.Address + "/team/both:1"); err != nil {
		return err
	}
	return remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, ofArm, mutate.IndexAddendum{
		Add: w.registry.app, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	}))
}

// writeFiles writes an image as `docker save` does, and as an OCI layout.
func (w *world) writeFiles(image v1.Image) error {
	tag, err := name.NewTag("team/deep:1")
	if err != nil {
		return err
	}
	written, err := layout.Write(filepath.Join(w.Root, "srv/deep"), empty.Index)
	if err == nil {
		err = written.AppendImage(image)
	}
	// the library keeps blobs for their writer alone
	readable := w.Command("/bin/chmod", "-R", "a+rX", "/srv/deep").Run()
	packed := w.Command("/bin/tar", "-C", "/srv/deep", "-cf", "/srv/deep-oci.tar", ".").Run()
	return errors.Join(err, readable, packed, tarball.WriteToFile(filepath.Join(w.Root, "srv/deep.tar"), tag, image))
}

// imageOf makes an image of layers, and of more of them whose tar the configuration has to be told.
func imageOf(arch string, plain, squeezed []v1.Layer, tars ...[]byte) (v1.Image, error) {
	made, err := mutate.AppendLayers(empty.Image, plain...)
	if err != nil {
		return nil, err
	}
	for n, l := range squeezed {
		diff, _, err := v1.SHA256(bytes.NewReader(tars[n]))
		if err != nil {
			return nil, err
		}
		if made, err = mutate.Append(made, mutate.Addendum{Layer: differing{l, diff}, MediaType: types.OCILayerZStd}); err != nil {
			return nil, err
		}
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config = v1.Config{
		Env: []string{"PATH=/usr/bin:/bin", "ONLY=of-the-image"}, WorkingDir: "/work", Entrypoint: []string{"/usr/bin/env"}, Cmd: []string{"sh"},
	}
	return mutate.ConfigFile(made, config)
}

// differing is a layer that says what its tar is.
type differing struct {
	v1.Layer
	diff v1.Hash
}

func (d differing) DiffID() (v1.Hash, error) { return d.diff, nil }

func layer(text []byte) v1.Layer {
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
	if err != nil {
		panic(err) // it reads memory
	}
	return l
}

func layerOf(fill func(*tar.Writer) error) ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	err := errors.Join(fill(t), t.Close())
	return out.Bytes(), err
}

func compressed(text []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err) // it has no options
	}
	return w.EncodeAll(text, nil)
}

// addTree adds a directory's files, as root's.
func addTree(t *tar.Writer, root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name, _ = filepath.Rel(root, path)
		h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
		if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			_, err = t.Write(data)
		}
		return err
	})
}
