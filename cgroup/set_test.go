package cgroup

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func trim(v any) string { return fmt.Sprint(v) }

func set(t *testing.T, text string) Set {
	s, err := ParseSet(text)
	require.NoError(t, err)
	return s
}

func TestSet(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "0": "0", "0-3": "0-3", "3,1,2": "1-3", "0,0,0": "0", "8190-8191,63-64": "63-64,8190-8191",
	} {
		assert.Equal(t, want, set(t, text).String(), "%q", text)
	}
	a, b := set(t, "0-3,8"), set(t, "2-9")
	assert.Equal(t, 5, a.Len())
	assert.Equal(t, "2-3,8", a.Intersect(b).String())
	assert.Equal(t, "0-1", a.Without(b).String())
	assert.Equal(t, []int{0, 1, 2, 3, 8}, a.List())
	assert.Equal(t, a, SetOf(8, 3, 2, 1, 0, 0, -1, 1<<20))
	assert.Equal(t, []int{0, -1}, []int{a.first(), Set{}.first()})
	assert.True(t, a.Has(8))
	assert.False(t, a.Has(-1) || a.Has(4) || a.Has(1<<20))
}

func TestSetInJSON(t *testing.T) {
	out, err := json.Marshal(set(t, "1-2,7"))
	require.NoError(t, err)
	assert.JSONEq(t, `"1-2,7"`, string(out))
	var back Set
	require.NoError(t, json.Unmarshal(out, &back))
	assert.Equal(t, set(t, "1-2,7"), back)
	require.Error(t, json.Unmarshal([]byte(`"x"`), &back))
}
