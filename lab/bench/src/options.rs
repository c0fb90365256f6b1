//! The command line.

use crate::session::{With, run};
use crate::{
    Error, ablation, bulk, burst, config, density, faas, favordynmods, first_use, flame, groups,
    kubernetes, layers, learned, leftover, lookups, memory, mounts, pools, report, restore, shim,
    spaced, staircase, start, templates, trace, unshare,
};
use clap::{Parser, Subcommand};

/// Measures OCI runtimes on this host, in interleaved rounds, and evaluates the samples.
#[derive(Debug, Parser)]
#[command(name = "dayfly-bench", bin_name = "dayfly bench", version, mut_subcommands(uniform))]
pub struct Options {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The experiments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Time the commands of a container's life cycle, for each runtime
    ///
    /// CPU times come from the scheduler's clock and are exact. They include children that were
    /// waited for. User and system time are omitted where the kernel divides the CPU time by timer
    /// ticks.
    Start(With<start::Start>),
    /// Run many containers with several in flight, and probe the host's responsiveness meanwhile
    Burst(With<burst::Burst>),
    /// Start a container at a fixed interval, and measure the time until it reports that it runs
    Spaced(With<spaced::Spaced>),
    /// Replay invocations of functions, and show the cost and the benefit of each policy of keeping
    /// containers ready
    ///
    /// Each invocation is due at a fixed time, whether or not earlier invocations are done. A
    /// container's program waits on its standard input for invocations, reports the time when one
    /// begins, waits for its duration, and reports the time again. By default, three functions of a
    /// paper are replayed; --trace replays any trace in the format of Azure's trace.
    Faas(Box<With<faas::Faas>>),
    /// Time the same start with short and long mount tables
    Mounts(With<mounts::Mounts>),
    /// Start containers from root filesystems with few and many layers, in every mode of assembling
    /// them
    ///
    /// dayfly assembles them itself. Other runtimes take a directory: for them the same layers are mounted as an overlay
    /// on the host before "run" and unmounted after it, as an engine does, and both are in the measured time. This
    /// requires Linux 6.7.
    Layers(With<layers::Layers>),
    /// Time the first start with a seccomp profile that no cache contains, and the next start with
    /// it
    ///
    /// In every round each runtime runs two containers with the same profile: the bundle's with an
    /// additional rule that no earlier round had. The first time, the runtime compiles the profile;
    /// the second time, it may use a cached filter. dayfly caches filters in /run/dayfly-cache,
    /// which the experiment covers by a tmpfs in its own mount namespace. crun caches filters below
    /// its --root, which belongs to the experiment. runc compiles the profile each time. The report
    /// shows which runtimes have cached a filter.
    FirstUse(With<first_use::FirstUse>),
    /// Time the same container without seccomp, network namespace, message queues, IPC namespace
    ///
    /// Shows how much time each of these costs a start, for each runtime. Every round runs the
    /// unchanged container, then the container without each of them, then without all of them.
    Staircase(With<staircase::Staircase>),
    /// Time the same container with its seccomp profile, with a profile learned from its calls, and
    /// without a profile
    ///
    /// First each runtime runs the container several times, traced by ptrace(2) like "dayfly profile learn", and gets a
    /// profile of its own, which includes the runtime's own calls under the filter. The instructions are those of
    /// dayfly's compiler; other runtimes' filters are libseccomp's.
    Learned(With<learned::Learned>),
    /// Time the lookup of system calls of the engines' profile by name: with dayfly and with libseccomp
    ///
    /// Looks up all names a thousand times, for each architecture of the profile. The program
    /// dayfly-libseccomp, if it is in the directory of this program, calls libseccomp. Names that
    /// libseccomp does not know are omitted. A linear search represents libseccomp before version
    /// 2.5.
    Lookups(lookups::Lookups),
    /// Time a program that makes a thousand IPC namespaces, one after the other
    Unshare(unshare::Unshare),
    /// Time moves between cgroups, forks and exits, reads and starts, with and without favordynmods
    ///
    /// By default, the experiment changes nothing on the host, and times the operations with the
    /// host's present setting.
    #[command(name = "favordynmods")]
    FavorDynmods(With<favordynmods::FavorDynmods>),
    /// Show the smallest memory limit with which a container starts, the peak of commands, and the
    /// use by an idle container
    ///
    /// limit: memory.max, on v1 memory.limit_in_bytes, found by binary search; it includes the
    /// container's program. This figure requires a memory controller. peak: VmHWM of the runtime's
    /// processes, read by ptrace(2) when each exits or executes another program; the figure of
    /// wait4(2) would include the memory of the parent that spawned them. idle: the processes that
    /// the runtime has left in addition to the container's own, their resident memory, the
    /// runtime's state files, and the memory charged to the container's cgroup; the kernel charges
    /// up to 256 KiB per CPU in advance.
    Memory(With<memory::Memory>),
    /// Show what an idle container holds, and whether a start takes longer the more containers there are
    ///
    /// All runtimes have a crowd of idle containers, whose program only waits. At each count, each runtime starts and
    /// removes further containers in turns. Memory: the PSS of processes, and the growth of the kernel's counters in
    /// /proc/meminfo, for crowds that have grown by 50 or more. The crowds stop growing when memory, threads or a limit
    /// of the host are used up; a large --count finds this end. "dayfly bench kubernetes" shows the memory of shims
    /// beside pods.
    Density(With<density::Density>),
    /// Create many containers, then time the starts of all of them
    ///
    /// A host does this when it boots and its containers were created in advance. The measured time
    /// is from before the first start until the last start returns. The containers' programs exit
    /// by themselves, and are waited for afterwards.
    Bulk(With<bulk::Bulk>),
    /// Compare a program's start until it is ready with its restore from a checkpoint
    ///
    /// Python, a JVM and Node.js of this host load libraries, then report that they are ready. Each
    /// runtime saves a container of each program once, by criu. In every round it starts such a
    /// container, restores the saved container, and starts a container with a shell. The last start
    /// shows for which warm-up times a restore is faster.
    Restore(With<restore::Restore>),
    /// Compare containers whose program a template forks with cold, restored and warm containers
    ///
    /// The program is a Python function that imports 26 modules, and then answers requests. The time of an answer is
    /// from before the command until the answer arrives; for a started container, from the request on. Only the first
    /// runtime takes part, and it must be dayfly. Forks need Linux 6.15.
    Templates(With<templates::Templates>),
    /// Compare containerd shims: dayfly's own, and containerd's with each runtime
    ///
    /// The experiment starts a containerd with its own root, state, sockets and cgroup. It measures
    /// times, the CPU time of everything except the client (containerd, shims, runtime, the
    /// container), the time from a shim's start to the end of its delete, and memory and threads of
    /// shims. The figures of pods require a CRI client, which scripts/programs cri-client builds.
    Shim(With<shim::Shim>),
    /// Compare RuntimeClasses of a Kubernetes cluster, on one of its nodes
    ///
    /// Run it on the node, with the rights to make a namespace and to read the kubelet's metrics.
    /// It makes pods in a namespace of its own, and deletes the namespace at the end: many pods at
    /// once, pods of a Job, and pods that the kubelet probes. A pod's start is measured by the
    /// kubelet; CPU time is that of all processes of the node except kubectl.
    Kubernetes(kubernetes::Kubernetes),
    /// Show how much time each fast path saves on this host
    Ablation(With<ablation::Ablation>),
    /// Measure how much time a start saves if its cgroup was made in advance
    #[command(alias = "tiers")]
    Pools(With<pools::Pools>),
    /// Show where the time of a start goes, step by step, from dayfly's own trace or from any
    /// runtime's system calls
    Trace(With<trace::Trace>),
    /// Show how much time dayfly's own trace costs
    TraceOverhead(With<trace::overhead::TraceOverhead>),
    /// Reproduce the experiments of papers and articles on container starts here, and write a page
    ///
    /// Each part is an experiment of this program or of "dayfly host". The page shows published
    /// figures next to measured figures, the command that reproduces them, versions and the host.
    /// It is written as index.html, which contains the pictures, as report.md with the pictures in
    /// separate files, and as report.json. Results of finished parts are kept in the directory. The
    /// same command does not run these parts again, so it resumes an interrupted report. Leave the
    /// machine idle while the command runs.
    Report(report::Report),
    /// Show what control groups do for applications that share a host
    ///
    /// Instances of a memory workload run in groups to which "dayfly cgroup" assigns CPUs and
    /// memory. The figures are transactions per second, and the 99th percentile of their times. The
    /// experiment uses the whole host while it runs.
    Groups(With<groups::Groups>),
    /// Show where CPUs spend their time in a burst, as flame graphs with the kernel's functions
    ///
    /// perf(1) samples the stacks of all processes of the burst. Work that kernel threads do later
    /// for a container is not included.
    Flame(With<flame::Flame>),
    /// Remove cgroups, mounts and directories that killed experiments have left behind
    Gc,
    /// Write the bundle that the experiments use
    Bundle(config::Bundle),
    /// Run as an instance of "groups"
    #[command(hide = true)]
    Work(groups::work::Work),
    /// Become the containerd of "shim"
    #[command(hide = true)]
    ShimDaemon(shim::daemon::ShimDaemon),
    /// Make N IPC namespaces
    #[command(hide = true)]
    MakeIpcNamespaces {
        /// The number.
        count: u32,
    },
    /// Make N system calls that do nothing and print the time in nanoseconds
    #[command(hide = true)]
    IdleCalls {
        /// The number.
        count: u32,
    },
}

