package slurm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseUsersJobs(t *testing.T) {
	jobs, err := parseUsersJobs("7 2001 R ada\n8_[1-9] 2001 PD ada\n8_3 2001 R ada\n9+1 2002 R a b\n10 2003 CG 2003\n11 2003 PD 2003\n")
	require.NoError(t, err)
	require.Equal(t, []UsersJob{{"7", 2001, "ada"}, {"8", 2001, "ada"}, {"9", 2002, "a b"}, {"11", 2003, "2003"}}, jobs)
	for _, bad := range []string{"7 2001 R", "x 2001 R ada\n", "7 ada R ada\n", "slurm_load_jobs error: nobody\n"} {
		_, err := parseUsersJobs(bad)
		require.Error(t, err, bad)
	}
}
