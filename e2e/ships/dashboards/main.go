package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("o", "charts/slurm/dashboards", "the `directory` of the dashboards")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for _, d := range dashboards {
		text, err := d.json()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.file()), text, 0o644); err != nil {
			return fmt.Errorf("cannot write a dashboard: %w", err)
		}
	}
	return nil
}
