package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// statOf returns the fields of a process from its state on, as /proc/PID/stat
// has them.
func statOf(pid int) ([]string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return nil, fmt.Errorf("process %d has no CPU time", pid)
	}
	return fields, nil
}

// cpuOf returns the seconds of CPU that a process has used, with those of its
// children that have ended or without.
func cpuOf(pid int, children bool) (float64, error) {
	fields, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	last := 13
	if children {
		last = 15
	}
	return ticks(fields[11:last])
}

func parentOf(pid int) int {
	fields, err := statOf(pid)
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// ticks returns a sum of times of the kernel in seconds.
func ticks(fields []string) (float64, error) {
	sum := 0.0
	for _, f := range fields {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum / 100, nil
}

// busy returns the seconds of CPU that everybody on the machine has used.
func busy() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0, errors.New("no CPU time of the machine")
	}
	all, err := ticks(fields[1:4]) // user, nice, system
	if err != nil {
		return 0, err
	}
	interrupts, err := ticks(fields[6:9]) // irq, softirq, steal
	return all + interrupts, err
}
