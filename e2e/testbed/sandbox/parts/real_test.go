package parts

import (
	"os"
	"testing"
)

// TestRealParts fills the cache for real: SLURMLET_PARTS=1 go test -run TestRealParts -timeout 1h -v .
func TestRealParts(t *testing.T) {
	if os.Getenv("SLURMLET_PARTS") == "" {
		t.Skip("SLURMLET_PARTS is not set: it downloads 300 MB and takes 9 CPU minutes")
	}
	if err := Install(t.Context(), t.Logf, "kernel", "root"); err != nil {
		t.Fatal(err)
	}
	for _, v := range Versions() {
		root, err := Root(t.Context(), v, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(root)
	}
	kernel, err := Kernel(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(kernel)
}
