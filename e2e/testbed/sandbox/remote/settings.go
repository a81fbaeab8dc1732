package remote

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// settingsFile is what a server is told, in its directory, beside its keys.
const settingsFile = "settings.json"

// WriteSettings puts them into a server's directory.
func WriteSettings(dir string, settings any) error {
	data, err := json.Marshal(settings)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, settingsFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write settings: %v", err)
	}
	return nil
}

// ReadSettings reads what WriteSettings wrote.
func ReadSettings[T any](dir string) (settings T, err error) {
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err == nil {
		err = json.Unmarshal(data, &settings)
	}
	if err != nil {
		return settings, fmt.Errorf("cannot read settings: %v", err)
	}
	return settings, nil
}
