package slurmconf

// Record is a line that begins with a key such as NodeName, and what it takes
// from the DEFAULT lines before it.
type Record struct {
	*Line
	Defaults *Defaults
}

// Defaults is a DEFAULT line (NodeName=DEFAULT …) and those before it, which
// count where it sets nothing.
type Defaults struct {
	*Line
	Earlier *Defaults
}

// Name is the value of the key that begins the record: of NodeName a hostlist.
func (r Record) Name() string { return r.Pairs[0].Value }

// Get is the value that counts for key: the record's own, or that of the last
// DEFAULT line before it that has one. Capitals do not matter.
func (r Record) Get(key string) (Pair, bool) {
	if pair, ok := r.Line.Get(key); ok {
		return pair, true
	}
	for d := r.Defaults; d != nil; d = d.Earlier {
		if pair, ok := d.Get(key); ok {
			return pair, true
		}
	}
	return Pair{}, false
}

// hasDefaults: DEFAULT is no name for records that begin with key, given in
// lower case.
func hasDefaults(kind Kind, key string) bool {
	return kind == SlurmConf && (key == "nodename" || key == "partitionname" || key == "frontendname")
}
