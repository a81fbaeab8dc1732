package parts

import (
	"fmt"
	"slices"
	"strings"
)

// parseConfig reads a kernel configuration or a fragment of one: CONFIG_X to
// its value, "n" for what is not set.
func parseConfig(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutSuffix(line, " is not set"); ok {
			values[strings.TrimPrefix(name, "# ")] = "n"
			continue
		}
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			values[name] = value
		}
	}
	return values
}

// checkConfig names everything that fragment asks for and config has not.
// What the fragment switches off is only there to save time: the kernel may
// keep it.
func checkConfig(fragment, config string) error {
	have := parseConfig(config)
	var missing []string
	for name, want := range parseConfig(fragment) {
		if want != "n" && have[name] != want {
			missing = append(missing, name+"="+want)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("cannot configure this kernel as needed, it refuses %s", strings.Join(missing, " "))
}
