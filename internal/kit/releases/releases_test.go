package releases

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var today = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

const (
	eight = "CVE-2026-65107 CVE-2026-65108 CVE-2026-65109 CVE-2026-65138 CVE-2026-65139 CVE-2026-65140 CVE-2026-65165 CVE-2026-65168"
	two   = "task-launch-credential step-io-overflow"
)

func TestJudge(t *testing.T) {
	for version, want := range map[string]struct{ security, defect, support, by, advice string }{
		"24.11.5-4":                 {eight + " " + two, "slurmctld-reconfigure-hang slurmd-reconfigure-hang", "end-of-support", "", "26.05.5"},
		"24.11.5-4+deb13u1":         {two, "slurmctld-reconfigure-hang slurmd-reconfigure-hang", "", "Debian 2028-08", "26.05.5"},
		"24.11.5-4+deb13u12":        {two, "slurmctld-reconfigure-hang slurmd-reconfigure-hang", "", "Debian 2028-08", "26.05.5"},
		"24.11.5-4+deb13u1~bpo12+1": {two, "slurmctld-reconfigure-hang slurmd-reconfigure-hang", "", "Debian 2028-08", "26.05.5"},
		"24.11.5-4+b1":              {eight + " " + two, "slurmctld-reconfigure-hang slurmd-reconfigure-hang", "end-of-support", "", "26.05.5"},
		"24.11.7":                   {eight + " " + two, "slurmctld-reconfigure-hang slurmd-reconfigure-hang", "end-of-support", "", "26.05.5"},
		"22.05.8-4+deb12u3":         {eight + " " + two, "slurmctld-reconfigure-hang", "end-of-support", "", "23.11, then 25.05, then 26.05.5"},
		"20.11.7":                   {eight + " " + two, "slurmctld-reconfigure-hang", "end-of-support", "", "26.05.5, and Slurm's page of upgrades for the way there"},
		"23.11.4-1.2ubuntu5":        {eight + " " + two, "slurmctld-reconfigure-hang", "end-of-support", "", "25.05, then 26.05.5"},
		"25.05.8":                   {eight + " " + two, "", "", "SchedMD 2026-11", "26.05.5"},
		"25.05.9":                   {two, "", "", "SchedMD 2026-11", "26.05.5"},
		"25.11.5":                   {eight + " " + two, "slurmctld-reconfigure-hang", "", "SchedMD 2027-05", "26.05.5"},
		"25.11.8":                   {two, "", "", "SchedMD 2027-05", "26.05.5"},
		"26.05.0-0rc1":              {eight + " " + two, "", "", "SchedMD 2027-11", "26.05.5"},
		"26.05.3-1":                 {eight + " " + two, "", "", "SchedMD 2027-11", "26.05.5"},
		"26.05.4":                   {two, "", "", "SchedMD 2027-11", "26.05.5"},
		"26.05.5-1":                 {"", "", "", "SchedMD 2027-11", ""},
		"26.05.12":                  {"", "", "", "SchedMD 2027-11", ""},
		"26.11.0":                   {"", "", "", "SchedMD 2028-05", ""},
		"27.11.0":                   {"", "", "", "", ""},
		"24.11":                     {"", "", "end-of-support", "", "26.05.5"}, // the line alone tells nothing of its faults
		"26.05":                     {"", "", "", "SchedMD 2027-11", ""},
	} {
		t.Run(version, func(t *testing.T) {
			v, err := Parse(version)
			require.NoError(t, err)
			r := Judge(v, today)
			assert.Equal(t, want.security, strings.Join(r.Names(Security), " "))
			assert.Equal(t, want.defect, strings.Join(r.Names(Defect), " "))
			assert.Equal(t, want.support, strings.Join(r.Names(Support), " "))
			assert.Equal(t, want.by, strings.TrimSpace(r.MendedBy+" "+r.MendedUntil))
			assert.Equal(t, want.advice, r.Advice())
		})
	}
	assert.Equal(t, Report{}, Judge(Version{}, today))
}

// A month ends on its last day.
func TestEndOfSupport(t *testing.T) {
	for at, over := range map[string]bool{"2026-11-30T23:59:59Z": false, "2026-12-01T00:00:00Z": true, "2026-11-30T22:00:00-05:00": true} {
		now, err := time.Parse(time.RFC3339, at)
		require.NoError(t, err)
		assert.Equal(t, over, len(Judge(Version{Line: "25.05", Patch: 9}, now).Names(Support)) == 1, at)
	}
}