impl Command {
    /// Does what the command line asks for.
    pub(crate) fn execute(self) -> Result<(), Error> {
        match self {
            Self::Start(start) => run(start),
            Self::Burst(burst) => run(burst),
            Self::Spaced(spaced) => run(spaced),
            Self::Faas(faas) => run(*faas),
            Self::Mounts(mounts) => run(mounts),
            Self::Layers(layers) => run(layers),
            Self::FirstUse(first_use) => run(first_use),
            Self::Staircase(staircase) => run(staircase),
            Self::Learned(learned) => run(learned),
            Self::Lookups(lookups) => lookups::command(&lookups),
            Self::Unshare(unshare) => unshare::command(&unshare),
            Self::FavorDynmods(favordynmods) => run(favordynmods),
            Self::Memory(memory) => run(memory),
            Self::Density(density) => run(density),
            Self::Bulk(bulk) => run(bulk),
            Self::Restore(restore) => run(restore),
            Self::Templates(templates) => run(templates),
            Self::Shim(shim) => run(shim),
            Self::Kubernetes(kubernetes) => kubernetes::command(&kubernetes),
            Self::Ablation(ablation) => run(ablation),
            Self::Pools(pools) => run(pools),
            Self::Trace(trace) => run(trace),
            Self::TraceOverhead(overhead) => run(overhead),
            Self::Report(report) => report::command(&report),
            Self::Groups(groups) => run(groups),
            Self::Flame(flame) => run(flame),
            Self::Gc => leftover::command(),
            Self::Bundle(bundle) => config::write(&bundle),
            Self::Work(work) => groups::work::command(&work),
            Self::ShimDaemon(daemon) => shim::daemon::become_daemon(&daemon),
            Self::MakeIpcNamespaces { count } => unshare::make(count),
            Self::IdleCalls { count } => {
                println!("{}", trace::calibrate::idle_calls(count));
                Ok(())
            }
        }
    }
}

