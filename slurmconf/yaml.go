package slurmconf

func (p *parser) yaml(string) {}
