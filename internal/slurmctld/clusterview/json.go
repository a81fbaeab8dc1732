package clusterview

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// longestJSON bounds an answer that is read as one.
const longestJSON = 64 << 20

// answer is what the answers of Slurm's commands to --json have in common.
type answer struct {
	Meta struct {
		Slurm struct {
			Release string `json:"release"`
			Cluster string `json:"cluster"`
		} `json:"slurm"`
	} `json:"meta"`
	Errors []struct {
		Description string `json:"description"`
		Error       string `json:"error"`
	} `json:"errors"`
}

func (t *answer) err() error {
	if len(t.Errors) == 0 {
		return nil
	}
	return errors.New(strings.TrimSpace(t.Errors[0].Description + " " + t.Errors[0].Error))
}

// readJSON reads one value and nothing after it.
func readJSON(from io.Reader, value any) error {
	text, err := io.ReadAll(io.LimitReader(from, longestJSON))
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(text, value)
}

// number is one of Slurm's JSON: 5, or {"set": true, "infinite": false, "number": 5}. Fields
// change from one form to the other between Slurm's versions.
type number struct {
	value int64
	// there: the object has the field.
	there bool
}

// UnmarshalJSON reads either form.
func (n *number) UnmarshalJSON(text []byte) error {
	n.there = true
	if len(text) > 0 && text[0] != '{' {
		var value *int64
		if err := json.Unmarshal(text, &value); err != nil || value == nil {
			return fmt.Errorf("want a number, not %s", text)
		}
		n.value = *value
		return nil
	}
	var long struct {
		Set      *bool  `json:"set"`
		Infinite bool   `json:"infinite"`
		Number   *int64 `json:"number"`
	}
	if err := json.Unmarshal(text, &long); err != nil {
		return err
	}
	if long.Set == nil || long.Number == nil {
		return fmt.Errorf("want a number, not %s", text)
	}
	if *long.Set && !long.Infinite {
		n.value = *long.Number
	}
	return nil
}
