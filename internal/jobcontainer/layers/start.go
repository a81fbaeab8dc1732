package layers

import (
	"fmt"
	"strings"
)

// Start is enroot's /etc/rc: a shell's script, which starts the command that it is given in the image's working
// directory, or else the image's own. Entrypoint and command are words as a shell reads them, each with a space before
// it.
func Start(comments []string, workdir, entrypoint, command string) string {
	var text strings.Builder
	for _, comment := range comments {
		fmt.Fprintf(&text, "# %s\n", comment)
	}
	dir := strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`").Replace(workdir)
	fmt.Fprintf(&text, `
mkdir -p "%s" 2> /dev/null
cd "%s" && unset OLDPWD || exit 1

if [ -s /etc/rc.local ]; then
    . /etc/rc.local
fi

if [ $# -gt 0 ]; then
    exec%s "$@"
else
    exec%s%s
fi
`, dir, dir, entrypoint, entrypoint, command)
	return text.String()
}

// StartLocal is /etc/rc.local, which users may write.
const StartLocal = "# /etc/rc reads this file before it starts the container's command.\n"
