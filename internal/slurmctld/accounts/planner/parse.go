package planner

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// File has what a file of accounts says.
type File struct {
	Tables
	// Confirm is the number of removals that the file confirms, 0 for none.
	Confirm int
	name    string
}

// MostFile bounds a file, in bytes.
const MostFile = 8 << 20

// Parse reads a file of YAML. The findings are all that is wrong with it by itself.
func Parse(name string, content []byte) (File, slurmconf.Findings) {
	r := reader{file: File{Tables: Tables{}, name: name}}
	var document yaml.Node
	switch err := yaml.Unmarshal(content, &document); {
	case len(content) > MostFile:
		r.fault(nil, fmt.Sprintf("the file has %d bytes", len(content)), fmt.Sprintf("at most %d", MostFile))
	case err != nil:
		r.fault(nil, strings.TrimPrefix(err.Error(), "yaml: "), "YAML")
	case len(document.Content) == 0:
		r.fault(nil, "the file is empty", "accounts, users or qos")
	default:
		r.root(document.Content[0])
	}
	r.compareNames()
	r.findings.Sort()
	return r.file, r.findings
}

type reader struct {
	file     File
	findings slurmconf.Findings
}

func (r *reader) fault(n *yaml.Node, what, want string) {
	f := slurmconf.Finding{Severity: slurmconf.Error, Rule: "accounts", What: what, Want: want}
	f.File = r.file.name
	if n != nil {
		f.Line = n.Line
	}
	r.findings = append(r.findings, f)
}

// pairs are the keys and values of a mapping; a list of names is one of names without values, and null has none.
func (r *reader) pairs(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	n = followed(n)
	switch {
	case n == nil || n.Tag == "!!null":
	case n.Kind == yaml.MappingNode:
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if line := seen[key.Value]; line != 0 {
				r.fault(key, fmt.Sprintf("%s: %q is in line %d, too", what, key.Value, line), "it once")
				continue
			}
			seen[key.Value] = key.Line
			each(key, followed(n.Content[i+1]))
		}
	case n.Kind == yaml.SequenceNode && what != "the file":
		for _, one := range n.Content {
			each(followed(one), nil)
		}
	default:
		r.fault(n, fmt.Sprintf("%s: %q is no mapping", what, n.Value), "names, each with a colon and what it has")
	}
}

// followed returns what an alias stands for.
func followed(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (r *reader) root(n *yaml.Node) {
	r.pairs(n, "the file", func(key, value *yaml.Node) {
		switch key.Value {
		case "qos":
			r.entities(value, QOS)
		case "accounts":
			r.entities(value, Account)
		case "users":
			r.pairs(value, "users", r.readUser)
		case "confirm":
			count, err := strconv.Atoi(value.Value)
			if err != nil || count < 0 {
				r.fault(value, fmt.Sprintf("confirm: cannot use %q", value.Value), "how many entities are to be removed")
			}
			r.file.Confirm = count
		default:
			r.fault(key, fmt.Sprintf("unknown key %q", key.Value), "qos, accounts, users or confirm")
		}
	})
}

func (r *reader) entities(n *yaml.Node, kind Kind) {
	r.pairs(n, string(kind), func(key, value *yaml.Node) {
		if !r.isNamed(key, kind) {
			return
		}
		if kind == Account && key.Value == "root" {
			r.fault(key, `account "root" is slurmdbd's own`, "another name")
			return
		}
		r.attributes(r.add(key, Key{Kind: kind, Name: key.Value}), kind, value, nil)
	})
}

// isNamed reports a name that slurmdbd does not keep as it is.
func (r *reader) isNamed(key *yaml.Node, kind Kind) bool {
	if key.Kind == yaml.ScalarNode && isName(key.Value) && key.Value == strings.ToLower(key.Value) {
		return true
	}
	r.fault(key, fmt.Sprintf("%s: cannot use the name %q", kind, key.Value), "small letters, digits, and . _ - @ + but at its begin")
	return false
}

func (r *reader) add(at *yaml.Node, k Key) *Entity {
	e := &Entity{Values: map[string]string{}, Line: at.Line}
	if old := r.file.Tables[k]; old != nil {
		r.fault(at, fmt.Sprintf("%s is in line %d, too", k, old.Line), "it once")
	}
	r.file.Tables[k] = e
	return e
}

// attributes reads an entity's. other takes a key that is none, and says whether it knows it.
func (r *reader) attributes(e *Entity, kind Kind, n *yaml.Node, other func(key, value *yaml.Node) bool) {
	r.pairs(n, string(kind), func(key, value *yaml.Node) {
		if other != nil && other(key, value) {
			return
		}
		a := find(kind, key.Value)
		if a == nil {
			r.fault(key, fmt.Sprintf("%s: unknown key %q", kind, key.Value), "one of "+names(kind))
			return
		}
		given, readable := scalar(value)
		canonical, err := a.canonical(given)
		switch _, twice := e.Values[a.Name]; {
		case twice:
			r.fault(key, fmt.Sprintf("%s is given twice", a.Name), "it once")
		case !readable:
			r.fault(key, a.Name+": the value is neither a word nor a list", "one of them")
		case err != nil:
			r.fault(key, fmt.Sprintf("%s: cannot use %q", a.Name, given), err.Error())
		case canonical == "" && a.stays:
			r.fault(key, a.Name+": the value is empty", "one, or no such key")
		default:
			e.Values[a.Name] = canonical
		}
	})
}

// scalar is a value in sacctmgr's spelling: a list's members, and a mapping's pairs, have commas between them.
func scalar(n *yaml.Node) (value string, readable bool) {
	if n == nil || n.Tag == "!!null" {
		return "", true
	}
	var each []string
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, true
	case yaml.SequenceNode:
		for _, one := range n.Content {
			each = append(each, followed(one).Value)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			each = append(each, n.Content[i].Value+"="+followed(n.Content[i+1]).Value)
		}
	default:
		return "", false
	}
	return strings.Join(each, ","), true
}

