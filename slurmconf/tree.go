package slurmconf

// DefaultTree is how many nodes a message of slurmctld's reaches through three slurmds at most,
// with Slurm's default TreeWidth of 16 (slurm.conf(5)).
const DefaultTree = 16 + 16*16 + 16*16*16

// TreeWidth is the least with which a message of slurmctld's reaches so many nodes through three
// slurmds at most, and no less than Slurm's default.
func TreeWidth(nodes int) int {
	width := 16
	for width+width*width+width*width*width < nodes {
		width++
	}
	return width
}
