// Package hostlist reads and writes Slurm's host lists: "node[001-010,015],login",
// as NodeName and Nodes in slurm.conf(5) and `scontrol show hostnames` take them.
//
// It answers as scontrol of 24.11 and 26.05 does, oddities included, because what
// differs is a node that is missing from a partition:
//
//   - Hosts are separated by commas, spaces, tabs and newlines, outside brackets.
//   - A bracket holds numbers and ranges. The lower number's digits are the width
//     that is padded to: [1-10] gives 1 … 10, [001-10] gives 001 … 010.
//   - A name may have several brackets, and text after the last one. The last
//     bracket varies fastest, after it the first: a[1-2]b[3-4]c[5-6] begins with
//     a1b3c5, a1b3c6, a2b3c5.
//   - Duplicates stay, in a [List]; a [Set] has each host once.
//
// It differs where Slurm would fail its user:
//
//   - More than [MaxHosts] hosts, or a name longer than [MaxName], are refused
//     before memory is taken for them. Slurm bounds only each range.
//   - A fault in a bracket that has two more behind it is an error. Slurm logs it
//     and goes on without these hosts.
//   - A number that does not fit into 64 bits is an error in brackets, and a part of
//     the name elsewhere. Slurm takes the greatest number that fits, another host.
//   - Sorting keeps all hosts. Slurm's loses some where numbers of several widths
//     overlap: of rack2-095,rack2-[96-119,96-117] it has no rack2-095 afterwards.
//
// Host lists are of one dimension, as in every cluster without a Blue Gene.
// Functions, switch{s1}, are slurmctld's to expand (25.05 and newer); here they
// are read as names.
package hostlist
