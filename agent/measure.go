package agent

import "errors"

// badDescription is a fault in what the downward-API volume holds. It can be
// mended while the container runs, which a wrong limit or variable cannot.
type badDescription struct{ error }

// measure looks at what the pod was given: the kernel's limits, the downward
// API's word on them, labels and annotations.
func (a *Agent) measure() (allotment, error) {
	info, infoErr := readPodInfo(a.Root, a.Config.PodInfo)
	given, err := readResources(a.machine, a.Config, a.told(info))
	if err != nil {
		return allotment{}, err
	}
	if a.disk.Bounded() {
		given.Disk = a.disk
	}
	shape, err := NewShape(given, a.Config.Reserve)
	if err != nil {
		return allotment{}, err
	}
	shape.Gres = a.gres.Gres.String()
	granted, grantedErr := newGranted(info, a.Config.PodInfo)
	traits, err := newTraits(info, a.Config.PodInfo)
	if err := errors.Join(infoErr, err, grantedErr); err != nil {
		return allotment{given, shape, Traits{}, granted}, badDescription{err}
	}
	return allotment{given, shape, traits, granted}, nil
}

// told is the downward API's limits as they are now. The volume's files follow
// a resize; variables cannot, so one counts only as long as the kernel's own
// limit is what it was at the container's start.
func (a *Agent) told(info podInfo) downward {
	d := a.Config.downward()
	if now, err := a.machine.Limits(); err == nil && a.atStart != nil {
		if now.Quota != a.atStart.Quota {
			d.millicores = info.limits.millicores
		}
		if now.Memory != a.atStart.Memory {
			d.memory = info.limits.memory
		}
	}
	if info.limits.millicores.Bounded() {
		d.millicores = info.limits.millicores
	}
	if info.limits.memory.Bounded() {
		d.memory = info.limits.memory
	}
	return d
}
