package sshd

// firstUID is the first of people's uids.
const firstUID = 1000

// Owners are the uids of people who have processes, each with the name by which the person is logged in, empty for a process
// that outlives its session.
func Owners(root string) (map[int]string, error) {
	all, err := processes(root)
	if err != nil {
		return nil, err
	}
	sessions, err := Sessions(root)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, s := range sessions {
		names[s.PID] = s.User
	}
	owners := map[int]string{}
	for _, p := range all {
		owner := uid(root, p.pid)
		if owner < firstUID {
			continue
		}
		if name := names[p.parent]; name != "" || owners[owner] == "" {
			owners[owner] = name
		}
	}
	return owners, nil
}

// ProcessesOf are the processes of a person's uid.
func ProcessesOf(root string, owner int) (pids []int, err error) {
	if owner < firstUID {
		return nil, nil
	}
	all, err := processes(root)
	for _, p := range all {
		if IsOf(root, p.pid, owner) {
			pids = append(pids, p.pid)
		}
	}
	return pids, err
}

// IsOf says whether a process is of a uid, as its real one.
func IsOf(root string, pid, owner int) bool { return uid(root, pid) == owner }
