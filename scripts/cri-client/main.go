// A client of the CRI for benchmarks and churn: it does what a kubelet does.
//
//	cri-client serve   reads commands, one per line, and times them: for `dayfly bench shim`
//	cri-client churn   creates and removes pods by the thousand
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// The arguments that all commands have.
type options struct {
	address, handler, image, cgroup, directory string
	count, width                               int
	one                                        bool
	patience                                   time.Duration
}

func main() {
	commands := map[string]func(options){"serve": serve, "churn": churn}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cri-client serve|churn [OPTION...]")
		os.Exit(2)
	}
	var o options
	flags := flag.NewFlagSet("cri-client "+os.Args[1], flag.ExitOnError)
	flags.StringVar(&o.address, "address", "/run/containerd/containerd.sock", "the engine's `socket`")
	flags.StringVar(&o.handler, "handler", "", "the runtime's `name` in containerd's configuration")
	flags.StringVar(&o.image, "image", "", "of containers")
	flags.StringVar(&o.cgroup, "cgroup", "/dayfly-cri", "the pods' parent cgroup")
	flags.StringVar(&o.directory, "directory", os.TempDir(), "for logs")
	flags.IntVar(&o.count, "count", 100, "pods")
	flags.IntVar(&o.width, "width", 4, "pods at a time")
	flags.BoolVar(&o.one, "one", false, "one pod, in which so many containers come and go, with an exec each")
	flags.DurationVar(&o.patience, "patience", 60*time.Second, "how long a call may take")
	_ = flags.Parse(os.Args[2:])
	if err := try(func() { commands[os.Args[1]](o) }); err != nil {
		fmt.Fprintln(os.Stderr, "cri-client:", err)
		os.Exit(1)
	}
}
