package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// keyOf hashes inputs, in their order, to the 12 hexadecimal digits that name
// a cache entry. Each one is preceded by its length: ("ab", "c") and
// ("a", "bc") are different.
func keyOf(inputs ...string) string {
	h := sha256.New()
	for _, s := range inputs {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
