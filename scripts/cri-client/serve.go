package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
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
func serve(o options) error {
	c, err := connect(o)
	if err != nil {
		return err
	}
	s := &server{client: c}
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		given, err := s.do(words)
		if err != nil {
			given.Error = err.Error()
		}
		if err := out.Encode(given); err != nil {
			break
		}
	}
	// The client is gone: everything is removed.
	_, err = s.dropAll()
	return err
}

type server struct {
	*client
	pods       []pod
	containers []string
}

func (s *server) do(words []string) (answer, error) {
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
		return s.whole()
	case "hold":
		return s.hold(int(number(2)))
	case "exec":
		return s.execOne()
	case "probe":
		return s.probe(number(1), number(2))
	case "drop":
		return s.dropAll()
	}
	return answer{}, fmt.Errorf("no command %q", words[0])
}

// Measures the times of consecutive steps.
type steps struct {
	took  map[string]float64
	begin time.Time
	err   error
}

func (s *steps) do(name string, step func() error) {
	if s.err != nil {
		return
	}
	start := time.Now()
	s.err = step()
	s.took[name] = float64(time.Since(start).Nanoseconds()) / 1e3
}

func (s *server) whole() (answer, error) {
	var p pod
	var id string
	t := steps{took: map[string]float64{}, begin: time.Now()}
	t.do("RunPodSandbox", func() (err error) { p, err = s.runPod(s.podConfig()); return })
	t.do("CreateContainer", func() (err error) {
		id, err = s.create(p, s.containerConfig(p, []string{"/bin/sleep", "1000000"}))
		return
	})
	t.do("StartContainer", func() error { return s.start(id) })
	t.took["pod and container up"] = float64(time.Since(t.begin).Nanoseconds()) / 1e3
	t.do("StopContainer", func() error { return s.stop(id, 0) })
	t.do("RemoveContainer", func() error { return s.remove(id) })
	t.do("StopPodSandbox", func() error { return s.stopPod(p) })
	t.do("RemovePodSandbox", func() error { return s.removePod(p) })
	t.took["whole pod"] = float64(time.Since(t.begin).Nanoseconds()) / 1e3
	if t.err != nil && p.id != "" {
		_ = s.drop(p)
	}
	return answer{Steps: t.took}, t.err
}

func (s *server) hold(count int) (answer, error) {
	var given answer
	for range count {
		p, err := s.runPod(s.podConfig())
		if err != nil {
			return given, err
		}
		s.pods = append(s.pods, p)
		id, err := s.create(p, s.containerConfig(p, []string{"/bin/sleep", "1000000"}))
		if err == nil {
			err = s.start(id)
		}
		if err != nil {
			return given, err
		}
		s.containers = append(s.containers, id)
		pid, err := s.pidOf(id)
		if err != nil {
			return given, err
		}
		given.Pids = append(given.Pids, pid)
	}
	return given, nil
}

func (s *server) execOne() (answer, error) {
	if len(s.containers) == 0 {
		return answer{}, fmt.Errorf("no pod is held")
	}
	took, err := s.execIn(s.containers[0])
	return answer{Times: []float64{took}}, err
}

func (s *server) execIn(id string) (float64, error) {
	start := time.Now()
	got, err := s.exec(id, 10, "/bin/true")
	if err == nil && got.ExitCode != 0 {
		err = fmt.Errorf("exit code %d", got.ExitCode)
	}
	return float64(time.Since(start).Nanoseconds()) / 1e3, err
}

func (s *server) probe(seconds, interval float64) (answer, error) {
	var given answer
	var lock sync.Mutex
	var all sync.WaitGroup
	every := time.Duration(interval * float64(time.Second))
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for at, id := range s.containers {
		all.Add(1)
		// Kubelet spreads them randomly; here they are spread evenly, which is reproducible.
		first := time.Now().Add(every * time.Duration(at) / time.Duration(len(s.containers)))
		go func() {
			defer all.Done()
			for due := first; due.Before(end); due = due.Add(every) {
				time.Sleep(time.Until(due))
				took, err := s.execIn(id)
				lock.Lock()
				if err != nil {
					given.Failed++
					given.Error = err.Error()
				} else {
					given.Times = append(given.Times, took)
				}
				lock.Unlock()
			}
		}()
	}
	all.Wait()
	return given, nil
}

func (s *server) dropAll() (answer, error) {
	var first error
	for _, p := range s.pods {
		if err := s.drop(p); err != nil && first == nil {
			first = err
		}
	}
	s.pods, s.containers = nil, nil
	return answer{}, first
}
