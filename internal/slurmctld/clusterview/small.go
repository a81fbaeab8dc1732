package clusterview

import (
	"io"
	"strings"
)

// readPartitions reads the answer of "scontrol --all --oneliner show partitions".
func readPartitions(from io.Reader) (all []Partition, err error) {
	err = eachRecord(from, "PartitionName", "No partitions in the system", nil, func(r *record) error {
		all = append(all, Partition{
			Name: strings.Clone(r.name), State: strings.Clone(r.must("State")), Default: r.must("Default") == "YES",
			Nodes: int(r.readNumber("TotalNodes")), CPUs: int(r.readNumber("TotalCPUs")),
		})
		return nil
	})
	return all, err
}

// readReservations reads the answer of "scontrol --oneliner show reservations".
func readReservations(from io.Reader) (all []Reservation, err error) {
	err = eachRecord(from, "ReservationName", "No reservations in the system", []string{"Comment"}, func(r *record) error {
		one := Reservation{
			Name: strings.Clone(r.name), State: strings.Clone(r.must("State")), Start: r.time("StartTime"), End: r.time("EndTime"),
			Nodes: int(r.readNumber("NodeCnt")), NodeList: strings.Clone(r.word("Nodes")), Flags: split(strings.Clone(r.word("Flags"))),
		}
		cpus := tresOf(r.must("TRES"), "cpu")
		if cpus != "" {
			r.fields["cpu"] = cpus
			one.CPUs = int(r.readNumber("cpu"))
		}
		all = append(all, one)
		return nil
	})
	return all, err
}

// readLicenses reads the answer of "scontrol --oneliner show licenses".
func readLicenses(from io.Reader) (all []License, err error) {
	err = eachRecord(from, "LicenseName", "No licenses configured", nil, func(r *record) error {
		all = append(all, License{
			Name:  strings.Clone(r.name),
			Total: int(r.readNumber("Total")), Used: int(r.readNumber("Used")), Free: int(r.readNumber("Free")),
			Reserved: int(r.readNumber("Reserved")),
		})
		return nil
	})
	return all, err
}

// split is a list with commas; nil for the empty text.
func split(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}
