package devices

import (
	"slices"
	"strings"
)

// fields reads lines of "Name: value", or "name value", as drivers write them.
// The first of a name counts.
func fields(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, separator)
		name = strings.TrimSpace(name)
		if _, twice := all[name]; found && !twice {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all
}

// maxType bounds what a driver's garbage can make of a type.
const maxType = 63

// typeName makes a product's name into a type as Slurm's AutoDetect does, in
// lower case with underscores for spaces. What has a meaning of its own in
// Gres= becomes an underscore too.
func typeName(product string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(product) {
		if !strings.ContainsRune(lower+"-.", r) {
			r = '_'
		}
		if r != '_' || !strings.HasSuffix(b.String(), "_") {
			b.WriteRune(r)
		}
		if b.Len() == maxType {
			break
		}
	}
	return strings.Trim(b.String(), "_-.")
}

const lower = "abcdefghijklmnopqrstuvwxyz0123456789"

func sorted(numbers []int) []int {
	slices.Sort(numbers)
	return numbers
}
