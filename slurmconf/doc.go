// Package slurmconf reads, compares and writes slurm.conf(5) and the files of
// its family, in Slurm's own grammar and with Slurm's own meaning.
//
//	src := slurmconf.Dir("/etc/slurm")
//	set, findings := slurmconf.Read(src)        // the directory, and what it includes
//	if err := findings.Err(); err != nil { … }  // what Slurm would refuse, all of it
//	conf := set.Conf(slurmconf.SlurmConf)       // slurm.conf with its Includes, in Slurm's order
//	port, ok := conf.Get("SlurmctldPort")       // port.Value, port.Position()
//	for _, node := range conf.Records("NodeName") {
//		cpus, ok := node.Get("CPUs")            // NodeName=DEFAULT counted in
//	}
//
// The types, from the bytes upwards:
//
//   - [File] is the text of one file. Nothing of it is lost: its [Line] values
//     together are the file, byte by byte, comments and blank lines included.
//   - [Line] is one line as Slurm sees it: several lines of the text, when all but
//     the last end in a backslash. It is empty, an Include, or has Pairs.
//   - [Pair] is a key and its value, with the [Position] of both in the text.
//   - [Conf] is one of Slurm's configuration files as Slurm reads it: the lines
//     of a File, with those of included files in the place of each Include.
//   - [Record] is a line of several pairs (NodeName, PartitionName …) with what it
//     takes from the DEFAULT lines before it.
//   - [Set] is all the Confs of one configuration directory.
//
// [Pair.Replace], [File.Append] and [File.Remove] edit a File and leave every other
// byte of it as it is. [Pair.Uint], [Pair.Bool] and [Pair.List] read values, and
// [Conf.Nodes], [Conf.Partitions] and their like are views of records.
//
// [Diff] lists what changes for Slurm from one Set to another.
//
// Reading never fails as a whole. What is wrong is a list of [Finding] with
// positions; an Error is what Slurm refuses, or worse, a Warning is what Slurm reads
// otherwise than it is meant. Everything else in the files is there to be used.
// Keys and values are not judged here, only grammar is.
//
// # Grammar
//
// As src/common/parse_config.c of Slurm 24.11 and 26.05 has it, which is not
// always as slurm.conf(5) says:
//
//   - # begins a comment, between quotation marks too. \# is a #, \\ is a \,
//     and a \ before any other character vanishes.
//   - A line that ends in a backslash goes on in the next one. White space and
//     a comment may follow the backslash.
//   - White space around = is ignored, so in "Feature= CPUs=4" the value of Feature
//     is "CPUs=4". An empty value is written "".
//   - Quotation marks count when the whole value is between two of them. In
//     a="b"c they are part of the value.
//   - += -= *= and /= are read, and mean = for every key.
//   - Keys are case-insensitive. One pair stands on a line, except behind a key that
//     begins a record. Of a key that is set twice the last value counts, except
//     where all count (SlurmctldHost, Prolog …).
//   - Include stands at the very beginning of a line, in capitals or not. A relative
//     name is relative to the directory of slurm.conf, whatever file includes it.
//     %c is ClusterName in lower case, which must be set before. There are no globs,
//     and white space has to follow the name.
//   - A NUL ends its line for Slurm, silently, which is a Warning. A byte order mark is
//     part of the first key. \r is white space.
//
// plugstack.conf has a grammar of its own: required or optional, a plugin and its
// arguments, or include and a pattern, relative to the file it stands in. There are no
// continuations, quotes and escapes. YAML is kept as text: see
// slurmconf/topology.
package slurmconf