// readUser reads "name: account", or a mapping with the user's attributes and its accounts. Limits beside the accounts are those
// of each association that has none of its own.
func (r *reader) readUser(key, value *yaml.Node) {
	if !r.isNamed(key, User) {
		return
	}
	if key.Value == "root" {
		r.fault(key, `user "root" is slurmdbd's own`, "another name")
		return
	}
	user := r.add(key, Key{Kind: User, Name: key.Value})
	if value != nil && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
		if r.isNamed(value, Account) {
			user.Values["DefaultAccount"] = value.Value
			r.add(value, Key{Association, key.Value, value.Value, ""})
		}
		return
	}
	shared := &Entity{Values: map[string]string{}}
	var accounts *yaml.Node
	limits := &yaml.Node{Kind: yaml.MappingNode}
	r.attributes(user, User, value, func(name, v *yaml.Node) bool {
		switch {
		case strings.EqualFold(name.Value, "Accounts"):
			accounts = v
		case find(Association, name.Value) != nil:
			limits.Content = append(limits.Content, name, v)
		default:
			return false
		}
		return true
	})
	r.attributes(shared, Association, limits, nil)
	all := map[string]bool{}
	r.pairs(accounts, "Accounts of user "+key.Value, func(account, v *yaml.Node) {
		if r.isNamed(account, Account) && r.associations(key.Value, account, v, shared) {
			all[account.Value] = true
		}
	})
	r.defaultAccount(key, user, shared, all)
}

// associations adds a user's with an account: one, or one for each of Partitions. It says whether there is one.
func (r *reader) associations(user string, account, value *yaml.Node, shared *Entity) bool {
	own := &Entity{Values: map[string]string{}}
	partitions := []*yaml.Node{nil}
	r.attributes(own, Association, value, func(name, v *yaml.Node) bool {
		if !strings.EqualFold(name.Value, "Partitions") {
			return false
		}
		partitions = nil
		r.pairs(v, "Partitions", func(one, _ *yaml.Node) {
			if isName(one.Value) {
				partitions = append(partitions, one)
				return
			}
			r.fault(one, fmt.Sprintf("Partitions: cannot use the name %q", one.Value), "a partition's name")
		})
		return true
	})
	for _, p := range partitions {
		k := Key{Association, user, account.Value, ""}
		if p != nil {
			k.Partition = p.Value
		}
		e := r.add(account, k)
		maps.Copy(e.Values, shared.Values)
		maps.Copy(e.Values, own.Values)
	}
	return len(partitions) > 0
}

// defaultAccount gives a user with one account that one, and the default account an association. all are the accounts that
// have one.
func (r *reader) defaultAccount(key *yaml.Node, user, shared *Entity, all map[string]bool) {
	given := user.Values["DefaultAccount"]
	switch {
	case given != "" && !all[given]:
		r.add(key, Key{Association, key.Value, given, ""}).Values = shared.Values
	case given == "" && len(all) == 1:
		for account := range all {
			user.Values["DefaultAccount"] = account
		}
	case given == "":
		r.fault(key, fmt.Sprintf("user %s has %d accounts and no DefaultAccount", key.Value, len(all)), "DefaultAccount")
	}
}