func TestPath(t *testing.T) {
	assert.Equal(t, []string{"25.05", "25.11", "26.05"}, Reachable("24.11"))
	assert.Equal(t, []string{"26.05", "26.11"}, Path("24.11", "26.11"), "26.11 takes nothing of 24.11")
	assert.Equal(t, []string{"26.05"}, Path("24.11", "26.05"))
	assert.Empty(t, Path("26.05", "26.05"))
	assert.Nil(t, Path("26.05", "24.11"), "a downgrade")
	assert.Nil(t, Path("26.05", "99.05"))
	for _, from := range lines {
		for _, to := range lines {
			if from.name < to.name {
				steps := Path(from.name, to.name)
				assert.Equal(t, to.name, steps[len(steps)-1])
			}
		}
	}
}

func TestRows(t *testing.T) {
	var out strings.Builder
	v, err := Parse("25.11.8")
	require.NoError(t, err)
	Judge(v, today).Rows(func(name, format string, args ...any) { fmt.Fprintf(&out, name+"\t"+format+"\n", args...) })
	assert.Equal(t, "Slurm\t25.11.8, which SchedMD mends until 2027-05\n"+
		"Advisory\ttask-launch-credential: slurmd launches tasks for a user with the credential that another user was given (mended in 26.05.5)\n"+
		"Advisory\tstep-io-overflow: an invalid length in a step's I/O overflows the heap of srun, sattach and slurmstepd (mended in 26.05.5)\n"+
		"Upgrade\tto 26.05.5\nUpgrades\tone step reaches 26.05, 26.11, 27.05\n", out.String())
}

// The tables have versions that can be read, in order, and a sentence for each fault.
func TestTables(t *testing.T) {
	for i, l := range lines {
		_, err := time.Parse("2006-01", l.end)
		require.NoError(t, err)
		require.True(t, i == 0 || lines[i-1].name < l.name && lines[i-1].end < l.end, l.name)
	}
	for _, a := range advisories {
		require.NotEmpty(t, a.What, a.Name)
		require.False(t, strings.HasSuffix(a.What, "."), a.Name)
		var last Version
		for _, text := range a.Fixed {
			v, err := Parse(text)
			require.NoError(t, err, a.Name)
			require.True(t, last.isBefore(v), a.Name)
			require.False(t, a.affects(v), "%s and %s", a.Name, text)
			last = v
		}
		require.Equal(t, a.Fixed == nil, a.only != "", a.Name)
	}
}

func TestInstalled(t *testing.T) {
	root := fstest.MapFS{
		"var/lib/dpkg/status": {Data: []byte("Package: slurmctld\nStatus: deinstall ok config-files\nVersion: 24.11.5-4\n\n" +
			"Package: slurmd\nStatus: install ok installed\nConffiles:\n /etc/default/slurmd abc\nVersion: 24.11.5-4+deb13u1\n\n" +
			"Package: slurmd-extra\nStatus: install ok installed\nVersion: 1\n")},
		"var/lib/dpkg/status.d/sackd": {Data: []byte("Package: sackd\nVersion: 26.05.5-1\nDescription: x\n y\n")},
	}
	for name, want := range map[string]string{"slurmctld": "", "slurmd": "24.11.5-4+deb13u1", "slurmd-extra": "1", "sackd": "26.05.5-1", "munge": ""} {
		assert.Equal(t, want, Installed(root, name), name)
	}
	assert.Empty(t, Installed(fstest.MapFS{}, "slurmd"))
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"24.11", "24.11.5-4+deb13u1", "26.05.0-0rc1", "24.11.05", "24.11-4", "x", "24.11.5-é", "24.11.99999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse(text)
		if err != nil {
			require.Zero(t, v)
			return
		}
		require.Equal(t, text, v.String())
		again, err := Parse(v.Release())
		require.NoError(t, err)
		require.False(t, again.isBefore(v) || v.isBefore(again))
		Judge(v, today).Advice()
	})
}

// Debian's revision counts where the program is Debian's.
func TestFind(t *testing.T) {
	root := fstest.MapFS{"var/lib/dpkg/status": {Data: []byte("Package: slurmd\nStatus: install ok installed\nVersion: 24.11.5-4+deb13u1\n\n" +
		"Package: slurm-client\nStatus: install ok installed\nVersion: 24.11.5-4\n")}}
	for _, c := range []struct{ program, said, want string }{
		{"/usr/sbin/slurmd", "24.11.5", "24.11.5-4+deb13u1"},
		{"/usr/sbin/slurmd", "", "24.11.5-4+deb13u1"},
		{"/usr/sbin/slurmd", "26.05.5", "26.05.5"}, // somebody has put another one in its place
		{"/opt/slurm/sbin/slurmd", "24.11.5", "24.11.5"},
		{"/opt/slurm/sbin/slurmd", "", ""},
		{"/usr/bin/scontrol", "24.11.5", "24.11.5-4"},
		{"/usr/sbin/slurmctld", "24.11.5", "24.11.5"},
		{"/usr/sbin/slurmctld", "no version", ""},
	} {
		assert.Equal(t, c.want, Find(root, c.program, c.said).String(), "%+v", c)
	}
}
