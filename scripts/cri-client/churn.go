package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Creates and removes pods with a container each, or containers in one pod, a given number at a time. Prints a line
// after each hundredth of them.
func churn(o options) error {
	c, err := connect(o)
	if err != nil {
		return err
	}
	do := func(s *server) error { _, err := s.whole(); return err }
	if o.one {
		p, err := c.runPod(c.podConfig())
		if err != nil {
			return err
		}
		defer c.drop(p)
		do = func(s *server) error { return s.inside(p) }
	}
	var next, done, failed atomic.Int64
	var all sync.WaitGroup
	var once sync.Once
	var first error
	start := time.Now()
	for range o.width {
		all.Add(1)
		go func() {
			defer all.Done()
			s := &server{client: c}
			for next.Add(1) <= int64(o.count) {
				if err := do(s); err != nil {
					failed.Add(1)
					fmt.Printf("after %.1f s: %v\n", time.Since(start).Seconds(), err)
					once.Do(func() { first = err })
				}
				if count := done.Add(1); count%max(int64(o.count)/100, 1) == 0 {
					fmt.Printf("%d done, %d failed, %.1f s\n", count, failed.Load(), time.Since(start).Seconds())
				}
			}
		}()
	}
	all.Wait()
	if first != nil {
		return fmt.Errorf("%d of %d failed, the first: %w", failed.Load(), o.count, first)
	}
	return nil
}

// Runs a container in a pod, and a command in it.
func (s *server) inside(p pod) error {
	words := []string{"/bin/sleep", "1000000"}
	id, err := s.create(p, s.containerConfig(p, words))
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := s.start(id); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	if _, err := s.execIn(id); err != nil {
		return fmt.Errorf("exec in %s: %w", id, err)
	}
	if err := s.stop(id, 0); err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	if err := s.remove(id); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	return nil
}
