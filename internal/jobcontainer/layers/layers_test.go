package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layerOf makes a layer's tar of lines: "dir/", "file=text", "link->target", "hard=>target", "fifo|", "device!".
func layerOf(lines ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, line := range lines {
		h := &tar.Header{Name: line, Typeflag: tar.TypeReg, Mode: 0o640, ModTime: time.Unix(7, 0)}
		text := ""
		if name, link, is := strings.Cut(line, "=>"); is {
			h.Name, h.Linkname, h.Typeflag = name, link, tar.TypeLink
		} else if name, link, is := strings.Cut(line, "->"); is {
			h.Name, h.Linkname, h.Typeflag = name, link, tar.TypeSymlink
		} else if name, said, is := strings.Cut(line, "="); is {
			h.Name, text, h.Size = name, said, int64(len(said))
		} else if strings.HasSuffix(line, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o555
		} else if name, is := strings.CutSuffix(line, "|"); is {
			h.Name, h.Typeflag = name, tar.TypeFifo
		} else if name, is := strings.CutSuffix(line, "!"); is {
			h.Name, h.Typeflag = name, tar.TypeChar
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		_, _ = io.WriteString(w, text)
	}
	_ = w.Close()
	return out.Bytes()
}

// flatten makes one tar of layers.
func flatten(layers ...[]byte) (*Tree, []byte, error) {
	tree := New()
	for _, layer := range layers {
		entries, err := Read(bytes.NewReader(layer))
		if err != nil {
			return nil, nil, err
		}
		if err := tree.Add(entries); err != nil {
			return nil, nil, err
		}
	}
	var out bytes.Buffer
	w, err := tree.Begin(&out)
	for n := 0; err == nil && n < len(layers); n++ {
		err = w.Layer(n, bytes.NewReader(layers[n]))
	}
	if err == nil {
		err = w.Close()
	}
	return tree, out.Bytes(), err
}

// linesOf is layerOf's other way.
func linesOf(text []byte) (lines []string) {
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if err != nil {
			return lines
		}
		switch h.Typeflag {
		case tar.TypeDir:
			lines = append(lines, h.Name)
		case tar.TypeSymlink:
			lines = append(lines, h.Name+"->"+h.Linkname)
		case tar.TypeLink:
			lines = append(lines, h.Name+"=>"+h.Linkname)
		case tar.TypeFifo:
			lines = append(lines, h.Name+"|")
		default:
			said, _ := io.ReadAll(r)
			lines = append(lines, h.Name+"="+string(said))
		}
	}
}

func TestFlatten(t *testing.T) {
	type image [][]string
	for name, c := range map[string]struct {
		layers image
		want   string
	}{
		"a later layer's file wins":         {image{{"a=1", "b=1"}, {"a=2"}}, "b=1 a=2"},
		"a whiteout takes a file away":      {image{{"d/", "d/a=1", "d/b=1"}, {"d/.wh.a"}}, "d/ d/b=1"},
		"a whiteout takes a tree away":      {image{{"d/e/", "d/e/a=1", "b=1"}, {".wh.d"}}, "b=1"},
		"a whiteout is of lower layers":     {image{{"a=1"}, {"a=2", ".wh.a"}}, "a=2"},
		"a whiteout, and the file again":    {image{{"a=1"}, {".wh.a"}, {"a=3"}}, "a=3"},
		"a whiteout of nothing":             {image{{"a=1"}, {".wh.b", "c/.wh.d"}}, "a=1"},
		"an opaque directory":               {image{{"d/", "d/a=1", "d/e/", "d/e/b=1"}, {"d/", "d/c=2", "d/.wh..wh..opq"}}, "d/ d/c=2"},
		"an opaque root":                    {image{{"a=1"}, {"b=2", ".wh..wh..opq"}}, "b=2"},
		"AUFS' own names":                   {image{{".wh..wh.plnk/1=x", ".wh..wh.aufs=", "a=1"}}, "a=1"},
		"whiteouts that name no file":       {image{{"d/", "d/a=1"}, {"d/.wh..", "d/.wh..."}}, "d/ d/a=1"},
		"a directory in place of a file":    {image{{"a=1"}, {"a/", "a/b=2"}}, "a/ a/b=2"},
		"a file in place of a directory":    {image{{"a/", "a/b=1"}, {"a=2"}}, "a=2"},
		"a directory twice keeps its files": {image{{"a/", "a/b=1"}, {"a/"}}, "a/ a/b=1"},
		"directories that no layer has":     {image{{"a/b/c=1"}}, "a/ a/b/ a/b/c=1"},
		"hard links":                        {image{{"a=1", "b=>a", "c=>b"}}, "a=1 b=>a c=>a"},
		"a hard link to a lower layer":      {image{{"a=1"}, {"b=>a"}}, "a=1 b=>a"},
		"a hard link whose target changes":  {image{{"a=1", "b=>a"}, {"a=2"}}, "b=1 a=2"},
		"a hard link whose target goes":     {image{{"a=1", "b=>a"}, {".wh.a"}}, "b=1"},
		"a hard link to a link":             {image{{"l->/x", "b=>l"}}, "b->/x l->/x"},
		"through a link to a directory":     {image{{"usr/lib/", "lib->usr/lib"}, {"lib/a=1"}}, "lib->usr/lib usr/ usr/lib/ usr/lib/a=1"},
		"a directory in place of a link":    {image{{"usr/lib/", "lib->usr/lib"}, {"lib/", "lib/a=1"}}, "lib/ usr/ usr/lib/ lib/a=1"},
		"through a link to nothing yet":     {image{{"run->/var/run"}, {"run/a=1"}}, "run->/var/run var/ var/run/ var/run/a=1"},
		"paths that lead out":               {image{{"../../a=1", "/etc/../../b=2", "./c=3"}}, "a=1 b=2 c=3"},
		"links that lead out":               {image{{"up->../../..", "up/a=1", "root->/", "root/b=2"}}, "root->/ up->../../.. a=1 b=2"},
		"hard links that lead out":          {image{{"a=1", "b=>../../a"}}, "a=1 b=>a"},
		"devices and a pipe":                {image{{"null!", "p|", "dev/", "dev/x=1", "dev/y!"}}, "dev/ p|"},
	} {
		t.Run(name, func(t *testing.T) {
			var all [][]byte
			for _, lines := range c.layers {
				all = append(all, layerOf(lines...))
			}
			_, out, err := flatten(all...)
			require.NoError(t, err)
			assert.Equal(t, c.want, strings.Join(linesOf(out), " "))
		})
	}
}

