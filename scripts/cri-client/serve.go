package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An answer of `serve`: times in microseconds, processes, or the error.
type answer struct {
	Steps  map[string]float64 `json:"steps,omitempty"`
	Times  []float64          `json:"times,omitempty"`
	Pids   []int              `json:"pids,omitempty"`
	Failed int                `json:"failed,omitempty"`
	Error  string             `json:"error,omitempty"`
}

// Reads commands and answers each with a line of JSON:
//
//	pod HANDLER               creates and removes a pod with one container; the answer is the time of each call
//	hold HANDLER N            creates N pods with a container each, which stay; the answer is the containers' processes
//	exec                      runs a trivial program in the first of these containers; the answer is the time
//	probe SECONDS INTERVAL    runs it in each container every INTERVAL seconds, spread evenly; the answer is the times
//	drop                      removes these pods
func serve(o options) {
	s := &server{client: connect(o)}
	// Once the client is gone, everything is removed.
	defer s.dropAll()
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		var given answer
		if err := try(func() { s.do(words, &given) }); err != nil {
			given.Error = err.Error()
		}
		if out.Encode(given) != nil {
			break
		}
	}
}

type server struct {
	*client
	pods       []pod
	containers []string
}

func (s *server) do(words []string, given *answer) {
	number := func(at int) float64 {
		if at >= len(words) {
			return 0
		}
		value, _ := strconv.ParseFloat(words[at], 64)
		return value
	}
	if len(words) > 1 && words[0] != "probe" {
		s.handler = words[1]
	}
	switch words[0] {
	case "pod":
		given.Steps = map[string]float64{}
		s.whole(given.Steps)
	case "hold":
		for range int(number(2)) {
			p := s.runPod(s.podConfig())
			s.pods = append(s.pods, p)
			id := s.running(p)
			s.containers = append(s.containers, id)
			given.Pids = append(given.Pids, s.pidOf(id))
		}
	case "exec":
		if len(s.containers) == 0 {
			check(errors.New("no pod is held"))
		}
		given.Times = []float64{s.execIn(s.containers[0])}
	case "probe":
		s.probe(number(1), number(2), given)
	case "drop":
		s.dropAll()
	default:
		check(fmt.Errorf("no command %q", words[0]))
	}
}

func microseconds(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1e3 }

// The times of steps, in microseconds.
type steps map[string]float64

func (s steps) time(name string, step func()) {
	start := time.Now()
	step()
	s[name] = microseconds(start)
}

// Creates and removes a pod with one container.
func (c *client) whole(t steps) {
	var p pod
	var id string
	begin := time.Now()
	err := try(func() {
		t.time("RunPodSandbox", func() { p = c.runPod(c.podConfig()) })
		t.time("CreateContainer", func() { id = c.create(p, sleeps) })
		t.time("StartContainer", func() { c.start(id) })
		t["pod and container up"] = microseconds(begin)
		t.time("StopContainer", func() { c.stop(id) })
		t.time("RemoveContainer", func() { c.remove(id) })
		t.time("StopPodSandbox", func() { c.stopPod(p) })
		t.time("RemovePodSandbox", func() { c.removePod(p) })
		t["whole pod"] = microseconds(begin)
	})
	if err != nil && p.id != "" {
		_ = try(func() { c.drop(p) })
	}
	check(err)
}

func (s *server) probe(seconds, interval float64, given *answer) {
	var lock sync.Mutex
	var all sync.WaitGroup
	every := time.Duration(interval * float64(time.Second))
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for at, id := range s.containers {
		// Kubelet spreads them randomly; here they are spread evenly, which is reproducible.
		first := time.Now().Add(every * time.Duration(at) / time.Duration(len(s.containers)))
		all.Go(func() {
			for due := first; due.Before(end); due = due.Add(every) {
				time.Sleep(time.Until(due))
				var took float64
				err := try(func() { took = s.execIn(id) })
				lock.Lock()
				if err != nil {
					given.Failed++
					given.Error = err.Error()
				} else {
					given.Times = append(given.Times, took)
				}
				lock.Unlock()
			}
		})
	}
	all.Wait()
}

func (s *server) dropAll() {
	var all error
	for _, p := range s.pods {
		all = errors.Join(all, try(func() { s.drop(p) }))
	}
	s.pods, s.containers = nil, nil
	check(all)
}

// Creates and removes pods with a container each, or containers in one pod, a given number at a time. Prints a line
// after each hundredth of them.
func churn(o options) {
	c := connect(o)
	do := func() { c.whole(steps{}) }
	if o.one {
		p := c.runPod(c.podConfig())
		defer c.drop(p)
		do = func() {
			id := c.running(p)
			c.execIn(id)
			c.stop(id)
			c.remove(id)
		}
	}
	var next, done, failed atomic.Int64
	var all sync.WaitGroup
	var once sync.Once
	var first error
	start := time.Now()
	for range o.width {
		all.Go(func() {
			for next.Add(1) <= int64(o.count) {
				if err := try(do); err != nil {
					failed.Add(1)
					fmt.Printf("after %.1f s: %v\n", time.Since(start).Seconds(), err)
					once.Do(func() { first = err })
				}
				if count := done.Add(1); count%max(int64(o.count)/100, 1) == 0 {
					fmt.Printf("%d done, %d failed, %.1f s\n", count, failed.Load(), time.Since(start).Seconds())
				}
			}
		})
	}
	all.Wait()
	if first != nil {
		check(fmt.Errorf("%d of %d failed, the first: %w", failed.Load(), o.count, first))
	}
}
