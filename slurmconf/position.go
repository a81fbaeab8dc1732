package slurmconf

import "strconv"

// Position is where in the files something stands.
type Position struct {
	// File is relative to the configuration directory, or absolute.
	File string `json:"file"`
	// Line counts from 1; 0 is the file as a whole.
	Line int `json:"line,omitempty"`
	// Column counts bytes from 1; 0 is the line as a whole.
	Column int `json:"column,omitempty"`
}

// String is file:line:column, as compilers write it.
func (p Position) String() string {
	text := p.File
	if p.Line > 0 {
		text += ":" + strconv.Itoa(p.Line)
		if p.Column > 0 {
			text += ":" + strconv.Itoa(p.Column)
		}
	}
	return text
}
