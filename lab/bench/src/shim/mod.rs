//! `shim`: measures the shims between containerd and containers: dayfly's, and containerd's own with each runtime.
//!
//! | part | what |
//! |---|---|
//! | [`minder`] | the entrants |
//! | [`daemon`], [`image`] | the experiment's containerd, and its images |
//! | [`account`] | CPU time without the client |
//! | [`span`] | the time from a shim's start to the end of its delete, by the kernel's process events |
//! | [`client`] | a CRI client in Go |
//! | [`goes`] | performs one measurement of each figure |
//!
//! The CPU time is that of the cgroup that contains containerd, its shims, the runtime, and the container with its
//! program: everything except the client. The cgroup's time comes from the scheduler's clock, and includes removed
//! descendants.

mod account;
mod client;
pub mod daemon;
mod goes;
mod image;
mod minder;
mod span;

use crate::harness::*;
use client::Client;
use daemon::Daemon;
use goes::Bench;

/// `shim`.
#[derive(Debug, Args)]
#[command(
    mut_arg("runtimes", |arg| arg.help("A runtime that containerd's own shim executes; repeatable [default: dayfly, and crun, runc and youki as far as they are found]")),
    mut_arg("bundle", |arg| arg.hide(true)),
    mut_arg("profile", |arg| arg.hide(true)),
    mut_arg("no_device_rules", |arg| arg.hide(true)),
    mut_arg("program", |arg| arg.hide(true))
)]
pub struct Shim {
    /// dayfly's shim [default: containerd-shim-dayfly-v2 beside this program or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
    /// A directory with containerd, ctr and containerd-shim-runc-v2 [default: build/containerd2
    /// beside this program's target directory, or else the directory of containerd in $PATH]
    #[arg(long, value_name = "DIR")]
    pub containerd: Option<PathBuf>,
    /// The CRI client that scripts/programs cri-client builds [default: cri-client beside that directory, or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub client: Option<PathBuf>,
    /// The operations to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "run,exec,idle,pod,idle-pod")]
    pub figure: Vec<Measured>,
    /// Number of measured rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "30")]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub warm_up: usize,
    /// Wait this long after each operation, and add the CPU time of this pause to the operation's,
    /// because containerd is busy longer than its client
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60ms")]
    pub pause: Duration,
}

/// An operation of a shim that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// `ctr run` of a program that exits at once
    Run,
    /// `ctr task exec` of a program that exits at once
    Exec,
    /// Memory and threads in use beside a sleeping container
    Idle,
    /// The life cycle of a pod with a container over the CRI, call by call
    Pod,
    /// Memory and threads in use beside a pod with a sleeping container
    IdlePod,
}

/// The maximum number of rounds for measurements of memory, which varies little.
const IDLE_ROUNDS: usize = 8;

impl Experiment for Shim {
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        minder::entrants(self, common)
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let mut figures = Figures::default();
        let mut version = String::new();
        let plain = [Measured::Run, Measured::Exec, Measured::Idle];
        let pods = [Measured::Pod, Measured::IdlePod];
        for (with_cri, measured) in [(false, &plain[..]), (true, &pods)] {
            let measured = measured.iter().copied().filter(|it| self.figure.contains(it));
            let measured: Vec<Measured> = measured.collect();
            if measured.is_empty() {
                continue;
            }
            let daemon = Daemon::start(self, stand, entrants, with_cri)?;
            version.clone_from(&daemon.version);
            let mut bench = Bench::new(self, &daemon);
            if with_cri {
                bench.client = Some(Client::start(self, stand, &daemon)?);
            }
            for measured in measured {
                self.measure_one(&mut figures, &mut bench, entrants, measured)?;
            }
        }
        // An excluded entrant is not compared with others.
        let first = entrants.iter().find(|entrant| !entrant.is_out());
        let mut outcome = figures.whole_outcome(first.map_or("", |first| &first.name))?;
        outcome.text.insert_str(0, &format!("containerd: {version}\n\n"));
        outcome.with("containerd", &version)
    }
}

impl Shim {
    /// Runs the rounds of one figure; all entrants take turns.
    fn measure_one(
        &self,
        figures: &mut Figures,
        bench: &mut Bench<'_>,
        entrants: &[Entrant],
        measured: Measured,
    ) -> Result<(), Error> {
        let idle = matches!(measured, Measured::Idle | Measured::IdlePod);
        let timed = if idle { self.rounds.min(IDLE_ROUNDS) } else { self.rounds };
        // Each measurement makes the pause itself.
        let rounds = Rounds { warm_up: self.warm_up, timed, ..Rounds::default() };
        for (at, entrant) in entrants.iter().enumerate() {
            if !entrant.is_out() && measured == Measured::Exec {
                entrant.attempt(bench.hold(at, entrant))?;
            }
        }
        let title = format!("shim, {}", goes::title(measured));
        let samples =
            in_turns(entrants, rounds, &title, |at| bench.go(measured, at, &entrants[at]))?;
        bench.let_go();
        figures.add(entrants, samples);
        Ok(())
    }
}