func TestFlattenRefuses(t *testing.T) {
	for why, lines := range map[string][]string{
		"more than 40 links":          {"a->b", "b->a", "a/c=1"},
		"leads through a file":        {"a=1", "a/b/c=2"},
		"which is no directory":       {"a=1", "a/b=2"},
		"which is in no layer so far": {"b=>a"},
		"which is a directory":        {"a/", "b=>a"},
		"a name of 300 characters":    {strings.Repeat("x", 300) + "=1"},
		"a path of 5001 characters":   {strings.Repeat("x/", 2500) + "y=1"},
		"its root is no directory":    {".->a"},
	} {
		_, _, err := flatten(layerOf(lines...))
		assert.ErrorContains(t, err, why)
	}
	_, _, err := flatten([]byte("no tar, but long enough to be one, if it were one" + strings.Repeat(" ", 512)))
	assert.ErrorContains(t, err, "cannot read the layer's tar")
}

// TestModes: what the container's user owns is readable, and its directories writable.
func TestModes(t *testing.T) {
	tree, out, err := flatten(layerOf("d/", "d/a=1", "null!"))
	require.NoError(t, err)
	assert.Equal(t, 1, tree.Devices)
	r := tar.NewReader(bytes.NewReader(out))
	for _, mode := range []int64{0o755, 0o640} {
		h, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, mode, h.Mode, h.Name)
		assert.Equal(t, []any{0, 0, int64(7)}, []any{h.Uid, h.Gid, h.ModTime.Unix()})
	}
}

func TestAttributes(t *testing.T) {
	records := map[string]string{
		"SCHILY.xattr.user.a": "1\x002", "SCHILY.xattr.security.capability": "x", "SCHILY.xattr.user.overlay.redirect": "/etc",
		"SCHILY.xattr.trusted.overlay.opaque": "y", "mtime": "1",
	}
	assert.Equal(t, []string{"user.a", "1\x002"}, attributes(records))
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"SCHILY.xattr.user.a": "1"}}))
	require.NoError(t, w.Close())
	_, out, err := flatten(in.Bytes())
	require.NoError(t, err)
	h, err := tar.NewReader(bytes.NewReader(out)).Next()
	require.NoError(t, err)
	assert.Equal(t, "1", h.PAXRecords["SCHILY.xattr.user.a"])
}

func TestOwnFiles(t *testing.T) {
	tree := New()
	layer := layerOf("etc->/real", "real/rc=old")
	entries, err := Read(bytes.NewReader(layer))
	require.NoError(t, err)
	require.NoError(t, tree.Add(entries))
	require.NoError(t, tree.Write("etc/rc", "new", 0o755))
	tree.Mkdir("/work/../work/deep")
	tree.Mkdir("/real/rc/deep")
	var out bytes.Buffer
	w, err := tree.Begin(&out)
	require.NoError(t, err)
	require.NoError(t, w.Layer(0, bytes.NewReader(layer)))
	require.NoError(t, w.Close())
	assert.Equal(t, "etc->/real real/ real/rc=new work/ work/deep/", strings.Join(linesOf(out.Bytes()), " "))
}

// FuzzFlatten: whatever layers say, the tar has clean paths below the root, each once and after its directory, and a
// hard link leads to a file before it.
func FuzzFlatten(f *testing.F) {
	f.Add(layerOf("a/", "a/b=1", "c=>a/b", "l->../..", "l/x=2"), layerOf("a/.wh.b", "../../etc/passwd=x", "d!", "p|"))
	f.Add(layerOf("lib->usr/lib", "lib/a=1"), layerOf("lib/.wh..wh..opq", "lib/", "usr=>lib/a"))
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		_, out, err := flatten(lower, upper)
		if err != nil {
			return
		}
		files, directories := map[string]bool{}, map[string]bool{".": true}
		for r := tar.NewReader(bytes.NewReader(out)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			require.NoError(t, err)
			name := strings.TrimSuffix(h.Name, "/")
			require.Equal(t, clean(name), name, "%q", h.Name)
			require.True(t, directories[path.Dir(name)], name)
			require.False(t, files[name] || directories[name], name)
			require.True(t, slices.Contains([]byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo}, h.Typeflag))
			if h.Typeflag == tar.TypeLink {
				require.True(t, files[h.Linkname], name)
			}
			if h.Typeflag == tar.TypeDir {
				directories[name] = true
			} else {
				files[name] = true
			}
		}
	})
}
