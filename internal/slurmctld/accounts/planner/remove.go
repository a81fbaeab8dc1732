package planner

import (
	"fmt"
	"slices"
	"strings"
)

// remove plans what goes: associations first, then accounts from the leaves of their tree, then QOS.
func (c *compared) remove() {
	c.inOrder = order(c.now)
	kept := slices.Clone(c.inOrder)
	slices.Reverse(kept)
	going := map[Key]bool{}
	for _, k := range kept {
		if k.Kind == Association && c.goes(k) {
			going[k] = true
		}
	}
	for _, k := range kept {
		if k.Kind != Account || !c.goes(k) {
			continue
		}
		if why := c.holds(k, going); why != "" {
			c.plan.Keeps = append(c.plan.Keeps, k.String()+" stays: "+why)
			continue
		}
		going[k] = true
	}
	for _, k := range kept {
		if k.Kind != QOS || !c.goes(k) {
			continue
		}
		if why := c.uses(k.Name, going); why != "" {
			c.plan.Keeps = append(c.plan.Keeps, k.String()+" stays: "+why)
			continue
		}
		going[k] = true
	}
	for _, kind := range []Kind{Association, Account, QOS} {
		for _, k := range kept {
			if going[k] && k.Kind == kind {
				c.plan.Changes = append(c.plan.Changes, Change{Key: k, Verb: "delete"})
			}
		}
	}
	c.plan.Removals, c.plan.Removed = len(going), c.plan.removed()
	c.wholeUsers(going)
	c.plan.Confirm = c.prune && len(going) > 0 || TooMany(len(going), c.record.created())
}

// TooMany says whether so many of all are more than go without a confirmation: 5 %, and at least 3.
func TooMany(count, all int) bool { return count >= 3 && count*20 > all }

// goes says whether an entity of slurmdbd is to be removed, as far as it alone is concerned.
func (c *compared) goes(k Key) bool {
	if c.file.Tables[k] != nil || k.Name == "root" || k.Kind == QOS && k.Name == "normal" {
		return false
	}
	made := c.record.Made[k.String()]
	return c.prune || made != nil && made.Created
}

// holds says why an account stays: sacctmgr would remove all below it.
func (c *compared) holds(account Key, going map[Key]bool) string {
	for _, k := range c.inOrder {
		if going[k] {
			continue
		}
		if k.Kind == Association && k.Account == account.Name || k.Kind == Account && c.parent(k) == account.Name {
			return k.String() + " is below it, and is not to be removed"
		}
	}
	for k, e := range c.file.Tables {
		if k.Kind == Association && k.Account == account.Name || k.Kind == Account && e.Values["Parent"] == account.Name {
			return k.String() + " of the file is below it"
		}
	}
	return ""
}

// parent is an account's after the plan.
func (c *compared) parent(k Key) string {
	if e := c.file.Tables[k]; e != nil && e.Values["Parent"] != "" {
		return e.Values["Parent"]
	}
	return c.now.value(k, "Parent")
}

// uses says who has a QOS that would go.
func (c *compared) uses(qos string, going map[Key]bool) string {
	for _, k := range c.inOrder {
		if going[k] || k.Kind == QOS && k.Name == qos {
			continue
		}
		for _, name := range []string{"QOS", "DefaultQOS", "Preempt"} {
			value, given := "", false
			if e := c.file.Tables[k]; e != nil {
				value, given = e.Values[name]
			}
			if !given && c.valueMade(k, name) == "" {
				value = c.now.value(k, name)
			}
			if slices.Contains(elements(value), qos) {
				return k.String() + " has it in " + name
			}
		}
	}
	return ""
}

// wholeUsers has users who lose all of their associations go as users: sacctmgr removes no default account alone.
func (c *compared) wholeUsers(going map[Key]bool) {
	left := map[string]int{}
	for k := range c.now {
		if k.Kind == Association && !going[k] {
			left[k.Name]++
		}
	}
	for k := range c.file.Tables {
		if k.Kind == Association {
			left[k.Name]++
		}
	}
	done := map[string]bool{}
	c.plan.Changes = slices.DeleteFunc(c.plan.Changes, func(change Change) bool {
		if change.Verb != "delete" || change.Kind != Association || left[change.Name] > 0 {
			return false
		}
		seen := done[change.Name]
		done[change.Name] = true
		return seen
	})
	for i := range c.plan.Changes {
		if change := &c.plan.Changes[i]; change.Verb == "delete" && change.Kind == Association && left[change.Name] == 0 {
			change.whole = true
		}
	}
}

// mostRemoved are the entities that Plan.Removed names.
const mostRemoved = 20

func (p *Plan) removed() string {
	var all []string
	for i := range p.Changes {
		if p.Changes[i].Verb == "delete" {
			all = append(all, p.Changes[i].String())
		}
	}
	if more := len(all) - mostRemoved; more > 0 {
		all = append(all[:mostRemoved:mostRemoved], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
