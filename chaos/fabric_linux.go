package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What the network of a cluster is called. Whatever has such a name is ours, and
// is removed before and after.
const (
	fabricPrefix = "handoff-chaos-"
	fabricSwitch = fabricPrefix + "switch"
	fabricLink   = "handoffchaos" // of this machine into the switch; at most 15 characters
	fabricBridge = "bridge0"
)

// network is a range that is set aside for tests of networks (RFC 2544).
const network = "198.18.77."

// fabric is a network of hosts, each a network namespace of its own, on one
// switch. This machine is on it too.
type fabric struct{ lock *os.File }

// host is a namespace with one link to the switch.
type host struct {
	name    string
	address string
	id      string // as its processes see it
}

// newFabric makes the switch and the link of this machine, once what an earlier
// run has left is gone. dir is where this one has its files.
func newFabric(dir string) (*fabric, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the cluster needs network namespaces of its own: run it as root (CAP_NET_ADMIN and CAP_SYS_ADMIN)")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("the cluster needs network namespaces of its own: install iproute2: %w", err)
	}
	lock, err := os.OpenFile("/run/"+fabricPrefix+"lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another run of the cluster is under way on this machine"), lock.Close())
	}
	f := &fabric{lock}
	err = errors.Join(f.clear(), f.forget(dir), f.run(
		"netns add "+fabricSwitch,
		"-n "+fabricSwitch+" link add name "+fabricBridge+" type bridge",
		"-n "+fabricSwitch+" link set "+fabricBridge+" up",
		"link add "+fabricLink+" type veth peer name machine netns "+fabricSwitch,
		"addr add "+network+"254/24 dev "+fabricLink,
		"link set "+fabricLink+" up",
		"-n "+fabricSwitch+" link set machine master "+fabricBridge,
		"-n "+fabricSwitch+" link set machine up",
	))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make network namespaces: %w", err), f.close())
	}
	return f, nil
}

// forget removes the files of a run that was killed, and notes where those of
// this one are.
func (f *fabric) forget(dir string) error {
	before, err := io.ReadAll(f.lock)
	if err != nil {
		return err
	}
	if left := string(before); strings.HasPrefix(left, filepath.Join(os.TempDir(), tempPrefix)) {
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	return f.note(dir)
}

func (f *fabric) note(dir string) error {
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err := f.lock.WriteAt([]byte(dir), 0)
	return err
}

// run runs commands of ip, until one fails.
func (f *fabric) run(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// clear removes everything that has our names, with the processes in it.
func (f *fabric) clear() error {
	names, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, n := range names {
		if strings.HasPrefix(n.Name(), fabricPrefix) {
			errs = append(errs, killAll(n.Name()), f.run("netns del "+n.Name()))
		}
	}
	if _, err := os.Stat("/sys/class/net/" + fabricLink); err == nil {
		// It vanishes by itself a moment after its other end has.
		_ = exec.Command("ip", "link", "del", fabricLink).Run()
	}
	return errors.Join(errs...)
}

// close removes the network.
func (f *fabric) close() error { return errors.Join(f.clear(), f.note(""), f.lock.Close()) }

// killAll kills the processes in a namespace, until there are none.
func killAll(name string) error {
	for range 200 {
		out, err := exec.Command("ip", "netns", "pids", name).Output()
		if err != nil {
			return fmt.Errorf("list processes of namespace %s: %w", name, err)
		}
		pids := strings.Fields(string(out))
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL) // it may be gone already
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("processes in namespace %s cannot be killed", name)
}

// host makes a host with the last number of its address.
func (f *fabric) host(name string, number int) (*host, error) {
	h := &host{name: name, address: network + strconv.Itoa(number)}
	ns := h.namespace()
	err := f.run(
		"netns add "+ns,
		"-n "+ns+" link set lo up",
		"link add "+name+" netns "+fabricSwitch+" type veth peer name eth0 netns "+ns,
		"-n "+ns+" addr add "+h.address+"/24 dev eth0",
		"-n "+ns+" link set eth0 up",
		"-n "+fabricSwitch+" link set "+name+" up",
		"-n "+fabricSwitch+" link set "+name+" master "+fabricBridge,
	)
	if err != nil {
		return nil, fmt.Errorf("make host %s: %w", name, err)
	}
	out, err := exec.Command("ip", append(h.exec(), "readlink", "/proc/self/ns/net")[1:]...).Output()
	h.id = strings.TrimSpace(string(out))
	return h, err
}

func (h *host) namespace() string { return fabricPrefix + h.name }

// exec is the command that runs another one on the host, as the same process.
func (h *host) exec() []string { return []string{"ip", "netns", "exec", h.namespace()} }

// cut is a way to cut a host off, and to put it back.
type cut struct{ cut, heal []string }

// silently takes the host's port off the switch: what it sends, and what is sent
// to it, vanishes, and nobody is told.
func (h *host) silently() cut {
	port := "-n " + fabricSwitch + " link set " + h.name
	return cut{[]string{port + " nomaster"}, []string{port + " master " + fabricBridge}}
}

// loudly takes the host's link down: its own programs get errors.
func (h *host) loudly() cut {
	link := "-n " + h.namespace() + " link set eth0 "
	return cut{[]string{link + "down"}, []string{link + "up"}}
}

// from cuts two hosts off from each other and from nobody else. Each gets a
// wrong hardware address for the other, so that what it sends vanishes.
func (h *host) from(other *host) cut {
	const nobody = "02:00:00:00:00:01"
	wrong := func(a, b *host) string {
		return "-n " + a.namespace() + " neigh replace " + b.address + " lladdr " + nobody + " dev eth0 nud permanent"
	}
	right := func(a, b *host) string {
		return "-n " + a.namespace() + " neigh del " + b.address + " dev eth0"
	}
	return cut{[]string{wrong(h, other), wrong(other, h)}, []string{right(h, other), right(other, h)}}
}

// process is a program of a host that is neither a node nor its agent.
type process struct {
	name    string
	command []string
	log     *os.File
	cmd     *exec.Cmd
	exited  chan struct{}
	exit    error
}

// newProcess prepares a program on a host. What it says goes to a file.
func (h *host) newProcess(log string, command ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	return &process{name: h.name, command: slices.Concat(h.exec(), command), log: file}, nil
}

func (p *process) start() error {
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	go func() {
		p.exit = cmd.Wait()
		close(exited)
	}()
	return nil
}

// alive says why there is no process, if there is none.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s has ended by itself: %w", p.name, errOr(p.exit, "without an error"))
	default:
		return nil
	}
}

// stop sends a signal and waits for the end.
func (p *process) stop(signal os.Signal) error {
	if err := p.alive(); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s does not end", p.name)
	}
}

// end ends what is left.
func (p *process) end() error {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.exited
	}
	return p.log.Close()
}