/// Names the values of lists in the help of a command.
fn uniform(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let is_named = |arg: &clap::Arg| {
            arg.get_value_names().is_some_and(|names| names.iter().any(|it| it.contains('…')))
        };
        if arg.get_value_delimiter().is_none() || is_named(&arg) {
            return arg;
        }
        let name = if arg.get_possible_values().is_empty() { "N,…" } else { "NAME,…" };
        arg.value_name(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::Operation;
    use clap::CommandFactory;

    #[test]
    fn definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn a_step_stands_for_its_operation() {
        let line = ["bench", "start", "--operation", "run,create"];
        let Command::Start(start) = Options::parse_from(line).command else { panic!("not start") };
        assert_eq!(start.experiment.operation, [Operation::Run, Operation::Lifecycle]);
    }

    #[test]
    fn a_trace_takes_a_bundle_and_a_program() {
        let line = ["bench", "trace", "/b", "-n", "5", "--format", "json", "--", "/bin/x", "-n"];
        let Command::Trace(trace) = Options::parse_from(line).command else { panic!("not trace") };
        assert_eq!((trace.experiment.count, trace.common.forms.is_json()), (5, true));
        assert_eq!(trace.experiment.directory.as_deref(), Some(std::path::Path::new("/b")));
        assert_eq!(trace.common.program, ["/bin/x", "-n"]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for line in ["trace -n 0", "start --bundle /x --profile plain"] {
            assert!(Options::try_parse_from(["bench"].into_iter().chain(line.split(' '))).is_err());
        }
    }
}
