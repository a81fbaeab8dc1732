package keyring

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSign: whoever accepts a ring's credentials accepts what it signs, and nobody else does.
func TestSign(t *testing.T) {
	for _, c := range []struct {
		signs, judges string
		want          bool
	}{
		{"file:a", "file:a", true},
		{"file:a", "file:b", false},
		{"file:a", "a! b", true},
		{"file:a", "a b!", false},
		{"a! b", "file:a", true},
		{"a! b", "a b!", true},
		{"a! b", "b!", false},
		{"a!", "a'!", false},
		{"a!@-1s b", "a!@-1s b", false},
		{"a!", "a@-1s b!", false},
		{"a!", "a@1h b!", true},
	} {
		t.Run(c.signs+" to "+c.judges, func(t *testing.T) {
			judge, text := ring(t, c.judges), []byte("a text")
			name, mac := ring(t, c.signs).Sign("test 1", text)
			require.Len(t, mac, MACSize)
			require.Equal(t, c.want, judge.Signed("test 1", name, text, mac, now))
			require.False(t, judge.Signed("test 2", name, text, mac, now), "another purpose")
			require.False(t, judge.Signed("test 1", name, []byte("A text"), mac, now), "another text")
			require.False(t, judge.Signed("test 1", name, text, nil, now))
			other := slices.Clone(mac)
			other[0]++
			require.False(t, judge.Signed("test 1", name, text, other, now))
		})
	}
}
