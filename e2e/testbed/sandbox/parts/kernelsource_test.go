package parts

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheWantedKernelElseTheNewest(t *testing.T) {
	for name, tc := range map[string]struct {
		have []string
		want string
	}{
		"the wanted one":          {[]string{"6.12", "7.2", "7.3"}, "7.2"},
		"the newest":              {[]string{"7.0", "7.10", "7.9"}, "7.10"},
		"the next major":          {[]string{"7.9", "8.0"}, "8.0"},
		"too old":                 {[]string{"6.12", "6.19"}, ""},
		"the metapackage, no one": {[]string{""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			versions := map[string]string{}
			for _, s := range tc.have {
				versions[sourcePrefix+s] = s + ".1-1"
			}
			got, ok := chooseSeries(versions)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.want != "", ok)
		})
	}
}

func TestMadison(t *testing.T) {
	const table = `linux-source-7.2 | 7.2.12-1~bpo13+1 | http://m/debian trixie-backports/main amd64 Packages
linux-source-7.2 | 7.2.11-1~bpo13+1 | http://m/debian trixie-backports/main amd64 Packages
linux-source-7.3 |  7.3~rc1-1 | http://m/debian sid/main amd64 Packages
N: something else
`
	assert.Equal(t, map[string]string{
		"linux-source-7.2": "7.2.12-1~bpo13+1",
		"linux-source-7.3": "7.3~rc1-1",
	}, parseMadison(table))
}
