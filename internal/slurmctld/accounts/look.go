// Package accounts brings slurmdbd's accounts, QOS, users and limits into step with a file, through sacctmgr(1): for
// "slurmlet accounts", and in slurmctld's pod at each edit of the file. Its planner says what is to be done.
package accounts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts/planner"
)

// Client is what sacctmgr is asked. slurm.Scontrol is one.
type Client interface {
	AccountingRows(ctx context.Context, columns []string, show ...string) ([][]string, error)
	Coordinators(ctx context.Context) (map[string][]string, error)
	ChangeAccounting(ctx context.Context, commands []string) error
	ChangeAccount(ctx context.Context, command string) error
}

// accountColumns are those of "show accounts", the others are of "show associations".
var accountColumns = []string{"Description", "Organization"}

// look asks for all that a cluster has in slurmdbd, for the users of a file, and for the names of the TRES. It returns an
// error unless the answers are certainly whole: where its database fails, slurmdbd answers with an empty list, and sacctmgr
// succeeds. What an answer lacks would be made again, and the record would have it as made here.
func look(ctx context.Context, c Client, cluster string, file *planner.File) (planner.Tables, []string, error) {
	all := planner.Tables{}
	if err := lookAssociations(ctx, c, cluster, all); err != nil {
		return nil, nil, err
	}
	if err := lookAccounts(ctx, c, cluster, all); err != nil {
		return nil, nil, err
	}
	if err := lookUsers(ctx, c, cluster, file, all); err != nil {
		return nil, nil, err
	}
	columns := planner.Columns(planner.QOS)
	columns = append(columns[1:len(columns):len(columns)], columns[0]) // the description may be any text
	rows, err := c.AccountingRows(ctx, append([]string{"Name"}, columns...), "qos")
	switch {
	case err != nil:
		return nil, nil, err
	case len(rows) == 0:
		return nil, nil, notWhole("qos", "it has no QOS")
	}
	for _, row := range rows {
		take(all, planner.Key{Kind: planner.QOS, Name: row[0]}, columns, row[1:])
	}
	known, err := lookTRES(ctx, c)
	return all, known, err
}

// notWhole is the error for an answer that lacks something.
func notWhole(show, why string) error {
	return fmt.Errorf("the answer of sacctmgr show %s is not whole, or slurmdbd has changed meanwhile: %s", show, why)
}

// place are the columns that say whose an association is.
var place = []string{"Account", "User", "Partition"}

// at is the key of an association's row. One without a user is the account's own.
func at(account, user, partition string) planner.Key {
	if user == "" {
		return planner.Key{Kind: planner.Account, Name: account}
	}
	return planner.Key{Kind: planner.Association, Name: user, Account: account, Partition: partition}
}

// lookAssociations makes the accounts and the associations.
func lookAssociations(ctx context.Context, c Client, cluster string, all planner.Tables) error {
	columns := planner.Columns(planner.Account)[len(accountColumns):] // the parent's, then limits; the comment is last
	rows, err := c.AccountingRows(ctx, slices.Concat(place, columns), "associations", "woplimits", "Cluster="+cluster)
	if err != nil {
		return err
	}
	for _, row := range rows {
		take(all, at(row[0], row[1], row[2]), columns, row[len(place):])
	}
	if all[at("root", "", "")] == nil {
		return fmt.Errorf("slurmdbd does not know the cluster %s: its associations have no account root", cluster)
	}
	return nil
}

// lookAccounts adds to the cluster's accounts what all clusters share. It asks for the associations a second time, by their
// accounts: slurmdbd answers from another query, and the two are the same when both are whole.
func lookAccounts(ctx context.Context, c Client, cluster string, all planner.Tables) error {
	rows, err := c.AccountingRows(ctx, slices.Concat(place, []string{"Cluster", "Organization", "Description"}),
		"accounts", "withassoc", "Cluster="+cluster)
	if err != nil {
		return err
	}
	coordinators, err := c.Coordinators(ctx)
	if err != nil {
		return err
	}
	twice := map[planner.Key]bool{}
	for _, row := range rows {
		k := at(row[0], row[1], row[2])
		if row[3] != cluster { // an account of another one
			continue
		}
		if twice[k] = true; all[k] == nil {
			return notWhole("associations", k.String()+" is in the accounts' answer alone")
		}
		if k.Kind != planner.Account {
			continue
		}
		names, has := coordinators[k.Name]
		if !has {
			return notWhole("accounts withcoordinators", "it has no "+k.String())
		}
		slices.Sort(names)
		take(all, k, []string{"Organization", "Description", "Coordinators"}, append(row[4:], strings.Join(names, ",")))
	}
	for k := range all {
		if !twice[k] {
			return notWhole("accounts withassoc", "it has no "+k.String())
		}
	}
	return nil
}

// mostUsers are those of one question: slurmdbd compares each of its users with each of their associations, which takes it 8
// seconds of 10,000 users, and names of 255 bytes are as many as an argument holds (MAX_ARG_STRLEN, 128 KiB).
const mostUsers = 500

// lookUsers adds the users that have an association, and those of the file. That of the default accounts is another query of
// slurmdbd's, and its failure leaves them empty: the user root has one.
func lookUsers(ctx context.Context, c Client, cluster string, file *planner.File, all planner.Tables) error {
	names := map[string]bool{}
	for _, t := range []planner.Tables{all, file.Tables} {
		for k := range t {
			if k.Kind == planner.Association && k.Name != "root" {
				names[k.Name] = true
			}
		}
	}
	columns, users := planner.Columns(planner.User), planner.Tables{}
	for some := range slices.Chunk(append(slices.Sorted(maps.Keys(names)), "root"), mostUsers-1) {
		rows, err := c.AccountingRows(ctx, append([]string{"User"}, columns...), "users", "Cluster="+cluster,
			"Names=root,"+strings.Join(some, ","))
		if err != nil {
			return err
		}
		hasRoot := false
		for _, row := range rows {
			k := planner.Key{Kind: planner.User, Name: row[0]}
			take(users, k, columns, row[1:])
			hasRoot = hasRoot || k.Name == "root" && users[k].Values["DefaultAccount"] != ""
		}
		if !hasRoot {
			return notWhole("users", "it has no user root with a default account")
		}
	}
	for k := range all {
		if k.Kind == planner.Association && users[planner.Key{Kind: planner.User, Name: k.Name}] == nil {
			return notWhole("users", "it has no user "+k.Name)
		}
	}
	maps.Copy(all, users)
	return nil
}

// lookTRES returns the names of all TRES.
func lookTRES(ctx context.Context, c Client) (known []string, err error) {
	rows, err := c.AccountingRows(ctx, []string{"Type", "Name"}, "tres")
	for _, row := range rows {
		known = append(known, strings.ToLower(strings.TrimSuffix(row[0]+"/"+row[1], "/")))
	}
	if err == nil && !slices.Contains(known, "cpu") {
		err = notWhole("tres", "it has no cpu")
	}
	return known, err
}

// take adds a row's values to an entity.
func take(all planner.Tables, k planner.Key, columns, row []string) {
	e := all[k]
	if e == nil {
		e = &planner.Entity{Values: map[string]string{}}
		all[k] = e
	}
	for i, column := range columns {
		planner.Take(e, k.Kind, column, row[i])
	}
}
