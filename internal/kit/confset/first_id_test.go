package confset

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWithoutFirstJobID(t *testing.T) {
	for _, own := range []string{"", "ClusterName=c\n", "ClusterName=c", "FirstJobId=7\n", "# slurmlet wrote FirstJobId\n"} {
		assert.Equal(t, own, string(WithoutFirstJobID([]byte(own+FirstJobID(1234)))))
		assert.Equal(t, own, string(WithoutFirstJobID([]byte(own))))
	}
}
