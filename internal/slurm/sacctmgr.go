package slurm

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
)

// sacctmgr is a command of sacctmgr(1), which is beside scontrol.
func (s Scontrol) sacctmgr(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.Path), "sacctmgr"), args...)
}

// AccountingRows asks "sacctmgr show" for columns. The last one may have bars in it. A slurmdbd whose database is away leads
// to no rows and to no error: an empty answer is no answer where there must be a row.
func (s Scontrol) AccountingRows(ctx context.Context, columns []string, show ...string) (rows [][]string, err error) {
	args := append([]string{"--noheader", "--parsable2", "show"}, show...)
	what := "sacctmgr show " + strings.Join(show, " ")
	out, err := s.command(ctx, what, s.sacctmgr(ctx, append(args, "format="+strings.Join(columns, ","))...))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		text, whole := strings.CutSuffix(line, "\n")
		row := strings.SplitN(text, "|", len(columns))
		if len(row) != len(columns) || !whole {
			return nil, errors.New("cannot read the answer of " + what + ": it is cut off in a line: " + line)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Coordinators asks "sacctmgr show accounts" for those who coordinate each account itself. They are not there for an
// account above it.
func (s Scontrol) Coordinators(ctx context.Context) (map[string][]string, error) {
	var answer struct {
		Accounts []struct {
			Name         string `json:"name"`
			Coordinators []struct {
				Name   string `json:"name"`
				Direct bool   `json:"direct"`
			} `json:"coordinators"`
		} `json:"accounts"`
	}
	const what = "sacctmgr show accounts"
	out, err := s.command(ctx, what, s.sacctmgr(ctx, "--json", "show", "accounts", "withcoordinators"))
	if err == nil {
		err = read(what, out, &answer)
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, a := range answer.Accounts {
		all[a.Name] = nil
		for _, c := range a.Coordinators {
			if c.Direct {
				all[a.Name] = append(all[a.Name], c.Name)
			}
		}
	}
	return all, nil
}

// ChangeAccounting has one sacctmgr make all changes, one command a line. It goes on after a command that fails, and what it
// says does not tell which one that was: whoever wants to know asks for the rows.
func (s Scontrol) ChangeAccounting(ctx context.Context, commands []string) error {
	cmd := s.sacctmgr(ctx, "--immediate", "--quiet")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	_, err := s.command(ctx, "sacctmgr", cmd)
	return err
}

// ChangeAccount makes one change. Its error has sacctmgr's words.
func (s Scontrol) ChangeAccount(ctx context.Context, command string) error {
	_, err := s.command(ctx, "sacctmgr "+command, s.sacctmgr(ctx, append([]string{"--immediate", "--quiet"}, Words(command)...)...))
	return err
}

// Words are the arguments of a command in which " stands around texts with blanks.
func Words(command string) (all []string) {
	var word strings.Builder
	quoted, begun := false, false
	for _, c := range command {
		switch {
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		all = append(all, word.String())
	}
	return all
}
