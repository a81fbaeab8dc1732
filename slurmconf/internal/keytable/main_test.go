package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const oldSource = `
static s_p_options_t other_options[] = { {"Other", S_P_STRING}, {NULL} };
s_p_options_t slurm_conf_options[] = {
	{"Gone", S_P_STRING}, /* {"Comment", S_P_STRING}, */
	{"Spaced" , S_P_UINT64},
	{.key = "Named",
	 .type = S_P_ARRAY, .handler = _parse},
	{"Fading", S_P_UINT16},
	{NULL}
};`

func TestRun(t *testing.T) {
	newSource := strings.NewReplacer(`{"Gone", S_P_STRING},`, ``, `"Fading", S_P_UINT16`, `"Fading", S_P_UINT16, _defunct_option`).Replace(oldSource)
	sources := fstest.MapFS{}
	for version, text := range map[string]string{"24.11": oldSource, "25.05": newSource, "25.11": newSource, "26.05": newSource} {
		sources[version+"/src/common/read_config.c"] = &fstest.MapFile{Data: []byte(text)}
	}
	for _, dir := range []string{"24.11/src/plugins/select/old", "26.05/src/plugins/select/new", "26.05/src/plugins/select/common", "26.05/src/plugins/auth/slurm"} {
		sources[dir+"/Makefile.am"] = &fstest.MapFile{}
	}
	for _, version := range []string{"25.05", "25.11"} {
		sources[version+"/src/plugins/select/old/Makefile.am"] = &fstest.MapFile{}
	}
	var out strings.Builder
	require.NoError(t, run(sources, &out))
	_, plugins, _ := strings.Cut(out.String(), "\nplugins\n")
	assert.Equal(t, "\tauth/slurm plugin 26.05-26.05\n\tcred/slurm plugin 26.05-26.05\n\tselect/new plugin 26.05-26.05\n\tselect/old plugin 24.11-25.11\n", plugins)
	table, _, _ := strings.Cut(out.String(), "slurm.conf NodeName\n")
	_, table, _ = strings.Cut(table, "\n")
	assert.Equal(t, `slurm.conf
	Fading defunct 25.05-26.05
	Fading uint16 24.11-24.11
	Gone string 24.11-24.11
	Named array
	Spaced uint64
`, table)
}
