package releases

import (
	"io/fs"
	"path"
	"slices"
)

// Find is the version of a program of Slurm's on the file system root. said is what the program says of itself,
// "24.11.5", or empty. Debian's revision is in dpkg's database, where the program's package has that release. What
// lies elsewhere than Debian's packages is judged by what it says. The zero Version is one that nobody tells.
func Find(root fs.FS, program, said string) Version {
	v, _ := Parse(said)
	if !slices.Contains([]string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"}, path.Dir(program)) {
		return v
	}
	name := path.Base(program)
	if name == "scontrol" {
		name = "slurm-client"
	}
	packaged, err := Parse(Installed(root, name))
	if err != nil || v.Line != "" && v.Release() != packaged.Release() {
		return v
	}
	return packaged
}
