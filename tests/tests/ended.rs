//! A run of the suite that a signal ends.

use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, cgroups, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] =
    &[case!(leaves_nothing), case!(waits).when(|| std::env::args().any(|word| word == WAITS))];

/// The option that selects the case [`waits`] in a run of its own.
const WAITS: &str = "--waits";

/// A case that waits until a signal ends the run.
fn waits(bed: &Bed) {
    let _running = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let frozen = bed.bundle().args(&["sleep", "1000"]).make().detached();
    frozen.id_call("pause", &[], &[]).run().ok();
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv();
}

/// A run of the suite.
struct Run(Child);

impl Run {
    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), signal).expect("kill");
        self.0.wait().expect("wait").code()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // After a failed assertion, the run has not ended yet.
        if let Ok(None) = self.0.try_wait() {
            self.end(Signal::TERM);
        }
    }
}

fn leaves_nothing(bed: &Bed) {
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let suite = std::env::current_exe().expect("the suite");
        let mut command = Command::new(suite);
        command.args(["ended::waits", WAITS]).env("DAYFLY", bed.runtime()).env("TMPDIR", &bed.dir);
        command.env_remove("DAYFLY_TALLY").stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = Run(command.spawn().expect("execute the suite"));
        let id = run.0.id();
        let name = format!("df{id}-");
        let groups = || {
            let parents = cgroups::hierarchies(bed.view).into_iter();
            let parents = parents.map(|top| top.join(cgroups::PARENT.trim_start_matches('/')));
            let entries =
                parents.filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
            let own =
                entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name));
            own.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let is_frozen = || {
            let read = |file: &str| {
                groups()
                    .iter()
                    .filter_map(|group| fs::read_to_string(group.join(file)).ok())
                    .collect::<String>()
            };
            read("freezer.state").contains("FROZEN") || read("cgroup.freeze").contains('1')
        };
        wait::until_true("a frozen container", is_frozen);
        assert_eq!(run.end(signal), Some(status));
        assert!(groups().is_empty(), "left: {:?}", groups());
        let left = bed.dir.join(format!("dayfly-tests-{id}"));
        assert!(!left.exists(), "{} is left", left.display());
    }
}
