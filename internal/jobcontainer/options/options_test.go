package options

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
)

func from(environ string) func(string) string {
	return func(name string) string {
		for pair := range strings.FieldsSeq(environ) {
			if n, value, _ := strings.Cut(pair, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func TestParse(t *testing.T) {
	image := Options{Image: "/i", NameMode: Auto}
	with := func(change func(*Options)) Options {
		o := image
		change(&o)
		return o
	}
	for _, c := range []struct {
		args, environ string
		want          Options
	}{
		{"--container-image=/i", "", image},
		{"", "PYXIS_CONTAINER_IMAGE=/i", image},
		{"--container-image=/i", "PYXIS_CONTAINER_IMAGE=/other", image},
		{"--container-image=./i", "", with(func(o *Options) { o.Image = "./i" })},
		{"--container-image=i.sqsh", "", with(func(o *Options) { o.Image = "i.sqsh" })},
		{"--container-image=/i --container-image=/i", "", image},
		{"--container-image=/i --container-writable", "", with(func(o *Options) { o.Writable = true })},
		{"--container-image=/i --container-readonly --default=writable=1", "PYXIS_CONTAINER_WRITABLE=1", image},
		{"--container-image=/i --default=writable=y", "", with(func(o *Options) { o.Writable = true })},
		{"--container-image=/i --default=remap_root=1", "PYXIS_CONTAINER_REMAP_ROOT=no", image},
		{"--container-image=/i", "PYXIS_CONTAINER_READONLY=false", with(func(o *Options) { o.Writable = true })},
		{"--container-image=/i", "PYXIS_CONTAINER_MOUNT_HOME=yes", with(func(o *Options) { o.MountHome = true })},
		{"--container-image=/i --container-entrypoint --container-entrypoint-log", "", with(func(o *Options) {
			o.Entrypoint, o.EntrypointLog = true, true
		})},
		{"--container-image=/i --container-env=A,B", "", with(func(o *Options) { o.Env = []string{"A", "B"} })},
		{"--container-image=/i --container-unshare=uts,net,uts", "", with(func(o *Options) { o.Unshare = []string{"net", "uts"} })},
		{"--container-image=/i --container-save=x.sqsh", "PYXIS_CONTAINER_SAVE=/y", with(func(o *Options) { o.Save = "x.sqsh" })},
		{"--container-image=/i", "PYXIS_CONTAINER_SAVE=/y", with(func(o *Options) { o.Save = "/y" })},
		{"--container-image=/i --default=slurm=0", "", with(func(o *Options) { o.NoSlurm = true })},
		{"--container-image=/i --container-slurm --default=slurm=0", "", with(func(o *Options) { o.WantSlurm = true })},
		{"--container-image=/i --no-container-slurm", "PYXIS_CONTAINER_SLURM=1", with(func(o *Options) { o.NoSlurm = true })},
		{"--container-image=alpine", "", with(func(o *Options) { o.Image = "alpine" })},
		{"--container-image=docker://a@nvcr.io#b/c:d", "", with(func(o *Options) { o.Image = "docker://a@nvcr.io#b/c:d" })},
		{"--container-image=docker://x/i.sqsh", "", with(func(o *Options) { o.Image = "docker://x/i.sqsh" })},
		{"--container-image=/i --default=image_cache=20Gi", "", with(func(o *Options) { o.ImageCache = 20 << 30 })},
		{"--container-image=/i --default=image_cache=2k", "", with(func(o *Options) { o.ImageCache = 2000 })},
		{"--container-image=/i --default=image_cache=7", "", with(func(o *Options) { o.ImageCache = 7 })},
		{"--container-name=n", "", Options{Name: "n", NameMode: Auto}},
		{"--container-name=n:no_exec --container-workdir=/w", "", Options{Name: "n", NameMode: NoExec, Workdir: "/w"}},
		{"--container-image=/i --container-mounts=/a --container-mounts=/b:/c,/a", "", with(func(o *Options) {
			o.Mounts = []Mount{{Source: "/a", Target: "/a", Create: "auto"}, {Source: "/b", Target: "/c", Create: "auto"}}
		})},
		{"--container-workdir=/w", "", Options{}},
		{"", "", Options{}},
	} {
		got, _, err := Parse(strings.Fields(c.args), from(c.environ))
		if assert.NoError(t, err, "%s %s", c.args, c.environ) {
			assert.Equal(t, c.want, got, "%s %s", c.args, c.environ)
		}
	}
}

func TestIgnored(t *testing.T) {
	_, ignored, err := Parse([]string{"--container-workdir=/w", "--container-writable", "--default=remap_root=1"}, from(""))
	require.NoError(t, err)
	assert.Equal(t, []string{"container-workdir", "container-writable"}, ignored)
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"--container-image=Alpine":                                              "want a directory, a .sqsh file or an image of a registry",
		"--container-image=nvcr.io/nvidia/pytorch:24.05-py3:":                   "no image's name",
		"--container-image=docker://a.example#b.example/c":                      "names two registries",
		"--container-image=dockerd://ubuntu":                                    "asks no daemon",
		"--container-image=docker-archive:a.tar":                                "`slurmlet-container import docker-archive:a.tar` makes a .sqsh file",
		"--container-image=oci:layout":                                          "no OCI layout",
		"--container-image=/i --default=image_cache=":                           "a size as in 50Gi",
		"--container-image=/i --default=image_cache=0":                          "more than nothing",
		"--container-image=/i --default=image_cache=999999999999999T":           "too large",
		"--container-image=/i --container-image=/j":                             "contradicts",
		"--container-image=":                                                    "needs a value",
		"--container-image=/i --container-mounts=":                              "needs a value",
		"--container-image=/i --container-mounts=data:/data":                    "want a source",
		"--container-image=/i --container-mounts=/a:data":                       "want a target",
		"--container-image=/i --container-mounts=/a:/b:x-move":                  "no flag",
		"--container-image=/i --container-mounts=/a:/b:size=1":                  "no flag",
		"--container-image=/i --no-container-remap-root --container-remap-root": "contradicts",
		"--container-image=/i --container-save=/x/":                             "the path of a file",
		"--container-image=/i --container-save=/":                               "the path of a file",
		"--container-image=/i --container-save=./":                              "the path of a file",
		"--container-image=/i --container-save=/x/..":                           "the path of a file",
		"--container-image=/i --container-save=":                                "it needs a value",
		"--container-image=/i --container-env=A,,B":                             "names of variables",
		"--container-image=/i --container-env=A=1":                              "names of variables",
		"--container-image=/i --container-unshare=pid":                          "net, ipc or uts",
		"--container-name=a/b":                                                  "without a slash",
		"--container-name=..":                                                   "without a slash",
		"--container-name=:exec":                                                "without a slash",
		"--container-name=a:run":                                                "auto, create, exec or no_exec",
		"--container-name=a:create":                                             "want --container-image",
		"--container-image=/i --default=runtime_path=/run":                      "plugstack.conf",
		"--container-imag=/i":                                                   "container-imag",
	} {
		_, _, err := Parse(strings.Fields(args), from(""))
		assert.ErrorContains(t, err, want, args)
	}
	for _, environ := range []string{"PYXIS_CONTAINER_WRITABLE=maybe", "PYXIS_CONTAINER_READONLY=2", "PYXIS_CONTAINER_MOUNTS=x"} {
		_, _, err := Parse([]string{"--container-image=/i"}, from(environ))
		assert.ErrorContains(t, err, "PYXIS_CONTAINER", environ)
	}
}

func TestParseMount(t *testing.T) {
	for text, want := range map[string]Mount{
		"/a:/b:ro":                {Source: "/a", Target: "/b", Create: "auto", Set: unix.MOUNT_ATTR_RDONLY},
		"/a:/b:ro+rw":             {Source: "/a", Target: "/b", Create: "auto", Clear: unix.MOUNT_ATTR_RDONLY},
		"/a:/b:rbind+nofail+ro":   {Source: "/a", Target: "/b", Create: "auto", NoFail: true, Set: unix.MOUNT_ATTR_RDONLY},
		"/a:/b:rslave+nosuid":     {Source: "/a", Target: "/b", Create: "auto", Propagation: unix.MS_SLAVE | unix.MS_REC, Set: unix.MOUNT_ATTR_NOSUID},
		"./a:/b:x-create=dir":     {Source: "./a", Target: "/b", Create: "dir"},
		"tmpfs:/b:size=1g+mode=7": {Source: Tmpfs, Target: "/b", Create: "dir", Data: []string{"size=1g", "mode=7"}},
		"umount:/tmp":             {Source: Umount, Target: "/tmp"},
		"/a:/b:":                  {Source: "/a", Target: "/b", Create: "auto"},
	} {
		got, err := ParseMount(text)
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, got, text)
		}
	}
}

// FuzzParse: whatever users write, what is taken has the forms that rootfs builds on.
func FuzzParse(f *testing.F) {
	f.Add("/image", "/a:/b:ro+nofail,tmpfs:/c:size=1g", "name:exec", "A,B")
	f.Add("docker://x", "umount:/x", "..", "")
	f.Fuzz(func(t *testing.T, image, mounts, name, env string) {
		o, _, err := Parse([]string{
			"--container-image=" + image, "--container-mounts=" + mounts, "--container-name=" + name, "--container-env=" + env,
		}, from(""))
		if err != nil {
			return
		}
		require.NotContains(t, o.Name, "/")
		require.NotContains(t, []string{"", ".", ".."}, o.Name)
		if o.Image != "" && !IsPath(o.Image) {
			ref, err := imageref.Parse(o.Image)
			require.NoError(t, err)
			require.NotNil(t, ref.Image)
		}
		for _, m := range o.Mounts {
			require.Contains(t, "/.", m.Target[:1])
			require.False(t, m.Source != Tmpfs && m.Source != Umount && !strings.ContainsAny(m.Source[:1], "/."), m.Source)
			require.Zero(t, m.Set&m.Clear)
		}
	})
}
