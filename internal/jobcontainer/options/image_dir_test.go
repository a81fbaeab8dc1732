package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImageDir(t *testing.T) {
	for _, c := range []struct{ dir, want, fault string }{
		{"%h/.cache/slurmlet/images", "/home/bob/.cache/slurmlet/images", ""},
		{"/shared/images/%u", "/shared/images/bob", ""},
		{"/scratch/%U/images", "/scratch/1001/images", ""},
		{"/shared/images", "", "a directory of each user's own"},
		{"images/%u", "", "an absolute path"},
		{"", "", "an absolute path"},
		{"/shared/%x/%u", "", "%x stands for nothing"},
		{"/shared/%u/%", "", "% stands for nothing"},
	} {
		err := CheckImageDir(c.dir)
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault, c.dir)
			continue
		}
		require.NoError(t, err, c.dir)
		dir, err := Options{ImageDir: c.dir}.ImageDirOf("/home/bob", "bob", 1001)
		require.NoError(t, err, c.dir)
		require.Equal(t, c.want, dir)
	}
	_, err := Options{ImageDir: "%h/i"}.ImageDirOf("", "bob", 1001)
	require.ErrorContains(t, err, "HOME is \"\"")
	_, err = Options{ImageDir: "/i/%u"}.ImageDirOf("/", "../root", 1001)
	require.ErrorContains(t, err, "the user's name is")
}
